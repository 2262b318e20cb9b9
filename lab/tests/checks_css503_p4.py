"""What the rows of css503-p4 need, and what they say of the listener."""

from __future__ import annotations

from source_checks import Check, namespaces_are_to_be_had, the_listener_has_the_sources_backlog

RUNS = (
    *("experiment-matrix", "experiment-repetition", "environment-network", "output-tables"),
    "claim-discussion",
)


CHECKS: dict[str, Check] = {
    **{f"css503-p4-{row}": namespaces_are_to_be_had for row in RUNS},
    "css503-p4-server-details": the_listener_has_the_sources_backlog,
}
