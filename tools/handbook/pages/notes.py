"""What is written by hand about an entry: docs/entries/KIND/NAME.toml, one file an entry.

A page about a design or a primitive takes everything else from the entry itself and from records. Where an
entry has no file its page says so, and names the one to write.
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
"""Where bytes may be: in words, and in whose hands that is."""

HOWS: dict[How, tuple[str, str]] = {
    "copied": ("copied", "every byte is read and written once by the CPU"),
    "by_reference": ("not copied", "only where the bytes lie is handed on"),
    "mapped": ("not copied", "the page itself appears in the program's memory"),
    "dma": ("no CPU", "the device reads or writes memory by itself"),
    "discarded": ("not copied", "the bytes are thrown away"),
}
"""How bytes go from one place to the next: in a word, and what that means."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Source(_Part):
    """Where more is said, and what the facts rest on."""

    name: str
    link: str = Field(pattern=r"^https://")


class Step(_Part):
    """One step of the bytes: to where, how, and by what."""

    to: Place
    how: How
    by: str


class Journey(_Part):
    """The way of the bytes of one case through the kernel."""

    of: str
    begins: Place = Field(alias="from")
    steps: tuple[Step, ...] = Field(min_length=1)

    @property
    def copies(self) -> int:
        """How often the CPU copies each byte."""
        return sum(1 for step in self.steps if step.how == "copied")


class DesignNotes(_Part):
    """Of a design: when it wins, what it costs, and which others to hold it against; of one that never sleeps
    also what it does instead of waiting."""

    wins: str
    costs: str
    instead: str | None = None
    beside: tuple[str, ...] = ()


class PrimitiveNotes(_Part):
    """Of a primitive: when it wins, what it costs, what that rests on, and where bytes are copied."""

    wins: str
    costs: str
    sources: tuple[Source, ...] = Field(min_length=1)
    paths: tuple[Journey, ...] = Field(min_length=1)


Notes = TypeVar("Notes", DesignNotes, PrimitiveNotes)


def notes_file(kind: str, name: str) -> Path:
    """Below the root, the file of an entry of a kind (`designs`, `primitives`)."""
    return FOLDER / kind / f"{name}.toml"


def read_notes(kind: str, name: str, form: type[Notes], root: Path = ROOT) -> Notes | None:
    """What is written about an entry; None: nothing is. Raises UserError for a file that is wrong."""
    path = root / notes_file(kind, name)
    if not path.is_file():
        return None
    try:
        return form.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise UserError(f"{path}: {error}") from None


def without_entry(kind: str, names: set[str], root: Path = ROOT) -> list[str]:
    """Files about entries that there are not: left behind, or misspelt."""
    there = {path.stem for path in (root / FOLDER / kind).glob("*.toml")}
    return sorted(there - names)
