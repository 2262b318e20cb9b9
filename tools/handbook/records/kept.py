"""Records: what of a run is kept in the repository, and read again for pages.

records/DATE/STUDY/figures.json   the figures that pages show, with the texts in which a table shows them
records/DATE/STUDY/table.txt      the table as it was printed
records/DATE/STUDY/*.svg          charts
records/DATE/STUDY/run.tar.xz     the results themselves: raw lines, summary
records/DATE/STUDY/errata.toml    by hand: which of its figures are known to be wrong, and why
records/DATE/system-calls.json    what strace counted (`strace_counts`)

Pages read figures.json and never the summary, whose form goes with the version of the program. They leave out
what the errata name; a record itself stays as it was made, and one that is made again has no errata.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from handbook.markdown import ROOT
from thunderherd.errors import UserError
from thunderherd.text.figures import ABSENT

FOLDER = Path("records")
FIGURES, TABLE, ARCHIVE, CALLS = "figures.json", "table.txt", "run.tar.xz", "system-calls.json"
ERRATA = "errata.toml"
LEFT_OUT = "left out, as it is known to be wrong"
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
    why: str | None = None
    """Why it has no figure; None: it has one, or the record was kept before this was."""


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


class Erratum(_Form):
    """A contender whose figures in a record are known to be wrong."""

    contender: str
    why: str


class Errata(_Form):
    """errata.toml."""

    errata: tuple[Erratum, ...]


@dataclass(frozen=True)
class Kept:
    """A record of a study: where it lies below the root, its figures, and which of these are wrong."""

    folder: Path
    figures: KeptFigures
    errata: tuple[Erratum, ...] = ()

    @property
    def date(self) -> str:
        return self.folder.parent.name

    @property
    def tables(self) -> tuple[KeptTable, ...]:
        """Its tables without the figures that are wrong."""
        wrong = {each.contender: f"{LEFT_OUT}: {each.why}" for each in self.errata}
        return tuple(_without(each, wrong) for each in self.figures.tables) if wrong else self.figures.tables


def _without(shown: KeptTable, wrong: Mapping[str, str]) -> KeptTable:
    nothing = {
        "value": None,
        "low": None,
        "high": None,
        "shown": ABSENT,
        "span": "",
        "rank": None,
        "letters": "",
    }
    rows = [
        each.model_copy(update={**nothing, "why": wrong[each.contender]}) if each.contender in wrong else each
        for each in shown.rows
    ]
    pairs = [each for each in shown.pairs if each.a not in wrong and each.b not in wrong]
    return shown.model_copy(update={"rows": tuple(rows), "pairs": tuple(pairs)})


def kept_studies(root: Path = ROOT) -> list[Kept]:
    """The newest record of each study, studies by name. Raises UserError for one that is not readable."""
    newest: dict[str, Path] = {}
    for path in sorted((root / FOLDER).glob(f"*/*/{FIGURES}")):
        if DATE.fullmatch(path.parents[1].name):
            newest[path.parent.name] = path
    return [_kept(path, root) for _, path in sorted(newest.items())]


def _kept(path: Path, root: Path) -> Kept:
    figures = _read(path)
    return Kept(path.parent.relative_to(root), figures, _errata(path.with_name(ERRATA), figures))


def _errata(path: Path, figures: KeptFigures) -> tuple[Erratum, ...]:
    if not path.is_file():
        return ()
    try:
        found = Errata.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).errata
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise UserError(f"{path}: {error}") from None
    there = {row.contender for shown in figures.tables for row in shown.rows}
    if unknown := [each.contender for each in found if each.contender not in there]:
        raise UserError(f"{path}: {', '.join(unknown)}? the record has {', '.join(sorted(there))}")
    return found


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
