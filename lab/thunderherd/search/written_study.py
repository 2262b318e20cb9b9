"""A study that a command has made of what the user typed: what is wrong with it is told in those words.

The user has not written its file, and could not mend it there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from thunderherd.toml.file import KeyPath, TomlFile, dotted, element_names

__all__ = ["MadeFile", "Typed"]

KEY = re.compile(
    r"""(?<![\w.'"-])(?<!--set\ )        # neither a part of something else nor typed already
    (?<!each\ side,\ such\ as\ )         # nor a metric of a side, which is named alike
    ((?:lab|load|measure|server|sizes)(?:\.\w+)+)
    (?:\ =\ ("[^"]*"|[\w.]*\w))?         # perhaps with the value that it should have""",
    re.VERBOSE,
)
"""A key of a study in the words of a complaint."""


@dataclass(frozen=True)
class Typed:
    """What a command's options are in the studies that it makes."""

    command: str
    """What a complaint begins with."""
    options: Mapping[str, str]
    """By key, dotted, how it was typed: `--clients 50000`; the option alone where it was left out."""

    def where(self, key: str) -> str:
        """What was typed of a key: of itself, else of the nearest table around it; else what would be."""
        around = [each for each in self.options if re.match(rf"{re.escape(each)}(?![\w-])", key)]
        said = self.options[max(around, key=len)] if around else f"--set {key}" if key else ""
        return f"{self.command}: {said}".rstrip(": ")

    def told(self, message: str) -> str:
        """The same with each key as it is typed."""
        return KEY.sub(self._as_option, message)

    def _as_option(self, key: re.Match[str]) -> str:
        value, option = key[2], self.options.get(key[1], "").partition(" ")[0]
        if option:
            return f"{option} {value}" if value else option
        return f"--set {key[1]}={value}" if value else f"--set {key[1]}"


class MadeFile(TomlFile):
    """The file of such a study, whether it has been written yet or not."""

    def __init__(self, path: Path, text: str, typed: Typed) -> None:
        super().__init__(path, text)
        self._typed = typed

    def where(self, key: KeyPath) -> str:
        """The command, and what was typed of a key."""
        return self._typed.where(dotted(key, element_names(self.data)))

    def told(self, message: str) -> str:
        """The same with each key as it is typed."""
        return self._typed.told(message)
