"""Jinja's templates, compiled once and stored in the user's cache.

Compiling those of a report takes longer than rendering them.
"""

from __future__ import annotations

import contextlib
from importlib import metadata

from jinja2 import BytecodeCache, Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket

from thunderherd.records.cache import UnsafeFolderError, kept_folder

__all__ = ["environment"]


def environment() -> Environment:
    """Makes the environment that renders the templates of this package."""
    return Environment(
        loader=PackageLoader("thunderherd.show.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_cache(),
    )


class _Kept(FileSystemBytecodeCache):
    """A cache of compiled templates, which Jinja checks against template and Python version.

    The file's name has Jinja's version. Errors of reading and writing are ignored.
    """

    def load_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def _cache() -> BytecodeCache | None:
    try:
        folder = kept_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, UnsafeFolderError):
        return None
    return _Kept(str(folder), f"template-of-jinja-{metadata.version('jinja2')}-%s")
