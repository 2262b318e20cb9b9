"""Jinja's templates of the package, compiled once and kept in the user's cache: those of a report take longer
to be compiled than to be filled in."""

from __future__ import annotations

import contextlib
from importlib import metadata

from jinja2 import BytecodeCache, Environment, FileSystemBytecodeCache, PackageLoader, StrictUndefined
from jinja2.bccache import Bucket

from thunderherd.records.cache import kept_folder

__all__ = ["environment"]


def environment() -> Environment:
    """What the templates of this package are filled in with."""
    return Environment(
        loader=PackageLoader("thunderherd.show.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        bytecode_cache=_cache(),
    )


class _Kept(FileSystemBytecodeCache):
    """Jinja holds what is kept against the template's text and Python's version; its name tells Jinja's own.
    A cache that cannot be read or written is done without."""

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
    except (OSError, RuntimeError):
        return None
    return _Kept(str(folder), f"template-of-jinja-{metadata.version('jinja2')}-%s")
