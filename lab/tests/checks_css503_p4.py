"""What the rows of css503-p4 need, and what they say of the listener."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from source_checks import Check, Run, the_listener_has_the_sources_backlog

from thunderherd.engine import catalogue


@contextmanager
def namespaces_are_to_be_had(run: Run) -> Iterator[None]:
    pair = catalogue().namespace
    if pair is None or not pair.available:
        pytest.skip(pair.reason or "no namespaces" if pair else "this engine makes no namespaces")
    yield


RUNS = (
    *("experiment-matrix", "experiment-repetition", "environment-network", "output-tables"),
    "claim-discussion",
)


CHECKS: dict[str, Check] = {
    **{f"css503-p4-{row}": namespaces_are_to_be_had for row in RUNS},
    "css503-p4-server-details": the_listener_has_the_sources_backlog,
}
