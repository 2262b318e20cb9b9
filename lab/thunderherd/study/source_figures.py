"""The paper beside a study: its figures, what it gets wrong, its claims.

All are files in the study's folder. The figures are in the tables `[[paper]]` and `[[sweeps.paper]]`, one
for each metric, or one for several that have a column each in the same file:

```toml
[[paper]]                                       # of the main table; contenders by their `row`
file = "fig30_1.csv"
metric = "process_control_seconds"
contender = "row"
value = "process_control_cpu_s"

[[sweeps.paper]]                                # of a sweep: a line for each contender and point
file = "latency.csv"
metric = "latency_p50_seconds"
unit = "µs"
point = "connections"
contender = "server"
names = { single = "single-threaded", multi = "one thread a client" }
value = "median_us"

[[sweeps.paper]]                                # the same of several metrics: a column for each
file = "cells.csv"
point = "size"
contender = "way"
names = { one_copy = "sendmsg", zero_copy = "zerocopy" }
note = "one run of 10 s"                        # of all but those with a note of their own
[sweeps.paper.figures]
gigabits_per_second = "gbps"
"client.cpu_cycles_per_byte" = { value = "cycles_per_byte", note = "computed" }
latency_mean_seconds = { value = "latency_us", unit = "us" }

[[sweeps.paper]]                                # or a line for each point, a column for each contender
file = "throughput.csv"
metric = "requests_per_second"
point = "connections"
columns = { single = "single_req_s", multi = { "Linux" = "multi_linux", "Solaris" = "multi_solaris" } }
```

What the list of inconsistencies says about "row N", about "sweep NAME" or about a table's `figure` is the
note of each figure concerned, and goes with it into the summary; what it says about a contender and a metric,
such as "prefork@pool_size=5 server_cpu_per_connection", is that of this one figure.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from thunderherd.errors import UserError
from thunderherd.metrics.table import CPU_PER_CONNECTION, AskedCounters, metric_names
from thunderherd.records.summary import PROCESS_CONTROL, WORKERS, PaperFigure
from thunderherd.study.file.contenders import Point, points
from thunderherd.study.file.source_tables import PaperFigureTable, PaperTable
from thunderherd.study.file.tables import ContenderTable, StudyForm, SweepTable
from thunderherd.toml.file import KeyPath, Problems, near, read_text, show, unknown

OF_CONTENDERS = (PROCESS_CONTROL, WORKERS)
"""What the source's figures of the main table may stand beside, besides metrics."""


class Inconsistency(BaseModel):
    """Something that a source gets wrong.

    `concerns` says where it must be shown: "row 7", "claim H66", "sweep delay", "fig30_2", or one figure:
    "prefork@pool_size=5 server_cpu_per_connection".
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    as_printed: str
    finding: str
    concerns: tuple[str, ...]


def notes_about(inconsistencies: Iterable[Inconsistency], subject: str) -> str | None:
    """The findings about one subject in one text; None if there are none."""
    found = [f"{each.as_printed}: {each.finding}" for each in inconsistencies if subject in each.concerns]
    return "; ".join(found) or None


def inconsistencies_of(path: Path) -> list[Inconsistency]:
    """The rows of a list of inconsistencies. Raises UserError."""
    return [
        Inconsistency(
            as_printed=row["as_printed"],
            finding=row["finding"],
            concerns=tuple(part.strip() for part in row["concerns"].split(";")),
        )
        for row in read_table(path, ("as_printed", "finding", "concerns"))
    ]


def read_table(path: Path, columns: Iterable[str]) -> list[dict[str, str]]:
    """The rows of a CSV file that has at least these columns, texts as they stand. Raises UserError."""
    reader = csv.DictReader(read_text(path).splitlines(keepends=True), strict=True)
    try:
        rows = list(reader)
    except csv.Error as error:
        raise UserError(f"{path}:{reader.line_num}: no valid CSV: {error}") from None
    there = reader.fieldnames or ()
    if missing := [column for column in columns if column not in there]:
        hints = "".join(near(column, there) for column in missing)
        raise UserError(f"{path}:1: no column {' nor '.join(map(show, missing))}; has {list(there)}{hints}")
    for row in rows:
        if None in row or None in row.values():
            raise UserError(
                f"{path}: a row has another number of fields than the head: {show(list(row.values()))}"
            )
    return rows


@dataclass(frozen=True)
class Paper:
    """What the files beside a study say about it. `figures` are by the part that they belong to: that of the
    main table is None, the others have a sweep's name."""

    figures: Mapping[str | None, tuple[PaperFigure, ...]]
    inconsistencies: tuple[Inconsistency, ...]
    claims: Path | None

    @classmethod
    def read(cls, form: StudyForm, asked: AskedCounters, problems: Problems) -> "Paper":
        """Reads the files that a study names; what is wrong with one is a problem of the key naming it.
        Figures are of metrics that there are with the counters that it `asked` for."""
        folder = problems.file.path.parent
        inconsistencies: list[Inconsistency] = []
        claims = folder / form.claims if form.claims else None
        if form.inconsistencies:
            try:
                inconsistencies = inconsistencies_of(folder / form.inconsistencies)
            except UserError as error:
                problems.add(("inconsistencies",), str(error))
        if claims and not claims.is_file():
            problems.add(("claims",), f"claims = {show(form.claims)}: there is no file {claims}")
        places = [_Place(form, None, (), (), (), inconsistencies, asked, problems)]
        places += [
            _Place(form, sweep, here, points(sweep, here), _bases(sweep), inconsistencies, asked, problems)
            for index, sweep in enumerate(form.sweeps)
            for here in [("sweeps", index)]
        ]
        figures = {each.name: tuple(each.figures()) for each in places}
        return cls(figures, tuple(inconsistencies), claims)


