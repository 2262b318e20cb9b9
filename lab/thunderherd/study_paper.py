"""The paper beside a study: its figures, what it gets wrong, its claims.

All are files in the study's folder.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from thunderherd.errors import UserError
from thunderherd.records import PaperFigure
from thunderherd.study_configurations import Point
from thunderherd.study_file import KeyPath, Problems, read_text, show, unknown
from thunderherd.study_form import ContenderTable, StudyForm, SweepPaperTable, SweepTable

ROW = "row"
SECONDS = "process_control_cpu_s"


class Inconsistency(BaseModel):
    """Something that a source gets wrong.

    `concerns` says where it must be shown: "row 7", "claim H66", "sweep delay", "fig30_2".
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    if missing := [column for column in columns if column not in (reader.fieldnames or ())]:
        raise UserError(f"{path}:1: no column {' nor '.join(map(show, missing))}; has {reader.fieldnames}")
    for row in rows:
        if None in row or None in row.values():
            raise UserError(
                f"{path}: a row has another number of fields than the head: {show(list(row.values()))}"
            )
    return rows


@dataclass(frozen=True)
class Paper:
    """What the files beside a study say about it."""

    seconds: dict[int, float] | None
    """The paper's figure for each row of its table, seconds; None without a table."""
    table: str | None
    inconsistencies: tuple[Inconsistency, ...]
    claims: Path | None

    @classmethod
    def read(cls, form: StudyForm, problems: Problems) -> "Paper":
        """Reads the files that a study names; one that cannot be read is a problem of the key naming it."""
        folder = problems.file.path.parent
        seconds: dict[int, float] | None = None
        inconsistencies: list[Inconsistency] = []
        claims = folder / form.claims if form.claims else None
        if form.paper_table:
            try:
                seconds = _seconds(folder / form.paper_table)
            except UserError as error:
                problems.add(("paper_table",), str(error))
        if form.inconsistencies:
            try:
                inconsistencies = inconsistencies_of(folder / form.inconsistencies)
            except UserError as error:
                problems.add(("inconsistencies",), str(error))
        if claims and not claims.is_file():
            problems.add(("claims",), f"claims = {show(form.claims)}: there is no file {claims}")
        return cls(seconds, form.paper_table, tuple(inconsistencies), claims)

    def figures_of(
        self, sweep: SweepTable, place: KeyPath, points: Sequence[Point], problems: Problems
    ) -> tuple[PaperFigure, ...]:
        """The source's figures for a sweep's points; what it has at other points is left out."""
        if sweep.paper is None:
            return ()
        here = (*place, "paper")
        bases = [each if isinstance(each, str) else each.name for each in sweep.contenders]
        if not _is_whole(sweep.paper, here, bases, problems):
            return ()
        try:
            rows = _figures(sweep.paper, problems.file.path.parent / sweep.paper.file)
        except UserError as error:
            problems.add((*here, "file"), str(error))
            return ()
        names = {point.name: point.name for point in points}
        listed = notes_about(self.inconsistencies, f"sweep {sweep.name}")
        note = "; ".join(each for each in (sweep.paper.note, listed) if each) or None
        names |= {_plain(point.number): point.name for point in points if point.number is not None}
        found: dict[tuple[str, str | None, str], list[float]] = {}
        for base, system, point, value in rows:
            if name := names.get(point) or names.get(_plain(point)):
                found.setdefault((base, system, name), []).append(value)
        # A run of other points than the file's is none of the file's mistakes.
        if not found and (*place, "values") not in problems.origins:
            problems.add(
                (*here, "point"), f"{sweep.paper.file} has no figure for any of the points {', '.join(names)}"
            )
        return tuple(
            PaperFigure(
                base=base,
                point=point.name,
                system=system,
                value=sum(values) / len(values),
                runs=values,
                note=note,
            )
            for base in bases
            for system in dict.fromkeys(system for each, system, _ in found if each == base)
            for point in points
            if (values := found.get((base, system, point.name)))
        )

    def seconds_of(self, table: ContenderTable, place: KeyPath, problems: Problems) -> float | None:
        """The paper's figure for a contender, seconds; None for a control and for one that it lacks."""
        if self.seconds is None or table.control_of or table.row == "none":
            return None
        key: KeyPath = (*place, "row")
        rows = ", ".join(map(str, self.seconds))
        if table.row is None:
            problems.add(
                key, f'{table.name} has no row; give its row of {self.table} ({rows}), or row = "none"'
            )
        elif table.row not in self.seconds:
            problems.add(
                key, f'{table.name}: row = {table.row}; {self.table} has {rows}; or say row = "none"'
            )
        else:
            return self.seconds[table.row]
        return None

    def note_of(self, table: ContenderTable) -> str | None:
        """What to know about the paper's figure for a contender."""
        listed = notes_about(self.inconsistencies, f"row {table.row}") if isinstance(table.row, int) else None
        return "; ".join(note for note in (table.row_note, listed) if note) or None


def _seconds(path: Path) -> dict[int, float]:
    figures = {}
    for row in read_table(path, (ROW, SECONDS)):
        try:
            figures[int(row[ROW])] = float(row[SECONDS])
        except ValueError:
            raise UserError(f"{path}: {ROW} and {SECONDS} are no numbers in {show(row)}") from None
    return figures


# A sweep's figures ------------------------------------------------------------------------------------------


def _is_whole(table: SweepPaperTable, here: KeyPath, bases: Sequence[str], problems: Problems) -> bool:
    """Whether the table is in one of its two forms, about contenders of the sweep."""
    long = {"contender": table.contender, "names": table.names, "value": table.value}
    lacking = [name for name, value in long.items() if value is None]
    if (table.columns is None) == (len(lacking) == len(long)) or (table.columns is None and lacking):
        problems.add(here, "paper: give columns (a column for each contender), or contender, names and value")
        return False
    before = len(problems)
    key = "columns" if table.columns is not None else "names"
    for base in table.columns or table.names or {}:
        if base not in bases:
            problems.add((*here, key, base), unknown("contender of the sweep", base, bases))
    return len(problems) == before


def _figures(table: SweepPaperTable, path: Path) -> list[tuple[str, str | None, str, float]]:
    """Contender, system, point and figure of each line that the table means. Raises UserError."""
    wide = [
        (base, system, column)
        for base, columns in (table.columns or {}).items()
        for system, column in (columns.items() if isinstance(columns, dict) else [(None, columns)])
    ]
    if table.columns is not None:
        needed = [table.point, *table.where, *(column for _, _, column in wide)]
    else:
        needed = [table.point, *table.where, str(table.contender), str(table.value)]
    found = []
    for row in read_table(path, needed):
        if any(row[column] != wanted for column, wanted in table.where.items()):
            continue
        if table.columns is not None:
            cells = [(base, system, row[column]) for base, system, column in wide]
        else:
            cells = [
                (base, None, row[str(table.value)])
                for base, name in (table.names or {}).items()
                if row[str(table.contender)] == name
            ]
        for base, system, text in cells:
            try:
                # A cell without a figure: the source does not give one.
                found += [(base, system, row[table.point], float(text))] if text.strip() else []
            except ValueError:
                raise UserError(f"{path}: {show(text)} is no number, in {show(row)}") from None
    return found


def _plain(point: object) -> str:
    """A number as it is written with the fewest digits, so that 15, 15.0 and "015" are one point."""
    try:
        return f"{float(str(point)):g}"
    except ValueError:
        return str(point)
