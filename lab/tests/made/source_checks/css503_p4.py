"""Checks of css503-p4: the listener."""

from __future__ import annotations

from made.source_checks.common import Check, the_listener_has_the_sources_backlog

CHECKS: dict[str, Check] = {
    "css503-p4-server-details": the_listener_has_the_sources_backlog,
}
