"""Runs the engine's cases against a server: `thunderherd-engine conform`."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from thunderherd.engine.client import find_engine, output_of
from thunderherd.engine.conform_lines import ConformCase, Conformed
from thunderherd.engine.places.place import Place
from thunderherd.engine.process import EngineProcess, json_object, understand

__all__ = ["Conforming", "cases_of"]

CASE_WAITS = 60
"""The most waits for the server of one case: its time limit is so many times the longest wait."""


@dataclass(frozen=True)
class Conforming:
    """What the cases need to know of a server."""

    workload: str
    path: str | None = None
    """The path of a resource that it has; None for a workload without paths."""
    seed: int = 1
    patience: float = 5.0
    """The longest wait for the server, in seconds."""
    plain: bool = False
    """True to send only the plainest requests, as loads do."""
    any_status: bool = False
    """True to accept any status but 400 and those of class 5; with `plain` only."""

    def run(
        self,
        address: str,
        cases: Sequence[int],
        *,
        stop: Callable[[], str | None] | None,
        until_failure: bool,
        place: Place | None = None,
    ) -> Iterator[Conformed]:
        """Run the cases of these numbers at a place, and yield each as it ends. Main thread only.

        A case that needs the server to be stopped calls `stop`, which returns what was wrong, or None.
        With `until_failure`, end after the first case that failed. Raise `EngineError` if the engine fails.
        """
        where = place or Place()
        words = [
            "conform", self.workload, "--connect", address, "--json",
            "--case", ",".join(map(str, cases)), "--seed", str(self.seed),
            "--timeout", f"{round(1000 * self.patience)}ms", *where.load_flags(),
            *(["--path", self.path] if self.path else []), *(["--control"] if stop else []),
            *(["--until-failure"] if until_failure else []), *(["--plain"] if self.plain else []),
            *(["--any-status"] if self.any_status else []),
        ]  # fmt: skip
        process = EngineProcess(where.start(where.command(words), control=stop is not None), "the cases")
        try:
            ended = 0
            while ended < len(cases):
                text = process.read_line(time.monotonic() + CASE_WAITS * self.patience)
                if stop is not None and json_object(text, "the cases").get("line") == "conform_stop":
                    process.write_line(" ".join((stop() or "stopped").split()))
                    continue
                found = understand(Conformed, text, "a line of the cases")
                yield found
                ended += 1
                if until_failure and found.verdict == "failed":
                    return
        finally:
            process.end()


def cases_of(workload: str | None = None, engine: Path | None = None) -> list[ConformCase]:
    """Return the cases by number: those of a workload, or all."""
    path = engine or find_engine()
    cases = _cases(path, path.stat().st_mtime_ns)
    return [each for each in cases if workload is None or workload in each.workloads]


@lru_cache(maxsize=4)
def _cases(engine: Path, _modified_ns: int) -> tuple[ConformCase, ...]:
    lines = output_of([str(engine), "conform", "--list", "--json"], f"{engine} conform --list").splitlines()
    return tuple(ConformCase.model_validate(json.loads(line)) for line in lines)
