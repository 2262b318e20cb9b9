"""The tables that programs read: a row for each thing, a column for each figure, units in the heads.

Figures have all their digits. A figure that is missing is an empty field, and the last column says why.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from thunderherd.metrics.table import SIDES, in_order, known_metric
from thunderherd.records.limits import MachineLimits
from thunderherd.records.summary import (
    PROCESS_CONTROL,
    ContenderSummary,
    PaperFigure,
    Summary,
    SweepSummary,
)
from thunderherd.show.sentences.source_figures import papers_of
from thunderherd.show.tables.model import Field, Table, interval_fields, plain_table
from thunderherd.show.tables.sweeps import why_none, why_not
from thunderherd.text.figures import Unit, extrapolated, main_of, seconds_per, shows_process_control
from thunderherd.text.printable import printable
from thunderherd.text.shown import at_points, shown, shown_of, unit_for

__all__ = [
    "counted_data",
    "counters_data",
    "figures_data",
    "main_data",
    "records_data",
    "runs_data",
    "slopes_data",
    "sweep_data",
]

REMARKS = "remarks"
"""The head of the column that explains missing and extrapolated figures."""
HERE = "ran here"
"""The head of what ran instead of a point, if the source's experiment is scaled."""


def _headed(name: str, unit: str) -> str:
    """Writes `server_cpu_per_request [µs]`; a plain number has no unit."""
    return f"{name} [{unit}]" if unit else name


def figures_data(
    summary: Summary,
    contenders: Sequence[ContenderSummary],
    names: Sequence[str],
    *,
    more: Sequence[tuple[str, Sequence[Field]]] = (),
) -> Table:
    """Makes a row for each contender: its names, `more` columns, then each metric with its interval.

    Repeated runs have their mean, with ends one standard deviation away.
    """
    units = _units(summary, contenders, names)
    heads = ["contender", "base", "sweep", "point", "design", "blocks", *(head for head, _ in more)]
    heads += [head for name in names for head in _figure_heads(name, units[name])]
    rows = []
    for place, each in enumerate(contenders):
        known: list[Field] = [each.name, each.base, each.sweep, each.point, each.design, each.blocks]
        row = [*known, *(column[place] for _, column in more)]
        for name in names:
            row += _figure(summary, each, name, units[name])
        rows.append([*row, "; ".join(_remarks(summary, each, names))])
    return _without_optional(heads, rows)


def main_data(summary: Summary) -> Table:
    """Makes the main table: metric, ranks, cost of process control."""
    main = main_of(summary)
    more: list[tuple[str, Sequence[Field]]] = [
        ("row", [each.row for each in main]),
        ("label", [each.label for each in main]),
        ("control_of", [each.control_of for each in main]),
        ("rank", [each.rank for each in main]),
        ("letters", [each.letters for each in main]),
    ]
    if shows_process_control(summary):
        unit = Unit(1, seconds_per(summary.study.normalise_connections))
        intervals = [interval_fields(each.process_control_seconds) for each in main]
        more += zip(_figure_heads(PROCESS_CONTROL, unit), zip(*intervals, strict=True), strict=True)
    return figures_data(summary, main, [summary.study.metric], more=more)


def counters_data(summary: Summary) -> Table:
    """Makes a row with all metrics of both sides for each contender."""
    every = in_order(name for each in summary.contenders for name in (*each.metrics, *each.spread))
    names = [name for name in every if name.partition(".")[0] in (*SIDES, "both") and "." in name]
    return figures_data(summary, summary.contenders, names)


def sweep_data(summary: Summary, sweep: SweepSummary, names: Sequence[str]) -> Table:
    """Makes a row for each point and contender of a sweep, with the source's figure after each metric.

    Contenders that this machine did not run have rows, too.
    """
    found = at_points(summary, sweep)
    units = _units(summary, [*found.values()], names)
    papers = {name: _single(papers_of(summary, sweep.name, name)) for name in names}
    heads = [sweep.x_label, HERE, "contender", "blocks"]
    for name in names:
        heads += [*_figure_heads(name, units[name]), f"{name} paper", f"{name} paper unit"]
    rows = []
    for point in sweep.points:
        for base in sweep.contenders:
            each = found.get((base, point.name))
            row: list[Field] = [point.name, point.here, base, each.blocks if each else 0]
            remarks = list(_remarks(summary, each, names, sweep)) if each else []
            for name in names:
                row += _figure(summary, each, name, units[name])
                paper = papers[name].get((base, point.name))
                row += [paper.value, paper.unit or units[name].name] if paper else [None, None]
            if each is None:
                remarks = [why_not(summary, sweep, names[0], base, point.name, None)]
            rows.append([*row, "; ".join(remarks)])
    return _without_optional(heads, rows)


