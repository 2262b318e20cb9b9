"""Loopback: both sides in this process's network namespace, over its loopback interface."""

from __future__ import annotations

from thunderherd.labs.kind import Kind

KIND = Kind(
    name="loopback",
    summary="Server and clients in this network namespace, over its loopback interface",
    source="ip(7)",
    keys=("congestion",),
)
