"""Records: the parts of a run that the repository keeps, and that pages read.

records/DATE/STUDY/figures.json   the figures that pages show, as numbers and as a table prints them
records/DATE/STUDY/table.txt      the printed table
records/DATE/STUDY/*.svg          charts
records/DATE/STUDY/report.png     the top of the report, for README.md (only of the demo's study)
records/DATE/STUDY/run.tar.xz     the results: raw lines, summary
records/DATE/STUDY/errata.toml    written by hand: figures that are known to be wrong, and why
records/DATE/system-calls.json    system calls, counted by strace (`strace_counts`)

Pages read figures.json. They never read the summary, whose keys change with the version of the program. They
leave out the figures that the errata name. A record is never edited. A new record has no errata.
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
REPORT_PICTURE = "report.png"
ERRATA = "errata.toml"
LEFT_OUT = "left out, as it is known to be wrong"
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeptRow(_Form):
    """A contender's estimate with its interval, in the metric's unit and as a table prints it."""

    contender: str
    base: str
    point: str | None
    design: str
    primitive: str
    receive: str
    client_primitive: str | None = None
    client_receive: str | None = None
    """The clients' primitive; None if the contender did not run, or in older records."""
    is_control: bool
    value: float | None
    low: float | None
    high: float | None
    shown: str
    span: str
    rank: int | None
    letters: str
    why: str | None = None
    """The reason why it has no figure; None if it has one, or in older records."""


class KeptPair(_Form):
    """A comparison of the declared family. A ratio of costs above 1 means that `a` costs more."""

    a: str
    b: str
    point: str | None
    verdict: str
    ratio: float | None
    low: float | None
    high: float | None


class KeptTable(_Form):
    """The main table of a study (`sweep` is null), or the table of a sweep."""

    sweep: str | None
    title: str
    caption: str
    better: str
    remarks: tuple[str, ...]
    """Notes that a page must show with the figures, such as the share of sends that the kernel copied."""
    rows: tuple[KeptRow, ...]
    pairs: tuple[KeptPair, ...]


class KeptChart(_Form):
    """A chart of a record."""

    name: str
    title: str
    file: str


class KeptClaim(_Form):
    """A claim of a source, with its verdict."""

    id: str
    statement: str
    paper: str | None
    ours: str
    verdict: str
    why: str
    blocks_needed: int | None
    decided_at: int | None


class KeptFigures(_Form):
    """The file figures.json."""

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
    decides_claims: bool = False
    """True if the run went on until its claims were decided."""
    claims: tuple[KeptClaim, ...] = ()
    """Empty in older records."""
    foreign_share: float | None = None
    """Share of the CPU time that other programs used; None in older records."""
    rejected_blocks: int | None = None
    repeated_trials: int | None = None
    """Blocks that were rejected for noise; None in older records."""
    noisy_blocks: int | None = None
    """Noisy blocks that count, because too many were noisy; None in older records."""


class Erratum(_Form):
    """A contender whose recorded figures are known to be wrong."""

    contender: str
    why: str


class Errata(_Form):
    """The file errata.toml."""

    errata: tuple[Erratum, ...]


@dataclass(frozen=True)
class Kept:
    """A record of a study: its folder relative to the root, its figures, and its errata."""

    folder: Path
    figures: KeptFigures
    errata: tuple[Erratum, ...] = ()

    @property
    def date(self) -> str:
        return self.folder.parent.name

    @property
    def tables(self) -> tuple[KeptTable, ...]:
        """The recorded tables without the figures that are known to be wrong."""
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
    """Read the newest record of each study, in order of name. Raises UserError for an invalid record."""
    return [_kept(paths[-1], root) for paths in _by_study(root).values()]


def earlier_studies(root: Path = ROOT) -> list[Kept]:
    """Read the records that are not the newest of their study, the oldest first."""
    return [_kept(path, root) for paths in _by_study(root).values() for path in paths[:-1]]


def _by_study(root: Path) -> dict[str, list[Path]]:
    """Return the files of the records' figures by study, the oldest first."""
    found: dict[str, list[Path]] = {}
    for path in sorted((root / FOLDER).glob(f"*/*/{FIGURES}")):
        if DATE.fullmatch(path.parents[1].name):
            found.setdefault(path.parent.name, []).append(path)
    return dict(sorted(found.items()))


def _kept(path: Path, root: Path) -> Kept:
    figures = _read(path)
    return Kept(path.parent.relative_to(root), figures, _errata(path.with_name(ERRATA), figures))


def _errata(path: Path, figures: KeptFigures) -> tuple[Erratum, ...]:
    if not path.is_file():
        return ()
    try:
        found = Errata.model_validate(tomllib.loads(path.read_text(encoding="utf-8"))).errata
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise UserError(str(error), code="records.invalid_errata", where=str(path)) from None
    there = {row.contender for shown in figures.tables for row in shown.rows}
    if unknown := [each.contender for each in found if each.contender not in there]:
        raise UserError(
            f"the record has no {', '.join(unknown)}",
            code="records.unknown_contender",
            hint=f"it has {', '.join(sorted(there))}",
            where=str(path),
        )
    return found


def _read(path: Path) -> KeptFigures:
    try:
        return KeptFigures.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise UserError(
            str(error),
            code="records.invalid_figures",
            hint=f"type make records PARTS={path.parent.name}",
            where=str(path),
        ) from None


def kept_calls(root: Path = ROOT) -> tuple[Path, dict[str, Any]] | None:
    """Read the newest counts of system calls; return their file and the counts, or None."""
    files = [path for path in sorted((root / FOLDER).glob(f"*/{CALLS}")) if DATE.fullmatch(path.parent.name)]
    if not files:
        return None
    return files[-1].relative_to(root), json.loads(files[-1].read_text(encoding="utf-8"))
