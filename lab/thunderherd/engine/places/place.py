"""Where processes of the engine run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from thunderherd.engine.places.channel import Channel, Environment, LocalChannel
from thunderherd.engine.places.executable import find_engine

LARGEST_FILE = 100_000_000
"""The largest file with requests in bytes: enough for the most rows that the engine accepts, in its longest
lines."""

Parameters = ParamSpec("Parameters")
Fact = TypeVar("Fact")


@dataclass(frozen=True)
class Sampling:
    """The sampling of a process of the engine from exec to exit, and the file for its stacks."""

    output: Path
    frequency: int
    event: str


class Place:
    """A place on this machine: the network namespace of this process, or another.

    Parameters
    ----------
    engine
        The engine's executable; None: the usual one.
    network_namespace
        The path of the network namespace that its processes enter; None: that of this process.
    """

    def __init__(self, engine: Path | None = None, network_namespace: str | None = None) -> None:
        self._engine = engine
        self.network_namespace = network_namespace

    @property
    def host(self) -> str:
        """The host in words; empty for this machine."""
        return ""

    @property
    def engine(self) -> Path:
        """The engine's executable at this place."""
        return self._engine or find_engine()

    @property
    def local_engine(self) -> Path:
        """The same build of the engine on this machine."""
        return self.engine

    @property
    def parent(self) -> int:
        """The process at this place whose end ends all that are started there."""
        return os.getpid()

    @property
    def round_trip_ns(self) -> int:
        """The time of the quickest call to this place; 0 on this machine."""
        return 0

    def time_there(self, here_ns: int) -> int:
        """Return what the clock of this place shows at a time (`time.monotonic_ns`)."""
        return here_ns

    def start(
        self,
        command: Sequence[str],
        *,
        control: bool,
        directory: Path | None = None,
        environment: Environment | None = None,
        merged: bool = False,
    ) -> Channel:
        """Start a process. Main thread only.

        With `control`, it reads what is written to its channel. With `merged`, its output has its stderr,
        too.
        """
        return LocalChannel(
            command, control=control, directory=directory, environment=environment, merged=merged
        )

    def file(self, path: Path) -> Path:
        """Return where this place has a file of this machine, of at most `LARGEST_FILE` bytes."""
        return path

    def output(self, path: Path) -> Path:
        """Return where a process at this place writes a file that `fetch` brings to this path here."""
        return path

    def fetch(self, path: Path) -> None:
        """Bring a file to this path, of at most `LARGEST_FILE` bytes, if `output` gave it another place."""

    def ask(
        self, fact: Callable[Parameters, Fact], *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Fact:
        """Return what a function of this program finds at this place."""
        return self.ask_for(0.0, fact, *args, **kwargs)

    def ask_for(
        self,
        seconds: float,
        fact: Callable[Parameters, Fact],
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Fact:
        """Return what a function finds at this place, and takes up to `seconds` for."""
        return fact(*args, **kwargs)

    def flags(self, cpus: Sequence[int] | None = None, user: str | None = None) -> list[str]:
        """Return the options for the CPUs, the network namespace and the user of a process of the engine."""
        pinned = ["--cpus", ",".join(map(str, cpus))] if cpus else []
        inside = ["--network-namespace", self.network_namespace] if self.network_namespace else []
        return [*pinned, *inside, *(["--user", user] if user else [])]

    def load_flags(self) -> list[str]:
        """Return what a load at this place is allowed that others are not."""
        return []

    def command(
        self,
        words: Sequence[str],
        counters: Sequence[str] = (),
        *,
        whole_life: bool = False,
        sampling: Sampling | None = None,
    ) -> list[str]:
        """Return the engine's command line.

        For a whole life or a profile, the engine runs the command as a child and counts or samples that.
        """
        count = ["--count", ",".join(counters)] if counters else []
        parent = ["--parent", str(self.parent)]
        program = str(self.engine)
        if sampling is not None:
            how = ["--frequency", str(sampling.frequency), "--event", sampling.event]
            where = ["--output", str(sampling.output)]
            return [program, "profile", *where, *how, *parent, "--", *words, *count]
        if whole_life:
            return [program, "count", *count, *parent, "--", *words]
        return [program, *words, *count, *parent]
