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
    """The results of the run in directory `path`. Raises `UserError` where there is no run."""
    # Imported when it is needed: the command line should answer `--help` without pydantic and polars.
    from thunderherd.records.directory import load as load_results

    return load_results(path)


def merged(*paths: str | Path) -> MergedLoads:
    """What the loads came to together whose results are in these files, as `load --json` prints them: rates
    added, histograms put together. Raises `UserError` where a file has none, or they are not of one kind."""
    from pathlib import Path

    from thunderherd.engine.merged_loads import load_lines, merged_loads

    return merged_loads([line for path in paths for line in load_lines(Path(path))])
