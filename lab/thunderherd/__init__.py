"""Thunderherd: fio for sockets. `thunderherd.load(directory).frame()` is a run's trials as a data frame."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from thunderherd.engine.merged_loads import MergedLoads
    from thunderherd.records.directory import SavedRun

__version__ = metadata.version("thunderherd")

__all__ = ["__version__", "load", "merged"]


def load(path: str | Path) -> SavedRun:
    """Return the results of the run in directory `path`; raise `UserError` if there is no run."""
    # Imported on use, so that `--help` answers without importing pydantic and polars.
    from thunderherd.records.directory import load as load_results

    return load_results(path)


def merged(*paths: str | Path) -> MergedLoads:
    """Merge the loads whose results, printed by `load --json`, are in these files.

    Rates are added and histograms merged. Raise `UserError` if a file has no result, or if the loads are of
    different kinds.
    """
    from pathlib import Path

    from thunderherd.engine.merged_loads import load_lines, merged_loads

    return merged_loads([line for path in paths for line in load_lines(Path(path))])