def slopes_data(summary: Summary, sweep: SweepSummary) -> Table:
    """Makes a row for each slope, in its metric's unit; repeated runs as in `figures_data`."""
    parts = ("each", "start", "r_squared")
    heads = ["contender", "metric", *(f"{part}{end}" for part in parts for end in ("", " low", " high"))]
    rows = []
    for line in sweep.slopes:
        row: list[Field] = [line.base, line.metric]
        for part in parts:
            row += interval_fields(shown(summary, getattr(line, part), getattr(line, f"{part}_spread")))
        rows.append([*row, line.why])
    return plain_table([*heads, "why"], rows)


def runs_data(summary: Summary, contenders: Sequence[ContenderSummary], names: Sequence[str]) -> Table:
    """Makes a row for each run, with metrics in their own units."""
    rows = [
        [each.base, each.sweep, each.point, number, *(run.get(name) for name in names)]
        for each in contenders
        for number, run in enumerate(each.runs, start=1)
    ]
    known = [known_metric(name, summary.study.counters) for name in names]
    units = [_headed(name, found.unit if found else "") for name, found in zip(names, known, strict=True)]
    return plain_table(["contender", "sweep", "point", "run", *units], rows)


def counted_data(summary: Summary) -> Table:
    """Makes a row for each counter of the source, next to this machine's."""
    heads = ["side", "event", "contender", "unit", "metric", "value", "low", "high", "paper", "why"]
    rows = []
    for each in summary.counted.cells if summary.counted else ():
        figures = interval_fields(shown(summary, each.value, each.spread))
        rows.append(
            [each.side, each.event, each.base, each.unit, each.metric, *figures, each.paper, each.why]
        )
    return plain_table(heads, rows)


def records_data(found: Sequence[object], **heads: str) -> Table:
    """Makes a row for each record of one kind, with all of its fields; `heads` renames some."""
    names = type(found[0]).model_fields  # type: ignore[attr-defined]
    rows = [[getattr(each, name) for name in names] for each in found]
    return plain_table([heads.get(name, name) for name in names], rows)


def limits_data(limits: MachineLimits, of_hosts: Mapping[str, MachineLimits]) -> Table:
    """Makes a row for each limit; those of several hosts have the host in front."""
    if not of_hosts:
        return records_data(limits.figures)
    names = type(limits.figures[0]).model_fields
    rows = [
        [host, *(getattr(figure, name) for name in names)]
        for host, each in of_hosts.items()
        for figure in each.figures
    ]
    return plain_table(["host", *names], rows)


# Parts of them ----------------------------------------------------------------------------------------------


def _units(summary: Summary, contenders: Sequence[ContenderSummary], names: Sequence[str]) -> dict[str, Unit]:
    return {
        name: unit_for(summary, name, [shown_of(summary, each, name) for each in contenders])
        for name in names
    }


def _figure_heads(name: str, unit: Unit) -> list[str]:
    return [_headed(part, unit.name) for part in (name, f"{name} low", f"{name} high")]


def _figure(summary: Summary, each: ContenderSummary | None, name: str, unit: Unit) -> list[Field]:
    found = shown_of(summary, each, name)
    return [unit.of(found.value), unit.of(found.low), unit.of(found.high)] if found else [None, None, None]


def _remarks(
    summary: Summary, each: ContenderSummary, names: Sequence[str], sweep: SweepSummary | None = None
) -> Iterator[str]:
    for name in names:
        if shown_of(summary, each, name) is None:
            why = (
                why_none(summary, name, each)
                if sweep is None
                else why_not(summary, sweep, name, each.base, each.point or "", each)
            )
            yield printable(f"{name}: {why}")
        elif name in each.scaled:
            yield f"{name}: {extrapolated([each.scaled[name]])}"


def _single(papers: Sequence[PaperFigure]) -> dict[tuple[str, str | None], PaperFigure]:
    """Gives the source's figures by contender and point; those of several systems have another table."""
    found: dict[tuple[str, str | None], list[PaperFigure]] = {}
    for each in papers:
        found.setdefault((each.base, each.point), []).append(each)
    return {key: own[0] for key, own in found.items() if len(own) == 1}


def _without_optional(heads: Sequence[str], rows: Sequence[Sequence[Field]]) -> Table:
    """Drops optional columns without data; the last column has the remarks."""
    table, optional = plain_table([*heads, REMARKS], rows), {"sweep", "point", HERE, REMARKS}
    return table.part(
        place
        for place, column in enumerate(table.columns)
        if (column.head not in optional and " paper" not in column.head)
        or any(cell.data not in ((None,), ("",)) for cell in table.cells_of(place))
    )
