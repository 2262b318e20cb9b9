"""Tables as heads and rows, whatever they are written as: for readers with texts that are rounded, for
programs with figures as they are.

A table for programs has one row a thing and one column a figure; its heads have the units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from thunderherd.records.summary import ContenderSummary, Estimate, PaperFigure, Summary, SweepSummary
from thunderherd.show.sentences.source_figures import papers_of
from thunderherd.show.tables.runs import Runs
from thunderherd.show.tables.sweeps import Matrix, why_none, why_not
from thunderherd.text.figures import ABSENT, Unit, extrapolated, printable
from thunderherd.text.shown import ShownEstimate, at_points, shown_of, unit_for

__all__ = [
    "Field",
    "Grid",
    "NamedTable",
    "Section",
    "figures_grid",
    "grid_of_matrix",
    "grid_of_runs",
    "headed",
    "interval_fields",
    "of_models",
    "section_of_matrix",
    "section_of_runs",
    "sweep_grid",
]

Field = str | int | float | None
"""None: there is no figure, and a further column says why."""

REMARKS = "remarks"
"""The head of the column that says why figures of a row are missing, or that they are extrapolated."""
HERE = "ran here"
"""The head of what ran in place of a point, where the source's experiment is scaled."""


@dataclass(frozen=True)
class Grid:
    """Heads, and rows with a field for each; of `figures` it is known that they are to be aligned as such."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Field, ...], ...]
    figures: tuple[bool, ...]

    @classmethod
    def of(cls, heads: Sequence[str], rows: Iterable[Sequence[Field]], words: int = 1, last: int = 0) -> Grid:
        """The first `words` columns and the `last` ones are words, the others figures."""
        found = tuple(map(tuple, rows))
        for row in found:
            if len(row) != len(heads):
                raise ValueError(f"a row has {len(row)} fields, and there are {len(heads)} heads: {row}")
        return cls(tuple(heads), found, tuple(words <= at < len(heads) - last for at in range(len(heads))))

    def without_empty(self) -> Grid:
        """Without the columns in which nothing stands."""
        kept = [
            place
            for place in range(len(self.heads))
            if any(row[place] not in (None, "", ABSENT) for row in self.rows)
        ]
        return self.part(kept)

    def part(self, places: Sequence[int]) -> Grid:
        """Some of its columns, by their places from 0."""
        return Grid(
            tuple(self.heads[place] for place in places),
            tuple(tuple(row[place] for place in places) for row in self.rows),
            tuple(self.figures[place] for place in places),
        )


@dataclass(frozen=True)
class Section:
    """A table for readers: its caption, its grid of texts, and what belongs below it."""

    caption: str
    grid: Grid
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class NamedTable:
    """A table, which is made when it is asked for."""

    name: str
    """Of letters, digits and dashes; no other of the run has it."""
    title: str
    sections: Callable[[], list[Section]]
    """For readers."""
    data: Callable[[], Grid]
    """For programs."""
    is_part: bool = False
    """Whether the report shows it under a heading of its own, by this alone: no other place there knows of
    it."""


# For readers ------------------------------------------------------------------------------------------------


def grid_of_matrix(matrix: Matrix) -> Grid:
    """A figure with its mark and its interval in one field; what bounds it, and the source's, beside it."""
    heads, columns = [matrix.corner], [[head for head, _ in matrix.rows]]
    for place, name in enumerate(matrix.columns):
        cells = [cells[place] for _, cells in matrix.rows]
        heads.append(name)
        columns.append(
            [f"{each.value}{each.mark}" + (f" ({each.span})" if each.span else "") for each in cells]
        )
        if any(each.bound for each in cells):
            heads.append(f"{name}, bound")
            columns.append([each.bound for each in cells])
        if any(each.paper not in ("", ABSENT) for each in cells):
            heads.append(f"{name}, paper")
            columns.append([each.paper for each in cells])
    return Grid.of(heads, zip(*columns, strict=True))


def section_of_matrix(matrix: Matrix) -> Section:
    """The same with its caption and notes."""
    return Section(matrix.caption, grid_of_matrix(matrix), matrix.notes)


