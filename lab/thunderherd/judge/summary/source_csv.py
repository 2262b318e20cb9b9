"""The source's own CSV with this machine's figures: its columns, and a line for each configuration."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from thunderherd.files import no_formula
from thunderherd.metrics.table import UNITS_OF_TIME, metric
from thunderherd.records.summary import ContenderSummary, Summary
from thunderherd.study.file.source_tables import CsvColumn, SourceCsvTable
from thunderherd.study.loading import Contender, Study
from thunderherd.text.figures import extrapolated, not_offered

__all__ = ["text_of"]

UNKNOWN = "unknown"
"""The field for a value that exists but that nothing reports."""

REMARKS = "remarks"
"""The heading of the added column of remarks."""

DIGITS = 10
"""Significant digits of a figure: more than any has, so writing it loses nothing."""


def text_of(study: Study, summary: Summary) -> str | None:
    """Return the whole file; None if the study has no such table, or this size none of its lines.

    A figure that was not measured is an empty field, never zero, and its line stays. A share of copied sends
    without a completion is `UNKNOWN`. A last column `REMARKS`, which the source does not have, says which
    figures are extrapolated and why events are unavailable. A mark in the field itself would make it no
    number. Without remarks there is no such column.
    """
    table = study.source_csv
    if table is None:
        return None
    lines = list(_lines(table, study, summary))
    if not lines:
        return None
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    has_remarks = any(remarks for _, remarks in lines)
    rows = [[*table.columns, REMARKS], *([*fields, remarks] for fields, remarks in lines)]
    writer.writerows(map(no_formula, row if has_remarks else row[:-1]) for row in rows)
    return text.getvalue()


def _lines(table: SourceCsvTable, study: Study, summary: Summary) -> Iterator[tuple[list[str], str]]:
    """Yield the fields of each line, and its remarks."""
    found = {each.name: each for each in summary.contenders}
    named = next((column.names for column in table.columns.values() if column.names is not None), None)
    for contender in study.contenders:
        if contender.sweep in table.sweeps and (named is None or contender.base in named):
            measured = found[contender.name]
            fields = [_field(column, study, contender, measured) for column in table.columns.values()]
            yield fields, "; ".join(_remarks(table, summary, measured))


def _remarks(table: SourceCsvTable, summary: Summary, measured: ContenderSummary) -> Iterator[str]:
    """Yield which columns of a line are extrapolated or unavailable, grouped by remark."""
    heads_of: dict[str, list[str]] = {}
    for head, column in table.columns.items():
        name = column.metric or ""
        if name in measured.metrics and name in measured.scaled:
            heads_of.setdefault(extrapolated([measured.scaled[name]]), []).append(head)
        elif name not in measured.metrics and (why := not_offered(summary, name)):
            heads_of.setdefault(f"unavailable: {why}", []).append(head)
    yield from (f"{', '.join(heads)}: {what}" for what, heads in heads_of.items())


def _field(column: CsvColumn, study: Study, contender: Contender, measured: ContenderSummary) -> str:
    if column.names is not None:
        return column.names[contender.base]
    if column.key is not None:
        value = contender.configured().get(column.key)
        return "" if value is None else str(value)
    name = column.metric or ""
    figure = measured.metrics.get(name)
    if figure is None:
        return UNKNOWN if name in measured.unknown else ""
    is_time = metric(name, study.measure.counters).unit == "s"
    return f"{figure.value * (UNITS_OF_TIME[column.unit or 's'] if is_time else 1):.{DIGITS}g}"
