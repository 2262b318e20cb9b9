"""Tables as TOML text, for studies that the lab writes. `tomllib` reads back the same data.

The values are those that studies have: texts, whole and finite real numbers, booleans, tables, and lists.
Tables are written as `[name]`, lists of tables as `[[name]]`, and all others inline. An inner table is also
inline if that alone keeps the order of its keys.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from thunderherd.toml.lines import KeyPath

__all__ = ["inline", "toml_text"]

BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(table: Mapping[str, Any], comment: Callable[[KeyPath], str] = lambda _place: "") -> str:
    """Return a TOML document; raise ValueError for a value that this module cannot write.

    Parameters
    ----------
    table
        The data.
    comment
        Returns the comment behind the value at a place; empty: none.
    """
    return "\n".join(_lines(table, (), (), comment)) + "\n"


def _lines(
    table: Mapping[str, Any], path: tuple[str, ...], place: KeyPath, comment: Callable[[KeyPath], str]
) -> Iterator[str]:
    """Yield the lines of the table at a place. `path` is its name, `place` also has indexes."""
    at_top = not path
    inner = {key: value for key, value in table.items() if _is_section(value, at_top=at_top)}
    for key, value in table.items():
        if key not in inner:
            behind = comment((*place, key))
            yield f"{_key(key)} = {inline(value)}" + (f"  # {behind}" if behind else "")
    for key, value in inner.items():
        name = ".".join(map(_key, (*path, key)))
        for index, each in enumerate([value] if isinstance(value, Mapping) else value):
            here: KeyPath = (*place, key)
            if isinstance(value, list):
                yield f"\n[[{name}]]"
                here = (*here, index)
            elif not each or not all(map(_is_section, each.values())):
                yield f"\n[{name}]"
            yield from _lines(each, (*path, key), here, comment)


def _is_section(value: Any, *, at_top: bool = False) -> bool:
    """Return whether a value has headers. An inner table has none if that changes the order of its keys."""
    if _is_tables(value) or (at_top and isinstance(value, Mapping)):
        return True
    if not isinstance(value, Mapping):
        return False
    sections = [*map(_is_section, value.values())]
    return sections == sorted(sections)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    # The escapes of JSON are valid in TOML. TOML must also escape DEL, which JSON does not.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def inline(value: Any) -> str:
    """Return a value in one line, tables in braces; raise ValueError as `toml_text` does."""
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(inline, value))}]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {inline(each)}" for key, each in value.items()) + " }"
    raise ValueError(f"TOML has no such value: {value!r}")