def grid_of_runs(runs: Runs) -> Grid:
    """Every run a row: where, who, which run, then its figures."""
    rows = [(row.point, row.contender, row.run, *row.cells) for row in runs.rows]
    return Grid.of([runs.corner or "point", "contender", "run", *runs.headings], rows, 3).without_empty()


def section_of_runs(runs: Runs) -> Section:
    """The same with its caption and notes."""
    return Section(runs.caption, grid_of_runs(runs), runs.notes)


# For programs -----------------------------------------------------------------------------------------------


def headed(name: str, unit: str) -> str:
    """`server_cpu_per_request [µs]`; a plain number has no unit."""
    return f"{name} [{unit}]" if unit else name


def figures_grid(
    summary: Summary,
    contenders: Sequence[ContenderSummary],
    names: Sequence[str],
    *,
    more: Sequence[tuple[str, Sequence[Field]]] = (),
) -> Grid:
    """A row for each contender: who it is, `more` columns, then each metric with its interval, unrounded.

    Of repeated runs it is the mean, and the ends are one standard deviation away. A figure that is missing
    is an empty field, and the last column says why.
    """
    heads = ["contender", "base", "sweep", "point", "design", "blocks", *(head for head, _ in more)]
    units = {
        name: unit_for(summary, name, [shown_of(summary, each, name) for each in contenders])
        for name in names
    }
    for name in names:
        heads += [headed(part, units[name].name) for part in (name, f"{name} low", f"{name} high")]
    rows = []
    for place, each in enumerate(contenders):
        known: list[Field] = [each.name, each.base, each.sweep, each.point, each.design, each.blocks]
        row = [*known, *(column[place] for _, column in more)]
        for name in names:
            row += _figure(summary, each, name, units[name])
        rows.append([*row, "; ".join(_remarks(summary, each, names))])
    return _emptied(Grid.of([*heads, REMARKS], rows, 5, last=1))


def sweep_grid(summary: Summary, sweep: SweepSummary, names: Sequence[str]) -> Grid:
    """A row for each point and contender of a sweep, those too that were not run here: the metrics as in
    `figures_grid`, and behind each the source's figure where it has one of that metric."""
    found = at_points(summary, sweep)
    units = {
        name: unit_for(summary, name, [shown_of(summary, each, name) for each in found.values()])
        for name in names
    }
    papers = {name: _single(papers_of(summary, sweep.name, name)) for name in names}
    heads = [sweep.x_label, HERE, "contender", "blocks"]
    for name in names:
        heads += [headed(part, units[name].name) for part in (name, f"{name} low", f"{name} high")]
        heads += [f"{name} paper", f"{name} paper unit"]
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
    return _emptied(Grid.of([*heads, REMARKS], rows, 3, last=1))


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
    """The source's figures by contender and point, where it gives one: those of several systems have a table
    of their own."""
    found: dict[tuple[str, str | None], list[PaperFigure]] = {}
    for each in papers:
        found.setdefault((each.base, each.point), []).append(each)
    return {key: own[0] for key, own in found.items() if len(own) == 1}


def _emptied(grid: Grid) -> Grid:
    """Without columns that hold nothing in any row, but with every figure that was asked for."""
    optional = {"sweep", "point", HERE, REMARKS}
    kept = [
        place
        for place, head in enumerate(grid.heads)
        if (head not in optional and " paper" not in head)
        or any(row[place] not in (None, "") for row in grid.rows)
    ]
    return grid.part(kept)


def interval_fields(found: Estimate | ShownEstimate | None) -> list[Field]:
    """An estimate and its ends as fields."""
    return [found.value, found.low, found.high] if found else [None, None, None]


def of_models(found: Sequence[object], heads: dict[str, str]) -> Grid:
    """A row for each record of one kind: its fields that are no records themselves."""
    first = type(found[0]).model_fields  # type: ignore[attr-defined]
    rows = [[getattr(each, name) for name in first] for each in found]
    return Grid.of([heads.get(name, name) for name in first], rows, 0)
