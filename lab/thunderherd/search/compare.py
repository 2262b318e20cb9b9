"""The comparison of contenders: a pilot, one study in blocks within a time budget, and the answer.

```
DIR/pilot.toml, DIR/pilot/         each contender in short closed loops, with each back end of the clients
DIR/compare.toml, DIR/compare/     the comparison; its summary has the answer
```
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import TYPE_CHECKING

from thunderherd.engine.client import catalogue
from thunderherd.search.compare_study import (
    BACK_END,
    CPU_PER_REQUEST,
    CompareStudies,
    Piloted,
    cheapest,
)
from thunderherd.search.knee_study import requests_per_second
from thunderherd.search.request import CompareRequest
from thunderherd.search.stages import Stages
from thunderherd.study.defaults import WARM_UP_SHARE
from thunderherd.trial.load_validity import is_client_limited

if TYPE_CHECKING:
    from thunderherd.records.summary import Summary, TrialRecord
    from thunderherd.search.written_study import Tables
    from thunderherd.study.loading import Study

PILOT, COMPARISON = "pilot", "compare"
"""The stages."""

LONGEST_CONNECT = 5.0
"""The seconds in which a running server must accept a connection."""

START_SECONDS = 3.0
"""The time for the start of both runs and for the report."""


def compare(request: CompareRequest) -> tuple[Summary, Path]:
    """Run the pilot and the comparison; return its summary and the directory of its run.

    Raise `UserError` for every mistake of the request before anything runs.
    """
    ready = prepared(CompareStudies(request, catalogue()))
    return ready.stages.run(COMPARISON, ready.tables, ready.seed), ready.stages.directory / COMPARISON


@dataclass(frozen=True)
class Prepared:
    """A comparison after its pilot: its tables, where its stages run, and the seed of the pilot, if any."""

    stages: Stages
    tables: Tables
    seed: int | None


def prepared(studies: CompareStudies) -> Prepared:
    """Run the pilot of a comparison; raise `UserError` for every mistake of the request before that."""
    from thunderherd.records.directory import default_directory

    request = studies.request
    stages, budget = _checked(studies)
    directory = request.out or default_directory(request.command)
    stages = replace(stages, directory=directory)
    piloted = seed = None
    if studies.has_requests:
        pilot = studies.pilot()
        stages.study(PILOT, pilot)
        seed = stages.run(PILOT, pilot).study.seed
        piloted = _piloted(studies, directory / PILOT)
    # By the trials on disk, so that a resumed search has the same study. On a busy machine the pilot must not
    # use up the whole budget.
    used = START_SECONDS + piloted.seconds if piloted else 0.0
    return Prepared(stages, studies.comparison(piloted, max(budget / 2, budget - used)), seed)


def check(request: CompareRequest) -> list[str]:
    """Return the names of the contenders; raise `UserError` for every mistake. Makes no directory."""
    studies = CompareStudies(request, catalogue())
    _checked(studies)
    return [each["name"] for each in studies.contenders]


def _checked(studies: CompareStudies) -> tuple[Stages, float]:
    """Return the stages of a comparison, and its time in seconds, if there is no mistake.

    Without --out the stages have no directory yet, since a grade checks the same request several times.
    """
    request, budget = studies.request, studies.budget_seconds
    first = PILOT if studies.has_requests else COMPARISON
    stages = Stages(request, studies.catalogue, request.out or Path(), first, studies.typed())
    if request.out is not None:
        stages.check_place()
    sketch = Piloted("", dict.fromkeys((each["name"] for each in studies.contenders), 2e5), 0.25)
    study = stages.study(COMPARISON, studies.comparison(sketch if studies.has_requests else None, budget))
    _check_running(request, study)
    return stages, budget


def _check_running(request: CompareRequest, study: Study) -> None:
    """Refuse a URL at which no server accepts a connection, before anything is written."""
    urls = {
        made.own_server.url: made.own_server.address
        for made in study.contenders
        if made.own_server and made.own_server.url and made.own_server.address
    }
    for url, address in urls.items():
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=LONGEST_CONNECT).close()
        except OSError as error:
            hint = "start the server first; `ss -ltn` shows who listens"
            if isinstance(error, socket.gaierror):
                hint = "check the name of the host"
            message = f"nothing accepts at {address}: {error.strerror or error}"
            raise request.refusal(url, message, "compare.not_running", hint) from None


def _piloted(studies: CompareStudies, run: Path) -> Piloted:
    """Return what the pilot found; raise `UserError` if a contender did not work in it."""
    from thunderherd.records.directory import load

    trials = load(run).trials
    by_place: dict[tuple[str, str], list[TrialRecord]] = {}
    for trial in trials:
        base, _, place = trial.contender.partition("@")
        worked = not any(each.tally.errors for each in trial.loads) and requests_per_second(trial.loads) > 0
        of_place = by_place.setdefault((base, place.removeprefix(f"{BACK_END}=")), [])
        if worked:
            of_place.append(trial)
    bases = list(dict.fromkeys(base for base, _ in by_place))
    working = [
        each
        for each in dict.fromkeys(place for _, place in by_place)
        if all(by_place[base, each] for base in bases)
    ]
    if not working:
        failed = next(trial for trial in reversed(trials) if trial.invalid_reasons)
        name = failed.contender.partition("@")[0]
        message = f"it did not work in a closed loop: {'; '.join(failed.invalid_reasons)}"
        raise studies.request.refusal(name, message, "compare.pilot_failed", f"its trials are in {run}")
    costs = {place: [_cost(by_place[base, place]) for base in bases] for place in working}
    chosen = cheapest(costs)
    rates = {
        base: median(requests_per_second(each.loads) for each in by_place[base, chosen]) for base in bases
    }
    window = studies.pilot_milliseconds / 1000 * (1 + WARM_UP_SHARE)
    took = [trial.wall_seconds for trial in trials]
    measured = [trial for base in bases for trial in by_place[base, chosen]]
    return Piloted(chosen, rates, max(0.05, mean(took) - window), sum(took), _server_cpus(measured))


def _server_cpus(trials: Sequence[TrialRecord]) -> float | None:
    """Return the most CPUs that a server used; None if no trial was limited by its clients, or if unknown."""
    if not any(is_client_limited(trial.loads) for trial in trials):
        return None
    used = []
    for trial in trials:
        cost = trial.metrics.get(CPU_PER_REQUEST) if trial.metrics else None
        if cost is None:
            return None
        used.append(cost * requests_per_second(trial.loads))
    return max(used)


def _cost(trials: Sequence[TrialRecord]) -> float:
    """Return the clients' CPU time per request."""
    return geometric_mean(
        sum(each.user_ns + each.system_ns for each in trial.loads)
        / sum(each.tally.requests for each in trial.loads)
        for trial in trials
    )
