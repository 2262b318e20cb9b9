"""Copies of the files that a study's loads replay, so that a run can be repeated after the files are gone.

They are in `recordings/` in the run's directory. Each is named after the file and the SHA-256 of its content.
run.json has both, by the path in the study (`load.files` of each contender).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.study.loading import Study

__all__ = ["FOLDER", "LARGEST", "copies", "not_kept", "write_copies"]

FOLDER = "recordings"
LARGEST = 10_000_000
"""The largest file that is copied, bytes. For a larger file the run keeps only the SHA-256, and a note."""


def copies(study: Study) -> dict[str, bytes]:
    """Read the files to keep: name in `recordings/` → content. Call it before the directory is made.

    Raise `UserError` for a file that changed after the study was read.
    """
    found = {}
    for path, digest in _named(study):
        if path.stat().st_size > LARGEST:
            continue
        held = path.read_bytes()
        if hashlib.sha256(held).hexdigest() != digest:
            raise UserError(
                "the file changed after the study was read",
                code="run.file_changed",
                hint="run the study again",
                where=str(path),
            )
        found[f"{path.stem}-{digest[:12]}{path.suffix}"] = held
    return found


def write_copies(found: dict[str, bytes], run: Path) -> None:
    """Write the copies into a run's directory."""
    for name, held in found.items():
        (run / FOLDER).mkdir(exist_ok=True)
        (run / FOLDER / name).write_bytes(held)


def not_kept(study: Study) -> list[str]:
    """Return a note for each file that is too large to be kept."""
    return [
        f"{path} has {size:,} bytes and is not copied into the run ({FOLDER}/ has files of up to "
        f"{LARGEST:,}); its SHA-256 is {digest}"
        for path, digest in _named(study)
        if path.exists() and (size := path.stat().st_size) > LARGEST
    ]


def _named(study: Study) -> Iterator[tuple[Path, str]]:
    """Yield each file that a load names, once, with its SHA-256 of when the study was read."""
    named = {
        (each.load.folder / path).resolve(): digest
        for each in study.contenders
        for path, digest in each.load.files.items()
    }
    yield from named.items()
