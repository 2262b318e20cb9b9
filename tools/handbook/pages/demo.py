"""The sample run of the demo in README.md and in the tutorial, between two marks of each page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from handbook.markdown import ROOT, between, fenced, plain
from handbook.pages.recorded_figures import link
from handbook.records.kept import TABLE, Kept

STUDY, MARK, PICTURE = "unp-ch30", "demo", "process-control"
PAGES = (Path("README.md"), Path("docs/tutorial.md"))
LEFT_OUT = ("Bound", "Note")
"""Facts below the recorded table that are too long for a sample."""


def documents(kept: Sequence[Kept], root: Path = ROOT) -> dict[Path, str]:
    """Returns the pages with the table of the newest record; without a record, none."""
    found = next((each for each in kept if each.figures.study == STUDY), None)
    if found is None:
        return {}
    return {
        page: between((root / page).read_text(encoding="utf-8"), MARK, sample(found, page, root))
        for page in PAGES
    }


def sample(kept: Kept, page: Path, root: Path = ROOT) -> str:
    """Writes the record's seed and machine, its table, and its picture."""
    figures = kept.figures
    parts = [
        f"A run with `--seed {figures.seed}` on {figures.machine} printed this table. Your figures will "
        f"differ. ([The whole record]({link(kept.folder / 'README.md', page)}).)",
        fenced("text", _shortened((root / kept.folder / TABLE).read_text(encoding="utf-8"))),
    ]
    parts += [
        f"![{plain(chart.title)}]({link(kept.folder / chart.file, page)})"
        for chart in figures.charts
        if chart.name == PICTURE
    ]
    return "\n\n".join(parts)


def _shortened(table: str) -> str:
    """Drops some facts below a printed table. The further lines of a fact are indented."""
    lines, dropped = [], False
    for line in table.splitlines():
        if line[:1].strip():
            dropped = line.split(" ", 1)[0] in LEFT_OUT
        if not dropped:
            lines.append(line)
    return "\n".join(lines)
