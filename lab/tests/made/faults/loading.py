"""Loads with a fault: each counts its errors, or says why it ends."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from made.faults.injecting import PATIENCE, Fault, Strace, says_why
from thunderherd.engine.catalogue import Load
from thunderherd.engine.client import EngineError, LoadProcess, Place, start_load
from thunderherd.errors import Refusal

REQUESTS = 20
WANTED = {"clients": 4, "children": 4, "loops": REQUESTS, "duration": 300_000_000, "rate": 200}


@dataclass(frozen=True)
class Ending:
    """A load that is ended in any case."""

    load: LoadProcess

    def close(self) -> None:
        """End it."""
        self.load.end()


def ends_well_or_says_why(
    load: Load,
    fault: Fault,
    strace: Strace,
    address: str,
    *,
    threads: int = 1,
    whole_life: bool = False,
    primitive: str | None = None,
    receive: str | None = None,
) -> None:
    """Check that a load with a fault has its errors in its result, or ends with a line that says why."""
    told = f"{load.name}, {fault}, {primitive}, {receive}"
    names = {each.name for each in load.settings}
    settings = {name: value for name, value in {**WANTED, "threads": threads}.items() if name in names}
    if "loops" in settings:
        settings.pop("duration", None)
    engine = strace(fault, "count" if whole_life else "load")
    try:
        running = start_load(
            "bytes", address, kind=load.name, settings=settings, place=Place(engine), whole_life=whole_life,
            primitive=primitive, receive=receive,
        )  # fmt: skip
        with contextlib.closing(Ending(running)):
            result = running.wait(PATIENCE)
    except (EngineError, Refusal) as error:
        assert not fault.all_are_served, f"{told}: {error}"
        assert says_why(str(error), fault), f"{told}: {error}"
        return
    failed = result.tally.errors or result.tally.workers_lost
    assert not failed or not fault.all_are_served, f"{told}: {result.tally}"
    assert not result.tally.errors or result.first_error, f"{told}: {result.tally}"
    assert result.tally.requests or failed, f"{told}: {result.tally}"
    if not failed and result.expected_requests is not None:
        assert result.tally.requests == result.expected_requests, f"{told}: {result.tally}"