def _bases(sweep: SweepTable) -> list[str]:
    return [each if isinstance(each, str) else each.name for each in sweep.contenders]


# Figures ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Line:
    """A figure of a file: whose it is, at which point (empty in the main table)."""

    base: str
    system: str | None
    point: str
    value: float


def _by_metric(table: PaperTable, place: KeyPath) -> list[tuple[PaperTable, KeyPath]]:
    """A table for each metric that a table has figures of, and where the file names the metric."""
    if table.figures is None:
        return [(table, (*place, "metric"))]
    return [
        (table.model_copy(update=_own(figure, table) | {"metric": name}), (*place, "figures", name))
        for name, figure in table.figures.items()
    ]


def _own(figure: str | PaperFigureTable, table: PaperTable) -> dict[str, Any]:
    """What a table says of one of its figures, as one about that figure alone would."""
    if isinstance(figure, str):
        return {"value": figure}
    return figure.model_dump() | {"note": table.note if figure.note is None else figure.note}


class _Place:
    """The main table or a sweep: what the source's tables about it come to."""

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
        """The figures of all its tables, by contender, system and point."""
        metrics: set[str] = set()
        for index, table in enumerate(self.tables):
            place: KeyPath = (*self.here, "paper", index)
            before = len(self.problems)
            self._check_form(table, place)
            by_metric = [(own, key) for own, key in _by_metric(table, place) if own.metric]
            for own, key in by_metric:
                self._check_metric(own, key)
                if own.metric in metrics:
                    why = f"{own.metric} has a table already; systems, runs and contenders go into one"
                    self.problems.add(key, why)
                metrics.add(own.metric)
            if len(self.problems) == before and not self._is_mended((*place, "figures")):
                for own, _ in by_metric:
                    yield from self._figures_of(own, place)

    def _check_metric(self, table: PaperTable, key: KeyPath) -> None:
        """The figures stand beside something that is shown."""
        known = [*self.metrics]
        if self.sweep is None:
            known += OF_CONTENDERS
        elif not self._is_changed((*self.here, "metric"), (*self.here, "metrics"), ("measure", "metric")):
            known = [self.sweep.metric or self.form.measure.metric, *self.sweep.metrics]
        if table.metric == PROCESS_CONTROL and not self._has_process_control():
            self.problems.add(
                key, f"{PROCESS_CONTROL} is what {CPU_PER_CONNECTION} is beyond measure.baseline; give both"
            )
        elif table.metric not in known:
            what = "metric" if self.sweep is None else f"metric that sweep {self.sweep.name} shows"
            hint = f"no such {what} {show(table.metric)}{near(table.metric, known)}"
            self.problems.add(key, hint if len(known) > 12 else unknown(what, table.metric, known))

    def _is_changed(self, *keys: KeyPath) -> bool:
        """Whether this run has other values there than the file, or the file's are wrong by themselves: then
        what does not go with them is none of this table's mistakes. Who runs it with another metric does not
        see these figures."""
        return bool({*keys} & {*self.problems.origins, *self.problems.settled})

    def _is_mended(self, table: KeyPath) -> bool:
        """Whether something in a table of the file was wrong by itself: what stands there is made up."""
        return any(key[: len(table)] == table for key in self.problems.settled)

    def _has_process_control(self) -> bool:
        """Whether the main table has it."""
        measure = self.form.measure
        if self.sweep or self._is_changed(("measure", "metric"), ("measure", "baseline")):
            return True
        is_known = measure.metric in self.metrics
        return measure.baseline is not None and (measure.metric == CPU_PER_CONNECTION or not is_known)

    def _check_form(self, table: PaperTable, place: KeyPath) -> None:
        """The table is in one of its two forms, about contenders that are there."""
        figures = "value" if table.figures is None else "figures"
        long = {"contender": table.contender, "names": table.names, figures: getattr(table, figures)}
        needed = [*long] if self.sweep else ["contender", figures]
        wide, given = table.columns is not None, [name for name in long if long[name] is not None]
        if (wide and given) or (not wide and not set(needed) <= set(given)):
            why = f"paper: give columns (a column for each contender), or {', '.join(needed)}"
            self.problems.add(place, why)
        if table.figures is not None:
            for name in ("metric", "value", "unit"):
                if getattr(table, name):
                    why = f"paper: {name} and figures; figures has each metric with its column and its unit"
                    self.problems.add((*place, name), why)
        elif not table.metric and not self._is_changed((*place, "metric"), (*place, "figures")):
            self.problems.add(place, "paper: give metric; or, of several metrics, figures")
        if self.sweep and table.point is None:
            self.problems.add(place, "paper: give point, the column that has the points of the sweep")
        if self.sweep is None and table.point is not None:
            self.problems.add((*place, "point"), "the main table has no points; leave point out")
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
            self.problems.add((*place, "file"), f"{error}{near(table.file, there)}")
            return
        known = {"": ""} if self.sweep is None else {}
        known |= {point.name: point.name for point in self.points}
        known |= {_plain(point.number): point.name for point in self.points if point.number is not None}
        found: dict[tuple[str, str | None, str], list[float]] = {}
        for line in lines:
            name = known.get(line.point, known.get(_plain(line.point)))
            if name is not None:
                found.setdefault((line.base, line.system, name), []).append(line.value)
        # A run of other points than the file's is none of the file's mistakes.
        if not found and len(self.problems) == before and (*self.here, "values") not in self.problems.origins:
            at = f" at any of the points {', '.join(known)}" if self.sweep else ""
            key = (*place, "point") if self.sweep else (*place, "file")
            self.problems.add(key, f"{table.file} has no figure{at}")
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
        """What the study names is in the file."""
        there = dict.fromkeys(row[str(table.contender)] for row in rows) if table.contender else {}
        for base, name in names.items():
            if name not in there:
                what = f"{table.contender} in {table.file}"
                self.problems.add((*place, "names", base), unknown(what, name, there))

    def _by_row(self, table: PaperTable, rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
        """For each contender what the file says for its row; a control has none, nor has one that says so."""
        there = {_plain(row[str(table.contender)]): row[str(table.contender)] for row in rows}
        names: dict[str, str] = {}
        for index, each in enumerate(self.form.contenders):
            key: KeyPath = ("contenders", index, "row")
            if each.control_of or each.row == "none":
                continue
            if each.row is None:
                why = f"{each.name} has no row; give its row of {table.file} ({', '.join(there)})"
                self.problems.add(key, f'{why}, or row = "none"')
            elif str(each.row) not in there:
                has = f"{table.file} has {', '.join(there)}"
                self.problems.add(key, f'{each.name}: row = {each.row}; {has}; or say row = "none"')
            else:
                names[each.name] = there[str(each.row)]
        return names

    def _note(self, table: PaperTable, contender: ContenderTable | None) -> str | None:
        """What to know about a figure; the contender is given where the figure was found by its row."""
        subjects = [f"sweep {self.name}"] if self.sweep else []
        subjects += [f"row {contender.row}"] if contender and isinstance(contender.row, int) else []
        subjects += [table.figure] if table.figure else []
        notes = [table.note, contender.row_note if contender else None]
        notes += [notes_about(self.inconsistencies, subject) for subject in subjects]
        return _joined(notes)

    def _note_at(self, table: PaperTable, base: str, point: str) -> str | None:
        """What the source gets wrong about one figure."""
        name = f"{base}@{self.name}={point}" if self.sweep else base
        return notes_about(self.inconsistencies, f"{name} {table.metric}")


def _joined(notes: Iterable[str | None]) -> str | None:
    return "; ".join(dict.fromkeys(note for note in notes if note)) or None


def _rows(table: PaperTable, path: Path) -> Iterator[dict[str, str]]:
    """The lines of the file that the table means. Raises UserError."""
    needed = [table.point, table.contender, table.value, *table.where]
    needed += [column for _, _, column in _wide(table)]
    for row in read_table(path, [column for column in needed if column is not None]):
        if all(row[column] == wanted for column, wanted in table.where.items()):
            yield row


def _wide(table: PaperTable) -> list[tuple[str, str | None, str]]:
    """Contender, system and column of a table in wide form."""
    return [
        (base, system, column)
        for base, columns in (table.columns or {}).items()
        for system, column in (columns.items() if isinstance(columns, dict) else [(None, columns)])
    ]


def _lines(table: PaperTable, names: Mapping[str, str], rows: Iterable[Mapping[str, str]]) -> Iterator[_Line]:
    """The figures of these lines. Raises UserError."""
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
            # A cell without a figure: the source does not give one.
            if text.strip():
                yield _Line(base, system, row[table.point] if table.point else "", _number(text, table, row))


def _number(text: str, table: PaperTable, row: Mapping[str, str]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UserError(f"{table.file}: {show(text)} is no number, in {show(row)}")
    return value


def _plain(point: object) -> str:
    """A number as it is written with the fewest digits, so that 15, 15.0 and "015" are one point."""
    try:
        return f"{float(str(point)):.15g}"
    except ValueError:
        return str(point)
