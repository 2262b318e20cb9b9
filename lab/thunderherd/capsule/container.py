"""The file of a capsule: a zip archive with a manifest of sizes and hashes.

A capsule may come from a stranger. It is data: nothing in it is executed, and no name in it can leave the
directory that it is unpacked into. Sizes are bounded before anything is read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from thunderherd.errors import UserError
from thunderherd.files import read_bytes, replacing
from thunderherd.records.summary import Record
from thunderherd.run.recordings import FOLDER

__all__ = ["MANIFEST", "Manifest", "PackedFile", "pack", "unpack"]

MANIFEST = "manifest.json"
SUFFIX = ".thd"
MOST_FILES, MOST_BYTES = 2_000, 1 << 30
"""Maximum number of files in a capsule, and maximum size of all of them unpacked, in bytes."""
LARGEST_TEXT = 32 << 20
"""Maximum bytes of a text that is read at once: a line of a JSONL file, or any other file but recordings.

A hostile text of JSON takes some 13 times its size in memory.
"""
LINES, RECORDED = ".jsonl", f"{FOLDER}/"
LARGEST_MANIFEST = 1 << 20
NAME = re.compile(r"[A-Za-z0-9_+=,@%-][A-Za-z0-9_.+=,@% -]*(/[A-Za-z0-9_+=,@%-][A-Za-z0-9_.+=,@% -]*){0,3}")
"""The names of files: parts without a leading dot, at most three folders deep."""
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of each file in the archive, so that the same run gives the same capsule."""
CHUNK = 1 << 20
LONGEST_END, LONGEST_ENTRY = 22 + 20 + 65535, 1024
"""Maximum bytes of the end of an archive, with its comment, and of an entry in its list of contents."""
COMPRESSED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
DAMAGED = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, OverflowError, RuntimeError,
    ValueError,
)  # fmt: skip
"""What zipfile raises for a damaged archive, besides the errors below."""
NAMES_AT_ODDS = (errno.EINVAL, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG)
"""Errors of the system for an impossible offset, for a file `a` next to `a/b`, and for an overlong name."""


class PackedFile(Record):
    """A file of a capsule."""

    path: str = Field(description="its name below the directory of the run")
    bytes: int = Field(ge=0, description="its size")
    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="the SHA-256 of its content")


