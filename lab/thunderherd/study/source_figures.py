"""The source of a study: its figures, its inconsistencies, its claims.

All are files in the study's folder. The tables `[[paper]]` and `[[sweeps.paper]]` describe the files of
figures. A table has one metric, or several that each have a column in the same file:

```toml
[[paper]]                                       # main table: contenders by their `row`
file = "fig30_1.csv"
metric = "process_control_seconds"
contender = "row"
value = "process_control_cpu_s"

[[sweeps.paper]]                                # sweep: a line for each contender and point
file = "latency.csv"
metric = "latency_p50_seconds"
unit = "µs"
point = "connections"
contender = "server"
names = { single = "single-threaded", multi = "one thread a client" }
value = "median_us"

[[sweeps.paper]]                                # several metrics: a column for each
file = "cells.csv"
point = "size"
contender = "way"
names = { one_copy = "sendmsg", zero_copy = "zerocopy" }
note = "one run of 10 s"                        # for figures that have no other note
[sweeps.paper.figures]
gigabits_per_second = "gbps"
"client.cpu_cycles_per_byte" = { value = "cycles_per_byte", note = "computed" }
latency_mean_seconds = { value = "latency_us", unit = "us" }

[[sweeps.paper]]                                # a line for each point, a column for each contender
file = "throughput.csv"
metric = "requests_per_second"
point = "connections"
columns = { single = "single_req_s", multi = { "Linux" = "multi_linux", "Solaris" = "multi_solaris" } }
```

An entry in the list of inconsistencies about "row N", "sweep NAME" or a table's `figure` becomes a note of
all those figures in the summary. An entry about a contender and a metric, such as "prefork@pool_size=5
server_cpu_per_connection", becomes a note of that figure only.
"""

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from thunderherd.errors import UserError
from thunderherd.metrics.table import CPU_PER_CONNECTION, AskedCounters, metric_names
from thunderherd.records.summary import PROCESS_CONTROL, WORKERS, PaperFigure
from thunderherd.study.file.contenders import Point, points
from thunderherd.study.file.source_tables import PaperFigureTable, PaperTable
from thunderherd.study.file.tables import ContenderTable, StudyForm, SweepTable
from thunderherd.toml.file import KeyPath, Problems, read_text, show, suggest, unknown

NAME_OF_COLUMN = re.compile(r"[\w .%()/-]{1,40}")
MOST_LISTED = 12
"""The most metrics that a hint lists; with more it has the nearest one only."""

OF_CONTENDERS = (PROCESS_CONTROL, WORKERS)
"""Figures of the main table that a source may have, in addition to metrics."""


