"""Copies of a study's files, so that a run can be repeated after the files are gone.

The files that loads replay are in `recordings/` in the run's directory. Each is named after the file and the
SHA-256 of its content. run.json has both, by the path in the study (`load.files` of each contender). The
study itself, and the files of its source, are in `study/`.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thunderherd.errors import UserError
from thunderherd.files import make_folder, read_bytes, read_text, write_bytes
from thunderherd.study.loading import Study

__all__ = ["FOLDER", "LARGEST", "STUDY_FOLDER", "copies", "not_kept", "study_files", "write_copies"]

FOLDER, STUDY_FOLDER = "recordings", "study"
NAMES_A_FILE = ("claims", "inconsistencies", "file")
"""The keys of a study that name files of its source."""
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
        held = read_bytes(path, LARGEST)
        if hashlib.sha256(held).hexdigest() != digest:
            raise UserError(
                "the file changed after the study was read",
                code="run.file_changed",
                hint="run the study again",
                where=str(path),
            )
        found[f"{path.stem}-{digest[:12]}{path.suffix}"] = held
    return found


def study_files(study: Study) -> dict[str, bytes]:
    """Read the study and the files of its source: name in `study/` → content; none of a study without a file.

    Only files in the study's folder are read.
    """
    if not study.path.is_file():
        return {}
    folder = study.path.parent
    tables = tomllib.loads(read_text(study.path))
    names = dict.fromkeys([study.path.name, *_files_in(tables)])
    found = {name: folder / name for name in names if Path(name).name == name}
    return {
        name: read_bytes(path, LARGEST)
        for name, path in found.items()
        if path.is_file() and path.stat().st_size <= LARGEST
    }


def _files_in(value: Any) -> Iterator[str]:
    """Yield the names of files in a table of a study."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in NAMES_A_FILE and isinstance(each, str):
                yield each
            else:
                yield from _files_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _files_in(each)


def write_copies(found: dict[str, bytes], run: Path, folder: str = FOLDER) -> None:
    """Write the copies into a folder of a run's directory."""
    for name, held in found.items():
        make_folder(run / folder)
        write_bytes(run / folder / name, held)


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