class Manifest(Record):
    """`manifest.json` of a capsule."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    kind: Literal["capsule"] = "capsule"
    version: str = Field(description="version of Thunderherd that made the capsule")
    study: str = Field(description="name of the study")
    engine: dict[str, object] = Field(description="version, build and hash of the engine that measured")
    files: list[PackedFile] = Field(description="every other file of the capsule")


def pack(files: Mapping[str, Path], manifest: Manifest, target: Path) -> Manifest:
    """Write a capsule with `files`, by their names in it; return its manifest. Raises OSError.

    Raises
    ------
    UserError
        A file has a name that capsules do not allow, or the capsule would be too large to be unpacked.
    """
    described = []
    _check_sizes({name: path.stat().st_size for name, path in files.items()}, target)
    for name in files:
        _check_name(name, target, "give the file a name of letters, digits and - _ . in the study")
    with (
        replacing(target) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
    ):
        for name, path in sorted(files.items()):
            content = read_bytes(path)
            digest = hashlib.sha256(content).hexdigest()
            described.append(PackedFile(path=name, bytes=len(content), sha256=digest))
            archive.writestr(_info(name), content)
        manifest = manifest.model_copy(update={"files": described})
        archive.writestr(_info(MANIFEST), manifest.model_dump_json(by_alias=True, indent=2) + "\n")
    return manifest


def _info(name: str) -> zipfile.ZipInfo:
    found = zipfile.ZipInfo(name, FIXED_TIME)
    found.compress_type = zipfile.ZIP_DEFLATED
    found.external_attr = (stat.S_IFREG | 0o644) << 16
    return found


def unpack(capsule: Path, directory: Path) -> Manifest:
    """Unpack a capsule into an empty directory, and check every file; return its manifest.

    Raises
    ------
    UserError
        The file is no capsule, was altered, or is too large. Then nothing that was unpacked may be used.
    """
    if not capsule.is_file():
        what = "no such file" if not capsule.exists() else "not a regular file"
        raise _refused(capsule, what, "capsule.no_file", "give a file that `thunderherd capsule` wrote")
    try:
        _check_contents(capsule)
        with zipfile.ZipFile(capsule) as archive:
            _check_compression(archive, capsule)
            manifest = _manifest(archive, capsule)
            expected = {each.path: each for each in manifest.files}
            if len(expected) < len(manifest.files):
                raise _refused(capsule, "it lists a file twice", "capsule.altered", "do not use this capsule")
            _check_names(archive, expected, capsule)
            for each in manifest.files:
                _extract(archive, each, directory / each.path, capsule)
    except DAMAGED as error:
        raise _damaged(capsule, error) from None
    except OSError as error:
        if error.errno not in NAMES_AT_ODDS:
            raise
        raise _damaged(capsule, error) from None
    return manifest


def _check_contents(capsule: Path) -> None:
    """Refuse a list of contents that is too long before zipfile reads all of it into memory.

    The end of an archive says how long it is (PKWARE's APPNOTE, 4.3.16). `pack` needs no ZIP64.
    """
    with capsule.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LONGEST_END))
        end = file.read(LONGEST_END)
    # Without a comment the end has 22 bytes; zipfile looks there first.
    place = len(end) - 22 if end[-22:-18] == b"PK\5\6" else end.rfind(b"PK\5\6")
    if place < 0 or len(end) < place + 16:
        return  # zipfile reports that the file is no archive
    entries, length = struct.unpack_from("<HL", end, place + 10)
    if (
        entries > MOST_FILES
        or length > MOST_FILES * LONGEST_ENTRY
        or end[max(0, place - 20) :][:4] == b"PK\6\7"
    ):
        raise _too_large(capsule)


def _manifest(archive: zipfile.ZipFile, capsule: Path) -> Manifest:
    try:
        info = archive.getinfo(MANIFEST)
    except KeyError:
        raise _refused(
            capsule,
            f"no {MANIFEST} in it",
            "capsule.no_manifest",
            "give a file that `thunderherd capsule` wrote",
        ) from None
    if info.file_size > LARGEST_MANIFEST:
        raise _too_large(capsule)
    with archive.open(info) as file:
        text = file.read(LARGEST_MANIFEST + 1)
    if len(text) > LARGEST_MANIFEST:
        raise _too_large(capsule)
    try:
        return Manifest.model_validate(json.loads(text))
    except (ValidationError, ValueError, RecursionError):
        raise _refused(
            capsule,
            f"{MANIFEST} is not one of this version of Thunderherd",
            "capsule.other_version",
            "replay it with the version that made it",
        ) from None


def _check_names(archive: zipfile.ZipFile, expected: Mapping[str, PackedFile], capsule: Path) -> None:
    """Refuse a capsule whose files are not those of its manifest, or too many, or too large."""
    names = [each.filename for each in archive.infolist()]
    _check_sizes({name: each.bytes for name, each in expected.items()}, capsule)
    if len(names) > MOST_FILES:
        raise _too_large(capsule)
    for name in (*names, *expected):
        _check_name(name, capsule, "do not use this capsule")
    if sorted(names) != sorted({*expected, MANIFEST}):
        odd = sorted({*names} ^ {*expected, MANIFEST}) or sorted(names)
        raise _refused(
            capsule,
            f"its files are not those of its manifest: {', '.join(odd[:3])}",
            "capsule.altered",
            "do not use this capsule",
        )


def _check_name(name: str, capsule: Path, hint: str) -> None:
    if not NAME.fullmatch(name) or ".." in name:
        raise _refused(capsule, f"it has a file named {name!r}", "capsule.unsafe_name", hint)


def _check_sizes(sizes: Mapping[str, int], capsule: Path) -> None:
    texts = [
        size for name, size in sizes.items() if not name.endswith(LINES) and not name.startswith(RECORDED)
    ]
    if len(sizes) >= MOST_FILES or sum(sizes.values()) > MOST_BYTES or max(texts, default=0) > LARGEST_TEXT:
        raise _too_large(capsule)


def _check_compression(archive: zipfile.ZipFile, capsule: Path) -> None:
    """Refuse compression that `pack` does not use, before anything is read: each method fails differently."""
    for each in archive.infolist():
        if each.compress_type not in COMPRESSED:
            raise _refused(
                capsule, "unknown method of compression", "capsule.altered", "do not use this capsule"
            )


def _extract(archive: zipfile.ZipFile, packed: PackedFile, target: Path, capsule: Path) -> None:
    """Write one file, at most as large as the manifest says; refuse a content with another hash."""
    target.parent.mkdir(parents=True, exist_ok=True)
    digest, left, line = hashlib.sha256(), packed.bytes, 0
    with archive.open(packed.path) as source, target.open("xb") as file:
        while chunk := source.read(min(CHUNK, left + 1)):
            left -= len(chunk)
            if left < 0:
                break
            digest.update(chunk)
            file.write(chunk)
            _, newline, after = chunk.rpartition(b"\n")
            line = len(after) if newline else line + len(chunk)
            if packed.path.endswith(LINES) and line > LARGEST_TEXT:
                raise _too_large(capsule)
    if left or digest.hexdigest() != packed.sha256:
        raise _refused(
            capsule,
            f"{packed.path} is not what the manifest says",
            "capsule.altered",
            "do not use this capsule",
        )


def _damaged(capsule: Path, error: Exception) -> UserError:
    return _refused(capsule, f"not a capsule, or damaged: {error}", "capsule.damaged", "fetch it again")


def _too_large(capsule: Path) -> UserError:
    return _refused(
        capsule,
        f"too large: more than {MOST_FILES:,} files, {MOST_BYTES >> 30} GiB, or {LARGEST_TEXT >> 20} MiB "
        "of one text",
        "capsule.too_large",
        "do not use this capsule; if it is of your own run, choose a smaller size of the study",
    )


def _refused(capsule: Path, message: str, code: str, hint: str) -> UserError:
    return UserError(message, code=code, hint=hint, where=str(capsule))
