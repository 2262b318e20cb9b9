"""Records: what of a run is kept in the repository, and read again for pages.

records/DATE/STUDY/figures.json   the figures that pages show, with the texts in which a table shows them
records/DATE/STUDY/table.txt      the table as it was printed
records/DATE/STUDY/*.svg          charts
records/DATE/STUDY/run.tar.xz     the results themselves: raw lines, summary
records/DATE/system-calls.json    what strace counted (`strace_counts`)

Pages read figures.json and never the summary, whose form goes with the version of the program.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from handbook.markdown import ROOT
from thunderherd.errors import UserError

FOLDER = Path("records")
FIGURES, TABLE, ARCHIVE, CALLS = "figures.json", "table.txt", "run.tar.xz", "system-calls.json"
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeptRow(_Form):
    """A contender's figure: its estimate with its interval in the metric's own unit, and as tables show
    it."""

    contender: str
    base: str
    point: str | None
    design: str
    primitive: str
    receive: str
    client_primitive: str | None = None
    client_receive: str | None = None
    """Of the clients; None: it did not run, or the record was kept before this was."""
    is_control: bool
    value: float | None
    low: float | None
    high: float | None
    shown: str
    span: str
    rank: int | None
    letters: str


class KeptPair(_Form):
    """A comparison of the declared family. The ratio is that of costs: above 1, `a` is the dearer one."""

    a: str
    b: str
    point: str | None
    verdict: str
    ratio: float | None
    low: float | None
    high: float | None


class KeptTable(_Form):
    """The main table of a study (`sweep` is null), or that of a sweep's own metric."""

    sweep: str | None
    title: str
    caption: str
    better: str
    remarks: tuple[str, ...]
    """What belongs beside each of its figures, as how much was copied of what was sent without copying."""
    rows: tuple[KeptRow, ...]
    pairs: tuple[KeptPair, ...]


class KeptChart(_Form):
    """A chart beside it, and what it shows."""

    name: str
    title: str
    file: str


class KeptFigures(_Form):
    """figures.json."""

    form: int
    study: str
    title: str
    question: str
    size: str
    seed: int
    blocks: int
    command: tuple[str, ...]
    started: str
    finished: str
    version: str
    machine: str
    tables: tuple[KeptTable, ...]
    charts: tuple[KeptChart, ...]


@dataclass(frozen=True)
class Kept:
    """A record of a study: where it lies below the root, and its figures."""

    folder: Path
    figures: KeptFigures

    @property
    def date(self) -> str:
        return self.folder.parent.name


def kept_studies(root: Path = ROOT) -> list[Kept]:
    """The newest record of each study, studies by name. Raises UserError for one that is not readable."""
    newest: dict[str, Path] = {}
    for path in sorted((root / FOLDER).glob(f"*/*/{FIGURES}")):
        if DATE.fullmatch(path.parents[1].name):
            newest[path.parent.name] = path
    return [Kept(path.parent.relative_to(root), _read(path)) for _, path in sorted(newest.items())]


def _read(path: Path) -> KeptFigures:
    try:
        return KeptFigures.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise UserError(f"{path}: {error}; make it again: make records PARTS={path.parent.name}") from None


def kept_calls(root: Path = ROOT) -> tuple[Path, dict[str, Any]] | None:
    """The newest counts of system calls, and their file below the root; None: there are none."""
    files = [path for path in sorted((root / FOLDER).glob(f"*/{CALLS}")) if DATE.fullmatch(path.parent.name)]
    if not files:
        return None
    return files[-1].relative_to(root), json.loads(files[-1].read_text(encoding="utf-8"))
