"""The fixtures of the lab's tests that tests of the benchmarks use as well."""

from __future__ import annotations

from made.engines import real_engine, some_catalogue, use_engine

__all__ = ["real_engine", "some_catalogue", "use_engine"]
