"""The lines of keys in a TOML text.

`tomllib` does not report the lines of keys, and neither do the TOML libraries that keep a file's layout. So
`locate` scans the text a second time, after `tomllib` has accepted it. It can rely on well-formed TOML and
only has to find where keys begin.
"""

from __future__ import annotations

import re
import tomllib

KeyPath = tuple[str | int, ...]
"""A place in a TOML document: names of tables and keys, and indexes (from 0) of array elements."""


def locate(text: str) -> dict[KeyPath, int]:
    """Return the line (from 1) of each table, key and array element of a text that `tomllib` accepts."""
    return _Scanner(text).scan()


_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_GAP = re.compile(r"[ \t]*")
_GAPS_AND_LINES = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRINGS = (
    # A closing delimiter of a multi-line string may follow up to two quotes that belong to the text.
    re.compile(r'"""(?:\\.|[^\\])*?"""(?:"{0,2})', re.DOTALL),
    re.compile(r"'''.*?'''(?:'{0,2})", re.DOTALL),
    re.compile(r'"(?:\\.|[^"\\\n])*"'),
    re.compile(r"'[^'\n]*'"),
)
_PLAIN_VALUE = re.compile(r"[^\s,\]}#](?:[^,\]}#\n]*[^\s,\]}#])?")


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[KeyPath, int] = {}
        self.elements: dict[KeyPath, int] = {}
        """The number of elements of each array of tables so far."""

    def scan(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        self.skip(_GAPS_AND_LINES)
        while self.at < len(self.text):
            if self.text.startswith("[", self.at):
                table = self.header()
            else:
                self.pair(table)
            self.skip(_GAPS_AND_LINES)
        return self.lines

    def skip(self, pattern: re.Pattern[str]) -> str:
        """Skip and return the text that the pattern matches here; "" if it does not match."""
        found = pattern.match(self.text, self.at)
        if not found:
            return ""
        self.at = found.end()
        return found[0]

    def note(self, key: KeyPath, at: int) -> None:
        self.lines.setdefault(key, self.text.count("\n", 0, at) + 1)

    def header(self) -> KeyPath:
        start, is_array = self.at, self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        names = self.key()
        self.at = self.text.index("]", self.at) + (2 if is_array else 1)
        key: KeyPath = ()
        for name in names[:-1]:
            key = self.into((*key, name), start)
        key += (names[-1],)
        self.note(key, start)
        if not is_array:
            return key
        self.elements[key] = self.elements.get(key, 0) + 1
        key += (self.elements[key] - 1,)
        self.note(key, start)
        return key

    def into(self, key: KeyPath, at: int) -> KeyPath:
        """Return the table of that name; of an array of tables, its last element."""
        self.note(key, at)
        return (*key, self.elements[key] - 1) if key in self.elements else key

    def key(self) -> list[str]:
        """Read a dotted key up to `=` or `]`, and return its parts without quotes."""
        names = []
        while True:
            self.skip(_GAP)
            if self.text[self.at] in "\"'":
                quoted = self.string()
                names.append(str(tomllib.loads(f"key = {quoted}")["key"]))
            else:
                names.append(self.skip(_BARE_KEY))
            self.skip(_GAP)
            if not self.text.startswith(".", self.at):
                return names
            self.at += 1

    def string(self) -> str:
        for pattern in _STRINGS:
            if found := self.skip(pattern):
                return found
        return ""

    def pair(self, table: KeyPath) -> None:
        start = self.at
        key = table
        for name in self.key():
            key += (name,)
            self.note(key, start)
        self.at = self.text.index("=", self.at) + 1
        self.skip(_GAP)
        self.value(key)

    def value(self, key: KeyPath) -> None:
        opening = self.text[self.at]
        if opening == "[":
            self.inside("]", key, array=True)
        elif opening == "{":
            self.inside("}", key, array=False)
        elif opening in "\"'":
            self.string()
        else:
            self.skip(_PLAIN_VALUE)

    def inside(self, closing: str, key: KeyPath, *, array: bool) -> None:
        """Read the elements of an array, or the pairs of an inline table."""
        self.at += 1
        for index in range(len(self.text)):
            self.skip(_GAPS_AND_LINES)
            if self.text.startswith(closing, self.at):
                break
            if array:
                self.note((*key, index), self.at)
                self.value((*key, index))
            else:
                self.pair(key)
            self.skip(_GAPS_AND_LINES)
            if self.text.startswith(",", self.at):
                self.at += 1
        self.at += 1
