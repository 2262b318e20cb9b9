"""The source's figures next to this machine's: where each belongs, how it is written, and its notes.

All are in the summary. They are shown in the source's own unit, rounded and never altered otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunderherd.records.summary import PROCESS_CONTROL, PaperFigure, Summary
from thunderherd.text.figures import ABSENT, decimals, main_of, number, shows_process_control, superscript
from thunderherd.text.printable import printable

__all__ = [
    "Notes",
    "as_printed",
    "notes_by_mark",
    "own_notes",
    "paper_metric",
    "paper_notes",
    "paper_texts",
    "papers_of",
]


def papers_of(summary: Summary, sweep: str | None, name: str) -> list[PaperFigure]:
    """Lists the source's figures of a metric, for a sweep or (None) the main table."""
    return [each for each in summary.paper if (each.sweep, each.metric) == (sweep, name)]


def paper_metric(summary: Summary) -> str:
    """Names the metric of the source's figures in the main table.

    This is process control if both the source and the table have it, otherwise the study's metric.
    """
    if shows_process_control(summary) and papers_of(summary, None, PROCESS_CONTROL):
        return PROCESS_CONTROL
    return summary.study.metric


# Texts ------------------------------------------------------------------------------------------------------


def as_printed(value: float | None) -> str:
    """Writes a source's figure, with no more decimals than it has or than are useful."""
    return ABSENT if value is None else number(value, _decimals_of_source(value))


def _decimals_of_source(value: float) -> int:
    most = max(2, decimals([value]))
    return next((few for few in range(most) if round(value, few) == value), most)


def paper_texts(
    figures: Sequence[PaperFigure], unit: str, *, aligned: bool = False
) -> dict[tuple[str, str | None], str]:
    """Writes the source's figures by contender and point, for each system in the order of `_systems`.

    `unit` is that of this machine's figures; a figure in another one names its own. `aligned` gives all of
    them the same decimals, for a column.
    """
    digits = max((_decimals_of_source(each.value) for each in figures if each.value is not None), default=0)
    texts = {
        (each.base, each.point, each.system): (
            number(each.value, digits) if aligned else as_printed(each.value)
        )
        + (f" {printable(each.unit)}" if each.unit not in ("", unit) and each.value is not None else "")
        for each in figures
    }
    systems: dict[str, list[str | None]] = {base: [*named] for base, named in _systems(figures).items()}
    return {
        (base, point): ", ".join(
            texts.get((base, point, system), ABSENT) for system in systems.get(base, [None])
        )
        for base, point, _ in texts
    }


def _systems(figures: Sequence[PaperFigure]) -> dict[str, list[str]]:
    """Lists the systems on which the source ran each contender, if it names them."""
    pairs = dict.fromkeys((each.base, each.system) for each in figures if each.system)
    return {base: [system or "" for each, system in pairs if each == base] for base, _ in pairs}


def own_notes(figures: Sequence[PaperFigure]) -> dict[tuple[str, str | None], str]:
    """Gives the notes that only some of these figures have, by contender and point."""
    notes = {(each.base, each.point): each.note for each in figures}
    return {key: note for key, note in notes.items() if note and len({*notes.values()}) > 1}


def paper_notes(figures: Sequence[PaperFigure], *, marked: bool = False) -> list[str]:
    """Writes the notes below a table with these figures.

    `marked` leaves out the notes of `own_notes`, which the table has by the marks of its figures.
    """
    if marked and own_notes(figures):
        figures = [each.model_copy(update={"note": None}) for each in figures]
    return [
        *(f"paper: {base} on {', '.join(systems)}" for base, systems in _systems(figures).items()),
        *(f"paper: {note}" for note in dict.fromkeys(each.note for each in figures) if note),
    ]


# Notes of the main table ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Notes:
    """Notes on the source's figures: `texts` by mark, and the marks by contender."""

    texts: dict[str, str]
    marks: dict[str, str]


def notes_by_mark(summary: Summary) -> Notes:
    """Numbers the notes on the source's figures in the order of the table; equal notes share a mark."""
    texts: dict[str, str] = {}
    marks: dict[str, str] = {}
    known: dict[str, str] = {}
    papers = papers_of(summary, None, paper_metric(summary))
    for each in main_of(summary):
        if note := next((figure.note for figure in papers if figure.base == each.name and figure.note), None):
            mark = known.get(note) or superscript(len(known) + 1)
            known[note] = marks[each.name] = mark
            texts[mark] = note
    return Notes(texts, marks)
