"""Explanations as tables: causes with their prices, and the system calls that differ."""

from __future__ import annotations

from thunderherd.records.explanation import Cause, Explanation, Range
from thunderherd.show.sentences.explanation import (
    WHOSE,
    digits_of,
    how_often,
    name_of,
    scale_of,
    sentence,
    unit_of_times,
)
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import ABSENT, SMALL_SECONDS, capital, decimals, number, printable, span

__all__ = ["calls_table", "causes_table"]


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


def calls_table(explanation: Explanation) -> Table:
    """Shows the system calls that differ, and which of them another price includes."""
    scale = scale_of(explanation)
    rows = tuple(
        Row(
            (
                Cell(item.name),
                Cell(how_often(item.a * scale)),
                Cell(how_often(item.b * scale)),
                Cell("" if item.priced else "in the price of a process, a thread or a connection"),
            )
        )
        for each in explanation.causes
        if each.cause == "system_calls"
        for item in each.items
    )
    heads = (Column("System calls that differ", "name"), Column(explanation.a), Column(explanation.b))
    return Table("", (*heads, Column("", "words")), rows)


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
