"""The source's counters of both sides with this machine's: `[paper_counters]`, checked and filled in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from thunderherd.claims.contrast_tables import (
    at_point,
    bases_of,
    declared_sweeps,
    left_out_here,
    points_of,
)
from thunderherd.errors import Problem, UserError
from thunderherd.metrics.table import OF_A_LIFE, PER_CPU_SECOND, SIDES, UNITS_OF_TIME, metric, metric_names
from thunderherd.records.paper_counters import CountedCell, CountedProgram, CountedSummary, Derived
from thunderherd.records.summary import ContenderSummary
from thunderherd.study.file.source_tables import PaperCountersTable
from thunderherd.study.loading import Study
from thunderherd.study.source_figures import read_table
from thunderherd.text.figures import Unit
from thunderherd.toml.file import KeyPath, Problems, TomlFile, show, suggest, unknown

__all__ = ["PaperCounters", "counted", "load_counters"]

NOT_COUNTED = "Thunderherd does not count it"
HERE: KeyPath = ("paper_counters",)


class PaperCounters(BaseModel):
    """The source's table, checked against a study; `figures` are by event, side and our contender."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    table: PaperCountersTable
    events: dict[str, str]
    """The events in the order of the file, with their units."""
    sides: tuple[str, ...]
    figures: dict[tuple[str, str, str], float]
    derived: dict[tuple[str, str, str], str]
    """The derived figures that the source prints after them, if its file has any."""
    programs: tuple[CountedProgram, ...]

    def metric_of(self, event: str, side: str) -> str | None:
        """Return the metric of an event; None if it is not counted."""
        counter = self.table.events.get(event)
        return f"{side}.{counter}" if counter else None


def load_counters(study: Study) -> PaperCounters | None:
    """Return the source's counters; None if the study has no table [paper_counters].

    Raises
    ------
    UserError
        A problem for each mistake, with its line.
    """
    table = study.paper_counters
    if table is None:
        return None
    problems = Problems(TomlFile(study.path))
    _check_place(table, study, problems)
    read = _read(table, study, problems)
    problems.raise_any()
    return read


def _check_place(table: PaperCountersTable, study: Study, problems: Problems) -> None:
    """Check that the contenders and counters of the table exist."""
    if (table.sweep is None) != (table.point is None):
        key, other = ("point", "sweep") if table.point else ("sweep", "point")
        problems.add(
            HERE,
            f"{key} without {other}",
            code="study.sweep_without_point" if key == "sweep" else "study.point_without_sweep",
            hint="give both, or neither for the main table",
        )
        return
    if table.sweep is None:
        bases = [each.name for each in study.contenders if each.sweep is None]
        bases += [name for name in study.absent if "@" not in name]
    elif table.sweep not in (sweeps := declared_sweeps(study)):
        problems.add((*HERE, "sweep"), unknown("sweep", table.sweep, sweeps))
        return
    else:
        bases = bases_of(study, table.sweep)
        if table.point not in (points := points_of(study, table.sweep)):
            problems.add((*HERE, "point"), unknown(f"point of sweep {table.sweep}", table.point, points))
    for design, base in table.designs.items():
        if base not in bases:
            problems.add((*HERE, "designs", design), unknown("contender", base, bases))
    counters = study.measure.asked.of_sides
    for event, counter in table.events.items():
        if counter not in counters:
            problems.add(
                (*HERE, "events", event),
                f"the study does not count {show(counter)}",
                code="study.counter_not_requested",
                hint=suggest(counter, counters, f"name it in measure.counters; it has {', '.join(counters)}"),
            )
        if event in table.reasons:
            problems.add(
                (*HERE, "reasons", event),
                f"event {show(event)} has a reason, but it is counted",
                code="study.reason_of_counted_event",
                hint="leave its reason out",
            )


def _read(table: PaperCountersTable, study: Study, problems: Problems) -> PaperCounters | None:
    """Return the file's figures of the designs that are mapped."""
    columns, path = table.columns, study.path.parent / table.file
    try:
        rows = read_table(path, [name for name in columns.model_dump().values() if name is not None])
    except UserError as error:
        for each in error.problems:
            message = f"{each.where}: {each.message}" if each.where else each.message
            problems.add((*HERE, "file"), replace(each, message=message))
        return None
    events: dict[str, str] = {}
    figures: dict[tuple[str, str, str], float] = {}
    derived: dict[tuple[str, str, str], str] = {}
    programs: dict[CountedProgram, None] = {}
    for number, row in enumerate(rows, start=2):
        where = f"{path}:{number}"
        event, side, unit = row[columns.event], row[columns.side], row[columns.unit]
        if side not in SIDES:
            allowed = f"allowed: {', '.join(SIDES)}"
            problems.note(Problem(f"{columns.side} = {show(side)}", "source.unknown_side", allowed, where))
            continue
        if events.setdefault(event, unit) != unit:
            units = f"{event} is in {show(unit)}, before in {show(events[event])}"
            problems.note(Problem(units, "source.several_units", "give one unit", where))
        base = table.designs.get(row[columns.design])
        if base is None:
            continue
        try:
            value = float(row[columns.value])
        except ValueError:
            no_number = f"{columns.value} = {show(row[columns.value])} is no number"
            problems.note(Problem(no_number, "source.not_a_number", where=where))
            continue
        if figures.setdefault((event, side, base), value) != value:
            twice = f"two values for {event} of {row[columns.design]}, {side}"
            problems.note(Problem(twice, "source.duplicate_figure", where=where))
        if columns.derived and columns.program and columns.figure:
            derived[event, side, base] = row[columns.derived].strip()
            own = CountedProgram(
                side="server" if side == "server" else "client",
                base=base,
                program=row[columns.program],
                figure=row[columns.figure],
            )
            programs[own] = None
    _check_file(table, rows, events, study.measure.counters, problems)
    sides = tuple(side for side in SIDES if any(row[columns.side] == side for row in rows))
    return PaperCounters(
        table=table,
        events=events,
        sides=sides,
        figures=figures,
        derived=derived,
        programs=tuple(programs),
    )


