"""A study that a search writes. Its mistakes are reported in the words of the command line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thunderherd.errors import Problem, UserError
from thunderherd.study.file.tables import StudyForm
from thunderherd.study.loading import load_study
from thunderherd.toml.file import KeyPath, TomlFile, dotted, element_names, field_at

if TYPE_CHECKING:
    from thunderherd.engine.catalogue import Catalogue
    from thunderherd.study.loading import Study

__all__ = ["SIZE", "Tables", "Typed", "load_written"]

SIZE = "quick"
"""The one size of the studies that searches write."""

Tables = dict[str, Any]
"""A study as a dictionary, ready for `toml_text`."""

DOTTED = re.compile(r"""(?<![\w.'"-])(?<!--set )([a-z]+(?:\.\w+)+)(?: = ("[^"]*"|[\w.]*\w))?""")
"""A possible key of a study in a hint, perhaps with a value, that does not follow --set."""


@dataclass(frozen=True)
class Typed:
    """The options by which a command line gave the keys of its studies."""

    command: str
    options: Mapping[KeyPath, str]
    """Key → the words that set it: `--clients 50000`, or the option alone if it was left out.

    An element of an array is known by its name, or by its number.
    """

    def where(self, key: KeyPath, names: Mapping[KeyPath, str]) -> str:
        """Return the words that set a key, or the nearest table around it; else the --set that would."""
        named = tuple(names.get(key[: place + 1], part) for place, part in enumerate(key))
        for length in range(len(key), 0, -1):
            for each in (key[:length], named[:length]):
                if each in self.options:
                    return f"{self.command}: {self.options[each]}"
        return f"{self.command}: --set {dotted(key, names)}" if key else self.command

    def translated(self, problem: Problem) -> Problem:
        """Return the same problem, with the command in its place and keys of the study as options."""
        where = problem.where
        if where.partition(":")[0] != self.command:
            where = ": ".join(filter(None, (self.command, where)))
        message, hint = (DOTTED.sub(self._as_option, text) for text in (problem.message, problem.hint))
        return replace(problem, where=where, message=message, hint=hint)

    def _as_option(self, found: re.Match[str]) -> str:
        key, value = tuple(found[1].split(".")), found[2]
        if not _is_key(key):
            return found[0]
        if option := self.options.get(key, "").partition(" ")[0]:
            return f"{option} {value}" if value else option
        return f"--set {found[1]}={value}" if value else f"--set {found[1]}"


def _is_key(key: tuple[str, ...]) -> bool:
    """True if studies have such a key with a value. Settings are free, as each workload has its own."""
    return key[-1] != "settings" and (field_at(StudyForm, key) is not None or key[1:-1] == ("settings",))


class _WrittenFile(TomlFile):
    """The tables of such a study in the place of its file, whether that is written yet or not."""

    def __init__(self, path: Path, tables: Tables, typed: Typed) -> None:
        self.path, self.data = path, deepcopy(tables)
        self._typed = typed

    def where(self, key: KeyPath) -> str:
        """Return the command, and the words that set a key."""
        return self._typed.where(key, element_names(self.data))


def load_written(
    path: Path, tables: Tables, typed: Typed, fixed: Sequence[str], catalogue: Catalogue
) -> Study:
    """Load a study that a search writes to `path`; raise `UserError` in the words of the command line."""
    try:
        return load_study(_WrittenFile(path, tables, typed), SIZE, fixed, catalogue)
    except UserError as error:
        raise UserError(*map(typed.translated, error.problems)) from None
