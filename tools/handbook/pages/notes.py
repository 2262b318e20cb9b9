"""Hand-written notes on a design or a primitive: docs/entries/KIND/NAME.toml, one file an entry.

Everything else on the entry's page comes from the entry itself and from records. If an entry has no notes,
its page names the file to write.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from handbook.markdown import ROOT
from thunderherd.errors import UserError

FOLDER = Path("docs/entries")

Place = Literal[
    "program", "buffer", "page_cache", "pipe", "send_queue", "peer_queue", "receive_queue", "card", "nothing"
]
How = Literal["copied", "by_reference", "mapped", "dma", "discarded"]

PLACES: dict[Place, tuple[str, str]] = {
    "program": ("the program's memory", "program"),
    "buffer": ("a buffer of the program's", "program"),
    "page_cache": ("page cache", "kernel"),
    "pipe": ("pipe", "kernel"),
    "send_queue": ("send queue of the socket", "kernel"),
    "peer_queue": ("receive queue of the peer", "kernel"),
    "receive_queue": ("receive queue of the socket", "kernel"),
    "card": ("network card", "device"),
    "nothing": ("nowhere", "kernel"),
}
"""The places of bytes: in words, and the lane of each."""

HOWS: dict[How, tuple[str, str]] = {
    "copied": ("copied", "the CPU reads and writes every byte once"),
    "by_reference": ("not copied", "only the address of the bytes is passed on"),
    "mapped": ("not copied", "the kernel maps the page into the program's memory"),
    "dma": ("no CPU", "the device reads or writes memory itself"),
    "discarded": ("not copied", "the kernel discards the bytes"),
}
"""The ways of bytes from one place to the next: in a word, and its meaning."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Source(_Part):
    """A source of the facts."""

    name: str
    link: str = Field(pattern=r"^https://")


class Step(_Part):
    """One step of the bytes: where to, how, and by which call."""

    to: Place
    how: How
    by: str


class Journey(_Part):
    """The path of the bytes through the kernel, in one case."""

    of: str
    begins: Place = Field(alias="from")
    steps: tuple[Step, ...] = Field(min_length=1)

    @property
    def copies(self) -> int:
        """The number of times that the CPU copies each byte."""
        return sum(1 for step in self.steps if step.how == "copied")


class DesignNotes(_Part):
    """Notes on a design: when it wins, what it costs, and which designs to compare it with (`compare_with`).

    A busy-polling design also has `instead`: what it does instead of waiting.
    """

    wins: str
    costs: str
    instead: str | None = None
    compare_with: tuple[str, ...] = ()


class PrimitiveNotes(_Part):
    """Notes on a primitive: when it wins, what it costs, the sources, and where bytes are copied."""

    wins: str
    costs: str
    sources: tuple[Source, ...] = Field(min_length=1)
    paths: tuple[Journey, ...] = Field(min_length=1)


Notes = TypeVar("Notes", DesignNotes, PrimitiveNotes)


def notes_file(kind: str, name: str) -> Path:
    """Return the path of an entry's notes, relative to the root; `kind` is `designs` or `primitives`."""
    return FOLDER / kind / f"{name}.toml"


def read_notes(kind: str, name: str, form: type[Notes], root: Path = ROOT) -> Notes | None:
    """Read the notes on an entry; None if there are none. Raises UserError for an invalid file."""
    path = root / notes_file(kind, name)
    if not path.is_file():
        return None
    try:
        return form.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise UserError(str(error), code="entries.invalid_notes", where=str(path)) from None


def without_entry(kind: str, names: set[str], root: Path = ROOT) -> list[str]:
    """Return the names of notes without an entry: left behind, or misspelt."""
    there = {path.stem for path in (root / FOLDER / kind).glob("*.toml")}
    return sorted(there - names)
