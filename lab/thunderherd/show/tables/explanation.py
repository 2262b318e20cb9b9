"""Explanations as tables: causes with their prices, and pairs with their largest causes."""

from __future__ import annotations

from collections.abc import Sequence

from thunderherd.records.explanation import Cause, Explanation, Range
from thunderherd.records.summary import Summary
from thunderherd.show.sentences.explanation import (
    WHOSE,
    digits_of,
    how_often,
    largest_cause,
    name_of,
    scale_of,
    sentence,
    unit_of_times,
)
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import ABSENT, SMALL_SECONDS, capital, decimals, number, span
from thunderherd.text.printable import printable

__all__ = ["causes_table", "pairs_table"]


def causes_table(explanation: Explanation) -> Table:
    """Shows the counts, the price and the amount of each cause of a difference."""
    unit, between = unit_of_times(explanation), explanation.difference
    digits, scale = digits_of(explanation, unit), scale_of(explanation)
    a_megabyte = ", a MB" if explanation.per == "byte" else ""

    def amount(found: Range | None) -> Cell:
        if found is None:
            return Cell()
        bounds = "" if found.low == found.high else span(unit.of(found.low), unit.of(found.high), digits)
        return Cell(number(unit.of(found.value), digits), bounds)

    rows = [
        Row(
            (
                Cell(name_of(each) + (a_megabyte if each.cause != "rest" else ""), note=each.why or ""),
                Cell(ABSENT if each.a is None else how_often(each.a * scale)),
                Cell(ABSENT if each.b is None else how_often(each.b * scale)),
                Cell(_price(each)),
                amount(each.amount),
            )
        )
        for each in explanation.causes
        if each.a or each.b or each.amount is None or each.cause == "rest"
    ]
    if explanation.network is not None:
        cells = (Cell("network code in it, by profiles"), Cell(""), Cell(""), Cell(""))
        rows.append(Row((*cells, amount(explanation.network))))
    total = (
        Cell("difference"),
        Cell(f"{number(unit.of(between.a), digits)} {unit.name}"),
        Cell(f"{number(unit.of(between.b), digits)} {unit.name}"),
        Cell(""),
        Cell(
            number(unit.of(between.value), digits),
            span(unit.of(between.low), unit.of(between.high), digits),
        ),
    )
    columns = (
        Column(f"{capital(WHOSE[explanation.side])} per {explanation.per}", "name"),
        Column(explanation.a),
        Column(explanation.b),
        Column("Price of one"),
        Column(f"Amount, {unit.name}", span="bounds"),
    )
    return Table(printable(sentence(explanation)), columns, (*rows, Row(total, "total")))


def pairs_table(explanations: Sequence[Explanation], summary: Summary) -> Table:
    """Shows each pair in a row: the difference, its largest cause, and what has no price."""
    known = {each.name: each for each in summary.contenders}
    rows = []
    for each in explanations:
        unit, between = unit_of_times(each), each.difference
        digits = digits_of(each, unit)
        a, b = known[each.a], known[each.b]
        kind = "undecided" if not between.is_shown else "faster" if between.value < 0 else "slower"
        ends = span(unit.of(between.low), unit.of(between.high), digits) if between.low is not None else ""
        rest = each.rest.amount
        cells = (
            Cell(f"{a.sweep}={a.point}" if a.sweep else ""),
            Cell(a.base),
            Cell(b.base),
            Cell(f"{number(unit.of(between.value), digits)} {unit.name}", ends, kind=kind),
            Cell(largest_cause(each)),
            Cell(ABSENT if rest is None else f"{number(unit.of(rest.value), digits)} {unit.name}"),
        )
        rows.append(Row(cells))
    columns = (
        Column("At", "name", repeats=False),
        Column("a", "name"),
        Column("b", "name"),
        Column("a minus b"),
        Column("Largest cause", "words"),
        Column("The rest"),
    )
    return Table("", columns, tuple(rows)).without_empty()


def _price(cause: Cause) -> str:
    """Writes `197 ns`, or bytes per second for copies."""
    if cause.price is None or not cause.price.value:
        return ABSENT if cause.cause != "rest" else ""
    if cause.cause == "copies":
        rate = 1e-9 / cause.price.value
        return f"{number(rate, min(2, decimals([rate])))} GB/s"
    for below, factor, name in SMALL_SECONDS:
        if cause.price.value < below:
            value = cause.price.value * factor
            return f"{number(value, min(2, decimals([value])))} {name}"
    return f"{number(cause.price.value, 2)} s"