class Inconsistency(BaseModel):
    """A mistake of a source.

    `concerns` names what it applies to: "row 7", "claim H66", "sweep delay", "fig30_2", or one figure:
    "prefork@pool_size=5 server_cpu_per_connection".
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    as_printed: str
    finding: str
    concerns: tuple[str, ...]


def notes_about(inconsistencies: Iterable[Inconsistency], subject: str) -> str | None:
    """Return the findings about a subject as one text; None if there are none."""
    found = [f"{each.as_printed}: {each.finding}" for each in inconsistencies if subject in each.concerns]
    return "; ".join(found) or None


def inconsistencies_of(path: Path) -> list[Inconsistency]:
    """Read a list of inconsistencies; raise UserError if it is not one."""
    return [
        Inconsistency(
            as_printed=row["as_printed"],
            finding=row["finding"],
            concerns=tuple(part.strip() for part in row["concerns"].split(";")),
        )
        for row in read_table(path, ("as_printed", "finding", "concerns"))
    ]


def read_table(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """Read the rows of a CSV file with at least these columns, as texts; raise UserError if it is not one."""
    reader = csv.DictReader(read_text(path).splitlines(keepends=True), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        where = f"{path}:{reader.line_num}"
        raise UserError(f"not valid CSV: {error}", code="file.not_csv", where=where) from None
    there = reader.fieldnames or ()
    if missing := [column for column in columns if column not in there]:
        message = f"no column {' nor '.join(map(show, missing))}"
        meant = [found for column in missing if (found := suggest(column, there))]
        # The first line of any other file may be a secret.
        names = [each for each in there if NAME_OF_COLUMN.fullmatch(each)]
        hint = " ".join([*meant, f"columns: {', '.join(names) or 'none'}"])
        raise UserError(message, code="file.missing_column", hint=hint, where=f"{path}:1")
    for row in rows:
        if None in row or None in row.values():
            raise UserError(
                f"a row has another number of fields than the head: {show(list(row.values()))}",
                code="file.uneven_row",
                where=str(path),
            )
    return rows


@dataclass(frozen=True)
class Paper:
    """The source's figures, inconsistencies and claims.

    The keys of `figures` are names of sweeps, or None for the main table.
    """

    figures: Mapping[str | None, tuple[PaperFigure, ...]]
    inconsistencies: tuple[Inconsistency, ...]
    claims: Path | None

    @classmethod
    def read(cls, form: StudyForm, asked: AskedCounters, problems: Problems) -> "Paper":
        """Read the files that a study names. A mistake in a file is a problem of the key that names it.

        `asked` are the requested counters, from which the metrics follow.
        """
        folder = problems.file.path.parent
        inconsistencies: list[Inconsistency] = []
        claims = folder / form.claims if form.claims else None
        if form.inconsistencies:
            try:
                inconsistencies = inconsistencies_of(folder / form.inconsistencies)
            except UserError as error:
                _add_error(problems, ("inconsistencies",), error)
        if claims and not claims.is_file():
            message = f"claims = {show(form.claims)}: there is no file {claims}"
            problems.add(("claims",), message, code="study.unreadable_file")
        places = [_Place(form, None, (), (), (), inconsistencies, asked, problems)]
        places += [
            _Place(form, sweep, here, points(sweep, here), _bases(sweep), inconsistencies, asked, problems)
            for index, sweep in enumerate(form.sweeps)
            for here in [("sweeps", index)]
        ]
        figures = {each.name: tuple(each.figures()) for each in places}
        return cls(figures, tuple(inconsistencies), claims)


def _add_error(problems: Problems, key: KeyPath, error: UserError, hint: str = "") -> None:
    """Add the problems of a file in the study's folder, at the key that names the file."""
    for each in error.problems:
        message = f"{each.where}: {each.message}" if each.where else each.message
        problems.add(key, message, code=each.code, hint=hint or each.hint)


def _bases(sweep: SweepTable) -> list[str]:
    return [each if isinstance(each, str) else each.name for each in sweep.contenders]


# Figures ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """A figure in a file: its contender, system and point (empty in the main table)."""

    base: str
    system: str | None
    point: str
    value: float


def _by_metric(table: PaperTable, place: KeyPath) -> list[tuple[PaperTable, KeyPath]]:
    """Return a table for each metric of a table, with the key that names the metric."""
    if table.figures is None:
        return [(table, (*place, "metric"))]
    return [
        (table.model_copy(update=_own(figure, table) | {"metric": name}), (*place, "figures", name))
        for name, figure in table.figures.items()
    ]


def _own(figure: str | PaperFigureTable, table: PaperTable) -> dict[str, Any]:
    """Return the fields that a table about one of its figures alone would have."""
    if isinstance(figure, str):
        return {"value": figure}
    return figure.model_dump() | {"note": table.note if figure.note is None else figure.note}


