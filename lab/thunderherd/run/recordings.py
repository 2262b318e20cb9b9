"""Copies of the files that a study's loads name: a run can be replayed where the files have gone.

They lie in the run's directory, below `recordings/`, named after the file and the SHA-256 of what it holds,
which run.json has with the path that the study names it by (`load.files` of each contender).
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
"""Bytes of a file that is kept; of a larger one the run has the SHA-256 alone, and a note."""


def copies(study: Study) -> dict[str, bytes]:
    """What is to be kept, by the name that it is to have; read before the run's directory is made.

    Raises `UserError` for a file that is another than when the study was read.
    """
    found = {}
    for path, digest in _named(study):
        if path.stat().st_size > LARGEST:
            continue
        held = path.read_bytes()
        if hashlib.sha256(held).hexdigest() != digest:
            raise UserError(f"{path} was changed after the study was read; run it again")
        found[f"{path.stem}-{digest[:12]}{path.suffix}"] = held
    return found


def write_copies(found: dict[str, bytes], run: Path) -> None:
    """Writes them into a run's directory."""
    for name, held in found.items():
        (run / FOLDER).mkdir(exist_ok=True)
        (run / FOLDER / name).write_bytes(held)


def not_kept(study: Study) -> list[str]:
    """A note for each file that is too large to be kept."""
    return [
        f"{path} has {size:,} bytes; files of up to {LARGEST:,} are kept with the run ({FOLDER}), of this "
        f"one only its SHA-256, {digest}"
        for path, digest in _named(study)
        if path.exists() and (size := path.stat().st_size) > LARGEST
    ]


def _named(study: Study) -> Iterator[tuple[Path, str]]:
    """Every file that a load names, and the SHA-256 of what it held as the study was read; each once."""
    named = {
        (each.load.folder / path).resolve(): digest
        for each in study.contenders
        for path, digest in each.load.files.items()
    }
    yield from named.items()
