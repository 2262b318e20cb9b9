"""The requests of searches and comparisons: what the user typed. None and empty mean that it was left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from thunderherd.errors import UserError
from thunderherd.study.lab_option import read as read_lab
from thunderherd.toml.quantities import TIME, parse_quantity

MILLISECOND = TIME.units["ms"]

__all__ = ["CompareRequest", "CrossoverRequest", "GradeRequest", "KneeRequest", "Request"]


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options that both searches have."""

    command: ClassVar[str]

    workload: str | None = None
    duration: str | None = None
    points: int | None = None
    blocks: int | None = None
    lab: tuple[str, ...] = ()
    """The values of --lab (`lab_option`)."""
    fixed: tuple[str, ...] = ()
    """The values of --set, which hold for all stages."""
    seed: int | None = None
    """The seed. None draws one, or with `resume` takes that of the run."""
    out: Path | None = None
    """Directory for the results. None is a new one below ./results."""
    resume: bool = False
    """True to continue the search in `out`."""
    has_resume: bool = True
    """False for a command without --resume."""
    words: tuple[str, ...] = ()
    """The command line, for the record."""
    conform: bool = True
    """True if servers that are not ours must pass the cases that their loads need, before they are timed."""
    allow_commands: bool = False
    """True if commands may run on other hosts, or come from a study in another user's folder."""

    @property
    def nanoseconds(self) -> int | None:
        """The length of a trial's window, in nanoseconds. Raises `UserError` if it is not a valid time."""
        if self.duration is None:
            return None
        option = f"--duration {self.duration}"
        length = parse_quantity(self.duration, f"{self.command}: {option}", TIME)
        if length < MILLISECOND or length % MILLISECOND:
            raise self.refusal(option, "not a multiple of 1ms", "quantity.not_whole", "give 1ms or more")
        return length

    def lab_keys(self) -> dict[str, Any]:
        """Return the keys of [lab] that --lab sets. Raises `UserError` for those that do not exist."""
        return read_lab(self.lab, command=f"{self.command}: ")

    def refusal(self, option: str, message: str, code: str, hint: str = "") -> UserError:
        """Return an error about an option with its value, or about the whole request if `option` is empty."""
        where = f"{self.command}: {option}" if option else self.command
        return UserError(message, code=code, hint=hint, where=where)


@dataclass(frozen=True, kw_only=True)
class CrossoverRequest(Request):
    """The request of `crossover`: from which value of `over` on does `a` beat `b`?"""

    command = "crossover"

    a: str
    b: str
    over: str
    study: str | None = None
    load: str | None = None
    design: str | None = None
    side: str | None = None
    metric: str | None = None
    show: tuple[str, ...] = ()
    blocks: int = 12


@dataclass(frozen=True, kw_only=True)
class KneeRequest(Request):
    """The request of `knee`: up to which rate do `designs` meet the one goal in `percentiles`?"""

    command = "knee"

    designs: tuple[str, ...]
    percentiles: Mapping[str, str | None]
    """Option without its dashes → the goal that was typed."""
    rates: str | None = None
    clients: int | None = None
    """Maximum connections. None, here and for `connections`, means the default of an open load."""
    connections: str | None = None
    quick: bool = False


@dataclass(frozen=True, kw_only=True)
class CompareRequest(Request):
    """The request of `compare`: which of these contenders is better in each metric?"""

    command = "compare"

    contenders: tuple[str, ...]
    settings: tuple[tuple[str, str], ...] = ()
    """Settings of all contenders and their clients, as typed: name, with underscores, and value."""
    primitive: str | None = None
    receive: str | None = None
    budget: str | None = None
    """The time for the whole command. None: a minute, or more if many contenders need it."""
    cost_alone: bool = False
    """True to compare the cost of the servers in a closed loop, and nothing else."""


@dataclass(frozen=True, kw_only=True)
class GradeRequest(CompareRequest):
    """The comparison of a submission with a reference."""

    command = "grade"
