"""What a run of the demo says, in the pages that show it: README.md and the tutorial, between two marks of
each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from handbook.markdown import ROOT, between, fenced, plain
from handbook.pages.recorded_figures import link
from handbook.records.kept import TABLE, Kept

STUDY, MARK, PICTURE = "unp-ch30", "demo", "process-control"
PAGES = (Path("README.md"), Path("docs/tutorial.md"))
LEFT_OUT = ("Bound", "Note")
"""Facts below the table that are in the record, and too long for a sample."""


def documents(kept: Sequence[Kept], root: Path = ROOT) -> dict[Path, str]:
    """The pages with the newest record's table in them; without one, as they are."""
    found = next((each for each in kept if each.figures.study == STUDY), None)
    if found is None:
        return {}
    return {
        page: between((root / page).read_text(encoding="utf-8"), MARK, sample(found, page, root))
        for page in PAGES
    }


def sample(kept: Kept, page: Path, root: Path = ROOT) -> str:
    """Where the record is from, its table, and its picture."""
    figures = kept.figures
    parts = [
        f"One run of it, with `--seed {figures.seed}`, on {figures.machine}, ended with this; your figures "
        f"will be others ([the whole record]({link(kept.folder / 'README.md', page)})):",
        fenced("text", _shortened((root / kept.folder / TABLE).read_text(encoding="utf-8"))),
    ]
    parts += [
        f"![{plain(chart.title)}]({link(kept.folder / chart.file, page)})"
        for chart in figures.charts
        if chart.name == PICTURE
    ]
    return "\n\n".join(parts)


def _shortened(table: str) -> str:
    """A printed table without the facts that are left out; a fact's further lines are indented."""
    lines, dropped = [], False
    for line in table.splitlines():
        if line[:1].strip():
            dropped = line.split(" ", 1)[0] in LEFT_OUT
        if not dropped:
            lines.append(line)
    return "\n".join(lines)
