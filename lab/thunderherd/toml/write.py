"""Tables as TOML text, for studies that the program itself writes; what `tomllib` reads back is the same.

Only what studies are made of: texts, whole and finite real numbers, true and false, lists of these or of
tables, and tables. Tables are written as `[name]`, lists of tables as `[[name]]`, others inline.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["inline", "toml_text"]

BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(table: Mapping[str, Any]) -> str:
    """A document. Raises ValueError for what TOML, or this module, cannot write."""
    return "\n".join(_lines(table, ())) + "\n"


def _lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping) or _is_tables(value)}
    for key, value in table.items():
        if key not in inner:
            yield f"{_key(key)} = {inline(value)}"
    for key, value in inner.items():
        name = ".".join(map(_key, (*path, key)))
        for each in [value] if isinstance(value, Mapping) else value:
            if isinstance(value, list):
                yield f"\n[[{name}]]"
            elif not each or not all(isinstance(own, Mapping) or _is_tables(own) for own in each.values()):
                yield f"\n[{name}]"
            yield from _lines(each, (*path, key))


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _key(key: str) -> str:
    return key if BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    # JSON's escapes are TOML's, but for a character that JSON leaves as it is.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def inline(value: Any) -> str:
    """A value in one line, tables with braces. Raises ValueError as `toml_text` does."""
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
    raise ValueError(f"no value of TOML: {value!r}")