class _Place:
    """The main table or a sweep, with the source's tables about it."""

    def __init__(
        self,
        form: StudyForm,
        sweep: SweepTable | None,
        here: KeyPath,
        at: Sequence[Point],
        bases: Sequence[str],
        inconsistencies: Sequence[Inconsistency],
        asked: AskedCounters,
        problems: Problems,
    ) -> None:
        self.form, self.sweep, self.here, self.problems = form, sweep, here, problems
        self.points, self.inconsistencies, self.metrics = at, inconsistencies, metric_names(asked)
        self.name = sweep.name if sweep else None
        self.bases = bases if sweep else [table.name for table in form.contenders]
        self.tables = sweep.paper if sweep else form.paper

    def figures(self) -> Iterator[PaperFigure]:
        """Yield the figures of all tables, by contender, system and point."""
        metrics: set[str] = set()
        for index, table in enumerate(self.tables):
            place: KeyPath = (*self.here, "paper", index)
            before = len(self.problems)
            self._check_form(table, place)
            by_metric = [(own, key) for own, key in _by_metric(table, place) if own.metric]
            for own, key in by_metric:
                self._check_metric(own, key)
                if own.metric in metrics:
                    self.problems.add(
                        key,
                        f"{own.metric} already has a table",
                        code="study.duplicate_figures",
                        hint="put its systems, runs and contenders into one table",
                    )
                metrics.add(own.metric)
            if len(self.problems) == before and not self._is_mended((*place, "figures")):
                for own, _ in by_metric:
                    yield from self._figures_of(own, place)

    def _check_metric(self, table: PaperTable, key: KeyPath) -> None:
        """Check that the study shows the metric of the figures."""
        known = [*self.metrics]
        if self.sweep is None:
            known += OF_CONTENDERS
        elif not self._is_changed((*self.here, "metric"), (*self.here, "metrics"), ("measure", "metric")):
            known = [self.sweep.metric or self.form.measure.metric, *self.sweep.metrics]
        if table.metric == PROCESS_CONTROL and not self._has_process_control():
            self.problems.add(
                key,
                f"{PROCESS_CONTROL} needs the metric {CPU_PER_CONNECTION} and a baseline",
                code="study.figures_without_baseline",
                hint="give measure.metric and measure.baseline",
            )
        elif table.metric not in known:
            what = "metric" if self.sweep is None else f"metric of sweep {self.sweep.name}"
            found = unknown(what, table.metric, known)
            if len(known) > MOST_LISTED:
                found = replace(found, hint=suggest(table.metric, known))
            self.problems.add(key, found)

    def _is_changed(self, *keys: KeyPath) -> bool:
        """True if an override or a mistake changes one of these keys.

        If so, figures that do not fit are not a mistake of the table. A run with another metric does
        not show the figures.
        """
        return bool({*keys} & {*self.problems.origins, *self.problems.settled})

    def _is_mended(self, table: KeyPath) -> bool:
        """True if a key of a table was wrong and so has a made-up value."""
        return any(key[: len(table)] == table for key in self.problems.settled)

    def _has_process_control(self) -> bool:
        """True if the main table has process control costs."""
        measure = self.form.measure
        if self.sweep or self._is_changed(("measure", "metric"), ("measure", "baseline")):
            return True
        is_known = measure.metric in self.metrics
        return measure.baseline is not None and (measure.metric == CPU_PER_CONNECTION or not is_known)

    def _check_form(self, table: PaperTable, place: KeyPath) -> None:
        """Check that a table is in one of its two forms, and that its contenders exist."""
        figures = "value" if table.figures is None else "figures"
        long = {"contender": table.contender, "names": table.names, figures: getattr(table, figures)}
        needed = [*long] if self.sweep else ["contender", figures]
        wide, given = table.columns is not None, [name for name in long if long[name] is not None]
        if (wide and given) or (not wide and not set(needed) <= set(given)):
            self.problems.add(
                place,
                "paper: the table has neither of its two forms",
                code="study.invalid_figures",
                hint=f"give columns (a column for each contender), or {', '.join(needed)}",
            )
        if table.figures is not None:
            for name in ("metric", "value", "unit"):
                if getattr(table, name):
                    self.problems.add(
                        (*place, name),
                        f"paper: both {name} and figures",
                        code="study.invalid_figures",
                        hint="figures has each metric with its column and its unit",
                    )
        elif not table.metric and not self._is_changed((*place, "metric"), (*place, "figures")):
            message, hint = (
                "paper: the table names no metric",
                "give metric; or, for several metrics, figures",
            )
            self.problems.add(place, message, code="study.figures_without_metric", hint=hint)
        if self.sweep and table.point is None:
            message, hint = "paper: no point", "give point, the column with the points of the sweep"
            self.problems.add(place, message, code="study.figures_without_point", hint=hint)
        if self.sweep is None and table.point is not None:
            message, hint = "paper: the main table has no points", "leave point out"
            self.problems.add((*place, "point"), message, code="study.point_not_allowed", hint=hint)
        key = "columns" if wide else "names"
        for base in table.columns or table.names or {}:
            if base not in self.bases:
                what = f"contender of {'the sweep' if self.sweep else 'the main table'}"
                self.problems.add((*place, key, base), unknown(what, base, self.bases))

    def _figures_of(self, table: PaperTable, place: KeyPath) -> Iterator[PaperFigure]:
        before = len(self.problems)
        by_row = not self.sweep and table.columns is None and table.names is None
        try:
            rows = [*_rows(table, self.problems.file.path.parent / table.file)]
            names = self._by_row(table, rows) if by_row else table.names or {}
            if not by_row:
                self._check_names(table, names, rows, place)
            lines = [*_lines(table, names, rows)]
        except UserError as error:
            folder = self.problems.file.path.parent
            there = (
                [] if (folder / table.file).exists() else sorted(each.name for each in folder.glob("*.csv"))
            )
            hint = suggest(table.file, there)
            _add_error(self.problems, (*place, "file"), error, hint)
            return
        known = {"": ""} if self.sweep is None else {}
        known |= {point.name: point.name for point in self.points}
        known |= {_plain(point.number): point.name for point in self.points if point.number is not None}
        found: dict[tuple[str, str | None, str], list[float]] = {}
        for line in lines:
            name = known.get(line.point, known.get(_plain(line.point)))
            if name is not None:
                found.setdefault((line.base, line.system, name), []).append(line.value)
        # If the user has overridden the sweep's values, the file need not have figures for them.
        if not found and len(self.problems) == before and (*self.here, "values") not in self.problems.origins:
            at = f" at any of the points {', '.join(known)}" if self.sweep else ""
            key = (*place, "point") if self.sweep else (*place, "file")
            self.problems.add(key, f"{table.file} has no figure{at}", code="study.no_figures")
        contenders = {each.name: each for each in self.form.contenders} if by_row else {}
        for base in self.bases:
            note = self._note(table, contenders.get(base))
            own = PaperFigure(
                metric=table.metric,
                base=base,
                sweep=self.name,
                unit=table.unit,
                value=None,
                runs=[],
                note=note,
            )
            for system in dict.fromkeys(system for each, system, _ in found if each == base):
                for point in [each.name for each in self.points] if self.sweep else [""]:
                    if values := found.get((base, system, point)):
                        mean = sum(values) / len(values)
                        at_it = {"point": point or None, "system": system, "value": mean, "runs": values}
                        at_it |= {"note": _joined([note, self._note_at(table, base, point)])}
                        yield own.model_copy(update=at_it)
            if base in contenders and contenders[base].row_note and not any(base == key[0] for key in found):
                yield own

    def _check_names(
        self, table: PaperTable, names: Mapping[str, str], rows: Sequence[Mapping[str, str]], place: KeyPath
    ) -> None:
        """Check that the file has the names that the study gives."""
        there = dict.fromkeys(row[str(table.contender)] for row in rows) if table.contender else {}
        for base, name in names.items():
            if name not in there:
                found = unknown(f"{table.contender} in {table.file}", name, there)
                self.problems.add((*place, "names", base), replace(found, code="study.unknown_source_name"))

    def _by_row(self, table: PaperTable, rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
        """Return the row in the file of each contender that has one; controls have none."""
        there = {_plain(row[str(table.contender)]): row[str(table.contender)] for row in rows}
        names: dict[str, str] = {}
        for index, each in enumerate(self.form.contenders):
            key: KeyPath = ("contenders", index, "row")
            if each.control_of or each.row == "none":
                continue
            if each.row is None:
                hint = f'give its row of {table.file} ({", ".join(there)}), or row = "none"'
                self.problems.add(key, f"{each.name} has no row", code="study.no_row", hint=hint)
            elif str(each.row) not in there:
                hint = f'rows: {", ".join(there) or "none"}; or row = "none"'
                message = f"{each.name}: row = {each.row} is not in {table.file}"
                self.problems.add(key, message, code="study.unknown_row", hint=hint)
            else:
                names[each.name] = there[str(each.row)]
        return names

    def _note(self, table: PaperTable, contender: ContenderTable | None) -> str | None:
        """Return the note of a figure; `contender` is given if the figure was found by its row."""
        subjects = [f"sweep {self.name}"] if self.sweep else []
        subjects += [f"row {contender.row}"] if contender and isinstance(contender.row, int) else []
        subjects += [table.figure] if table.figure else []
        notes = [table.note, contender.row_note if contender else None]
        notes += [notes_about(self.inconsistencies, subject) for subject in subjects]
        return _joined(notes)

    def _note_at(self, table: PaperTable, base: str, point: str) -> str | None:
        """Return the inconsistencies about one figure."""
        name = f"{base}@{self.name}={point}" if self.sweep else base
        return notes_about(self.inconsistencies, f"{name} {table.metric}")


def _joined(notes: Iterable[str | None]) -> str | None:
    return "; ".join(dict.fromkeys(note for note in notes if note)) or None


def _rows(table: PaperTable, path: Path) -> Iterator[dict[str, str]]:
    """Yield the lines of the file that belong to the table; raise UserError for an invalid file."""
    needed = [table.point, table.contender, table.value, *table.where]
    needed += [column for _, _, column in _wide(table)]
    for row in read_table(path, [column for column in needed if column is not None]):
        if all(row[column] == wanted for column, wanted in table.where.items()):
            yield row


def _wide(table: PaperTable) -> list[tuple[str, str | None, str]]:
    """Return contender, system and column of a table in wide form."""
    return [
        (base, system, column)
        for base, columns in (table.columns or {}).items()
        for system, column in (columns.items() if isinstance(columns, dict) else [(None, columns)])
    ]


def _lines(table: PaperTable, names: Mapping[str, str], rows: Iterable[Mapping[str, str]]) -> Iterator[_Line]:
    """Yield the figures of the lines; raise UserError for a field that is not a number."""
    for row in rows:
        cells: list[tuple[str, str | None, str]] = [
            (base, system, row[column]) for base, system, column in _wide(table)
        ]
        if table.columns is None:
            cells = [
                (base, None, row[str(table.value)])
                for base, name in names.items()
                if row[str(table.contender)] == name
            ]
        for base, system, text in cells:
            # The source may leave fields empty.
            if text.strip():
                yield _Line(base, system, row[table.point] if table.point else "", _number(text, table, row))


def _number(text: str, table: PaperTable, row: Mapping[str, str]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        message, hint = f"{show(text)} is not a number", f"it is in the line {show(row)}"
        raise UserError(message, code="file.not_a_number", hint=hint, where=table.file)
    return value


def _plain(point: object) -> str:
    """Return a number with the fewest digits, so that 15, 15.0 and "015" are one point."""
    try:
        return f"{float(str(point)):.15g}"
    except ValueError:
        return str(point)
