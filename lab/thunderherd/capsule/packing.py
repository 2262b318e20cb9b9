"""Packs a run: the files of its directory that a capsule has."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

from thunderherd.capsule.container import Manifest, pack
from thunderherd.errors import UserError
from thunderherd.records.directory import (
    COUNTED,
    LIMITS,
    PROFILES,
    RUN,
    SUMMARY,
    TRIALS,
    WITH_COUNTERS,
    WITHOUT_COUNTERS,
    load,
)
from thunderherd.run.recordings import FOLDER, STUDY_FOLDER

__all__ = ["capsule_of"]

FILES = (RUN, SUMMARY, TRIALS, LIMITS, COUNTED, WITH_COUNTERS, WITHOUT_COUNTERS, PROFILES, "summary.md")
"""The files that a capsule has. The tables and the report can be made from them."""
FOLDERS = (STUDY_FOLDER, FOLDER)


def capsule_of(directory: Path, target: Path) -> Manifest:
    """Write the capsule of a finished run; return its manifest."""
    results = load(directory)
    if results.summary is None:
        raise UserError(
            "the run has not ended",
            code="results.unfinished",
            hint="continue it with --resume",
            where=str(directory),
        )
    files = {name: directory / name for name in FILES if (directory / name).is_file()}
    for folder in FOLDERS:
        inside = (directory / folder).iterdir() if (directory / folder).is_dir() else ()
        files |= {f"{folder}/{path.name}": path for path in inside if path.is_file()}
    for path in [*(directory / folder for folder in FOLDERS), *files.values()]:
        if path.is_symlink():
            # A link could lead to a file that does not belong to the run.
            raise UserError(
                "is a symbolic link, which a capsule does not follow",
                code="capsule.link",
                hint="replace the link by its target, if that belongs to the run",
                where=str(path),
            )
    manifest = Manifest(
        version=metadata.version("thunderherd"),
        study=results.summary.study.name,
        engine={
            **(results.run.machine.get("engine") or {}),
            "build": results.run.machine.get("compiler") or {},
        },
        files=[],
    )
    return pack(files, manifest, target)
