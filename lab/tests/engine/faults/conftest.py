"""The fixture of the tests with injected faults."""

from __future__ import annotations

from made.faults.injecting import strace

__all__ = ["strace"]
