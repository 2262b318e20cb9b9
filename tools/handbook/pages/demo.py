"""The demo's sample run: its table in README.md and the tutorial; the picture of its report in README.md."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from handbook.markdown import ROOT, between, fenced, plain
from handbook.pages.recorded_figures import link
from handbook.records.kept import REPORT_PICTURE, TABLE, Kept, KeptTable

STUDY, MARK, REPORT_MARK = "unp-ch30", "demo", "report"
README, TUTORIAL = Path("README.md"), Path("docs/tutorial.md")
PAGES = (README, TUTORIAL)
CHARTS = {README: "", TUTORIAL: "process-control"}
"""The chart below the table; README.md begins with a picture of the report instead."""
FIRST_FACT = "Verdicts"
LEFT_OUT = ("Bound", "Note")
"""Facts below the recorded table that are too long for a sample."""


def documents(kept: Sequence[Kept], root: Path = ROOT) -> dict[Path, str]:
    """Return the pages with the table of the newest record; without a record, none."""
    found = next((each for each in kept if each.figures.study == STUDY), None)
    if found is None:
        return {}
    pages = {
        page: between((root / page).read_text(encoding="utf-8"), MARK, sample(found, page, root))
        for page in PAGES
    }
    pages[README] = between(pages[README], REPORT_MARK, report_picture(found))
    return pages


def report_picture(kept: Kept) -> str:
    """Shows the top of the record's report, with a link to the record."""
    picture = link(kept.folder / REPORT_PICTURE, README)
    return f"[![The top of a report: answer, ranking, machine, notes]({picture})]({kept.folder}/README.md)"


def sample(kept: Kept, page: Path, root: Path = ROOT) -> str:
    """Write the record's seed and machine, its table, and its chart."""
    figures = kept.figures
    parts = [
        f"`{shlex.join(figures.command)}` on {figures.machine} printed this table. Your figures will "
        f"differ. ([The whole record]({link(kept.folder / 'README.md', page)}).)",
        fenced("text", _shortened((root / kept.folder / TABLE).read_text(encoding="utf-8"), figures.tables)),
    ]
    parts += [
        f"![{plain(chart.title)}]({link(kept.folder / chart.file, page)})"
        for chart in figures.charts
        if chart.name == CHARTS[page]
    ]
    return "\n\n".join(parts)


def _shortened(printed: str, tables: Sequence[KeptTable]) -> str:
    """Drop the tables of sweeps, and some facts below them. The further lines of a fact are indented."""
    sweeps = {each.title for each in tables if each.sweep is not None}
    lines, dropped, in_sweeps = [], False, False
    for line in printed.splitlines():
        in_sweeps = (in_sweeps or line in sweeps) and line.split(" ", 1)[0] != FIRST_FACT
        if in_sweeps:
            continue
        if line[:1].strip():
            dropped = line.split(" ", 1)[0] in LEFT_OUT
        if not dropped:
            lines.append(line)
    return "\n".join(lines)