def _check_file(
    table: PaperCountersTable,
    rows: Sequence[Mapping[str, str]],
    events: Mapping[str, str],
    counters: Mapping[str, str],
    problems: Problems,
) -> None:
    """Check that the file has what the study names, and that times have a unit of time."""
    designs = dict.fromkeys(row[table.columns.design] for row in rows)
    for design in table.designs:
        if design not in designs:
            problems.add((*HERE, "designs", design), unknown(f"design in {table.file}", design, designs))
    for key, named in (("events", table.events), ("reasons", table.reasons)):
        for event in named:
            if event not in events:
                problems.add((*HERE, key, event), unknown(f"event in {table.file}", event, events))
    for event, counter in table.events.items():
        unit = events.get(event)
        if (
            unit is not None
            and metric(f"server.{counter}", counters).unit == "s"
            and unit not in UNITS_OF_TIME
        ):
            problems.add(
                (*HERE, "events", event),
                f"{table.file} gives {event} in {show(unit)}, which is no unit of time",
                code="source.unknown_unit_of_time",
                hint=f"known: {', '.join(UNITS_OF_TIME)}",
            )


# What came out ----------------------------------------------------------------------------------------------


def counted(
    study: Study, contenders: Sequence[ContenderSummary], unavailable: Mapping[str, str]
) -> CountedSummary | None:
    """Return the table of both sides; None if the study has none, or this size runs none of its contenders.

    Parameters
    ----------
    study
        As resolved for the run.
    contenders
        Their summaries.
    unavailable
        Why this machine does not offer a metric, by metric.
    """
    paper = load_counters(study)
    if paper is None:
        return None
    table = paper.table
    found = {each.base: each for each in contenders if (each.sweep, each.point) == (table.sweep, table.point)}
    if not found:
        return None
    # Controls are ours alone; they are in the tables of their contenders.
    others = [name for name, each in found.items() if not each.control_of]
    bases = list(dict.fromkeys([*table.designs.values(), *others]))
    return CountedSummary(
        title=table.title,
        sweep=table.sweep,
        point=table.point,
        events=list(paper.events),
        contenders=bases,
        cells=[
            _cell(paper, study, event, side, base, found.get(base), unavailable)
            for side in paper.sides
            for event in paper.events
            for base in bases
        ],
        programs=[each for each in paper.programs if each.base in found],
        notes={event: note for event in paper.events if (note := study.notes_about(f"event {event}"))},
    )


def _cell(
    paper: PaperCounters,
    study: Study,
    event: str,
    side: str,
    base: str,
    contender: ContenderSummary | None,
    unavailable: Mapping[str, str],
) -> CountedCell:
    name, unit = paper.metric_of(event, side), paper.events[event]
    found = contender.metrics.get(name) if contender and name else None
    is_time = name is not None and metric(name, study.measure.counters).unit == "s"
    shown = Unit(UNITS_OF_TIME[unit], unit) if is_time else Unit(1, unit)
    return CountedCell(
        event=event,
        side="server" if side == "server" else "client",
        base=base,
        unit=unit,
        metric=name,
        value=shown.interval(found),
        spread=shown.spread(contender.spread.get(name)) if contender and name else None,
        scaled=contender.scaled.get(name) if contender and name and found else None,
        why=None if found else _why_not(paper, study, event, name, base, contender, unavailable),
        paper=paper.figures.get((event, side, base)),
        derived=_derived(name, study, contender) if paper.table.columns.has_form else None,
        paper_derived=paper.derived.get((event, side, base), ""),
    )


DERIVED = {
    "task_clock": "cpus_utilized",
    "cpu_clock": "cpu_clock_per_second",
    "cpu_cycles": "gigahertz",
    "instructions": "instructions_per_cycle",
    "branch_misses": "branch_miss_share",
    "cache_misses": "cache_miss_share",
}
"""The figure that perf-stat(1) prints after a counter; after others it prints a rate per second of CPU time.

Source: Linux, tools/perf/util/stat-shadow.c.
"""


def _derived(name: str | None, study: Study, contender: ContenderSummary | None) -> Derived | None:
    """Return the derived figure; None if none follows from the requested counters."""
    if name is None or contender is None:
        return None
    side, _, counter = name.partition(".")
    derived = f"{side}.{DERIVED.get(counter, f'{counter}{PER_CPU_SECOND}')}"
    if derived not in metric_names(study.measure.asked):
        return None
    return Derived(metric=derived, value=contender.metrics.get(derived), spread=contender.spread.get(derived))


def _why_not(
    paper: PaperCounters,
    study: Study,
    event: str,
    name: str | None,
    base: str,
    contender: ContenderSummary | None,
    unavailable: Mapping[str, str],
) -> str:
    if name is None:
        return paper.table.reasons.get(event, NOT_COUNTED)
    if contender is None:
        table = paper.table
        full = base if table.sweep is None else at_point(base, table.sweep, table.point or "")
        return "; ".join(left_out_here({full}, study)) or study.absent.get(full, f"{base} is not in this run")
    if name in unavailable:
        return unavailable[name]
    if contender.blocks == 0:
        return f"the run has no valid trials of {contender.name}"
    if contender.trial == "window" and name.partition(".")[2] in OF_A_LIFE:
        return "reported for whole-life trials only; this trial is a window"
    return "this run did not measure it"
