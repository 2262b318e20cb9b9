"""TOML files whose problems all have file and line, and are reported together.

Tables are validated by strict models, and `toml.lines` finds the lines of keys.
"""

import difflib
import json
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from thunderherd import files
from thunderherd.errors import Problem, UserError
from thunderherd.toml.lines import KeyPath as KeyPath
from thunderherd.toml.lines import locate

Form = TypeVar("Form", bound=BaseModel)

LARGEST = 16_000_000
"""The largest file that is read, bytes."""
DEEPEST = 50
"""The deepest table that is read; those of studies are five deep."""
LARGEST_EXACT = 2**53
"""The largest number up to which a real number has each whole number."""


class TomlFile:
    """One TOML file as read: its data, and the line of each key.

    Parameters
    ----------
    path
        The file. It need not exist if `text` is given.
    text
        The content of the file, if it is known.
    area
        The kind of file, with which the codes of its problems begin.

    Raises
    ------
    UserError
        The file cannot be read, or is not TOML.
    """

    area = "study"

    def __init__(self, path: Path, text: str | None = None, area: str = area) -> None:
        self.path, self.area = path, area
        self._text = text = read_text(path) if text is None else text
        try:
            self.data = toml_data(text)
        except tomllib.TOMLDecodeError as error:
            where = f"{path}:{_line_of_syntax_error(error, text)}"
            raise UserError(f"not valid TOML: {error}", code=f"{area}.not_toml", where=where) from None
        except (RecursionError, ValueError) as error:
            # Tables in tables, a thousand deep, or a number of thousands of digits.
            why = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise UserError(f"not read: {why}", code=f"{area}.not_toml", where=str(path)) from None

    @cached_property
    def lines(self) -> dict[KeyPath, int]:
        """The line of each key."""
        return locate(self._text)

    def where(self, key: KeyPath) -> str:
        """Return FILE:LINE of a key; of a key that is not written, of the nearest table around it."""
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.path}:{self.lines.get(key, 1)}"


def toml_data(text: str) -> dict[str, Any]:
    """Return the data of a TOML text, in which 200.0 is the whole number 200; raise TOMLDecodeError.

    Raise RecursionError if it is nested deeper than any table is.
    """
    data = tomllib.loads(text, parse_float=_whole_or_real)
    # tomllib reads dotted keys of any length, but later steps call themselves for each table in a table.
    level: list[Any] = [data]
    for _ in range(DEEPEST):
        inside = (each.values() if isinstance(each, dict) else each for each in level)
        level = [each for values in inside for each in values if isinstance(each, dict | list)]
    if level:
        raise RecursionError
    return data


def _whole_or_real(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) <= LARGEST_EXACT else value


def read_text(path: Path) -> str:
    """Return the text of a file without a byte order mark; raise UserError if it cannot be read."""
    try:
        return files.read_text(path, LARGEST, "utf-8-sig")
    except UnicodeDecodeError as error:
        message = f"not UTF-8 text (byte {error.start})"
        raise UserError(
            message, code="file.not_text", hint="check that it is the right file", where=str(path)
        ) from None
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        hint = "check its name and its rights"
        raise UserError(message, code="file.unreadable", hint=hint, where=str(path)) from None


def _line_of_syntax_error(error: tomllib.TOMLDecodeError, text: str) -> int:
    """Return the line from the message: `tomllib` has it as an attribute from Python 3.14 on only."""
    found = re.search(r"at line (\d+)", str(error))
    return int(found[1]) if found else text.count("\n") + 1


# Problems ---------------------------------------------------------------------------------------------------


class Problems:
    """The problems of one file, collected so that the user can solve them all at once."""

    def __init__(self, file: TomlFile) -> None:
        self.file = file
        self.origins: dict[KeyPath, str] = {}
        """Key → place of its value, if that is not the key's own line."""
        self.overridden: dict[KeyPath, Any] = {}
        """The values of the keys that the user has overridden."""
        self.settled: set[KeyPath] = set()
        """Keys that are wrong by themselves; further problems with them would only repeat that."""
        self._found: list[Problem] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, key: KeyPath, problem: Problem | str, *, code: str = "", hint: str = "") -> None:
        """Add a problem with a key; the same problem is added once."""
        if key in self.settled:
            return
        found = problem if isinstance(problem, Problem) else Problem(problem, code, hint)
        self.note(found.at(self.where(key)))

    def note(self, problem: Problem | str, *, code: str = "", hint: str = "") -> None:
        """Add a problem that already has its place."""
        found = problem if isinstance(problem, Problem) else Problem(problem, code, hint)
        if found not in self._found:
            self._found.append(found)

    def has_settled(self, table: KeyPath, *names: str) -> bool:
        """Return whether one of these keys of a table is wrong by itself, or misspelt."""
        keys = [str(key[len(table)]) for key in self.settled if key[:-1] == table]
        return any(difflib.get_close_matches(key, names, n=1) for key in keys)

    def where(self, key: KeyPath) -> str:
        """Return where the value of a key was written: an override, a size, or its own line."""
        for length in range(len(key), 0, -1):
            if origin := self.origins.get(key[:length]):
                return origin
        return self.file.where(key)

    def blame(self, *keys: KeyPath) -> KeyPath:
        """Return the key to report when keys contradict each other: an overridden one, else the first."""
        return next((key for key in keys if key in self.overridden), keys[0])

    def absorb(self, other: "Problems") -> None:
        """Add the problems that another pass over the same file found."""
        self._found.extend(each for each in other._found if each not in self._found)

    def raise_any(self) -> None:
        """Raise one UserError with all problems, in the order of the file."""
        if self._found:
            raise UserError(*self.found)

    @property
    def found(self) -> list[Problem]:
        """All problems, in the order of the file."""
        return sorted(self._found, key=lambda each: _natural(str(each)))

    @property
    def lines(self) -> list[str]:
        """A line for each problem, in the order of the file."""
        return [str(each) for each in self.found]


def _natural(line: str) -> list[tuple[int, str]]:
    """Sort line 9 before line 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", line)]


LONGEST_REST = 300
"""The most characters of a list of names in a hint."""
LISTS = {
    each: f"thunderherd list {plural}"
    for each, plural in {
        "design": "designs",
        "primitive": "primitives",
        "workload": "workloads",
        "load": "loads",
        "lab": "labs",
        "counter": "counters",
        "limit": "limits",
        "study": "studies",
    }.items()
}
"""The kind of a name → the command that prints all names of this kind."""


def suggest(name: object, known: Iterable[str], rest: str = "", *listed: str) -> str:
    """Return the hint `did you mean 'prefork_mutex'? known: …`; only the rest if no known name is close.

    A rest that nobody would read to its end is shortened, and `listed` are the commands that print all names.
    """
    found, rest = nearest(name, known), shortened(rest, *listed)
    return f"did you mean '{found}'? {rest}".rstrip() if found else rest


MORE = ", …"
"""Ends a list of names that is not complete."""


def shortened(names: str, *listed: str) -> str:
    """Return a list of names, cut if it is too long to be read; the commands `listed` then print all."""
    if len(names) <= LONGEST_REST or MORE in names:
        return names
    commands = " and ".join(f"`{command}`" for command in listed if command)
    return names[:LONGEST_REST].rpartition(", ")[0] + MORE + (f"; all: {commands}" if commands else "")


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Return the known name closest to the typed one; None if none is close."""
    names = list(dict.fromkeys(known))
    found = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if not found and len(str(name)) > 2:
        found = [candidate for candidate in names if candidate.startswith(str(name))][:1]
    return found[0] if found else None


def unknown(
    what: str, name: object, known: Iterable[str], area: str = "study", listed: str | None = None
) -> Problem:
    """Return the problem `no such design "x"`: code `study.unknown_design`, known names as hint.

    `listed` is the command that prints all names, by default that of `LISTS`.
    """
    names = list(dict.fromkeys(known))
    kind = re.sub(r"\W+", "_", re.sub(r" (of|in) .*", "", what))
    listed = LISTS.get(what.partition(" ")[0], "") if listed is None else listed
    hint = suggest(name, names, f"known: {', '.join(names) or 'none'}", listed)
    return Problem(f"no such {what} {show(name)}", f"{area}.unknown_{kind}", hint)


def show(value: object) -> str:
    """Return a value as TOML writes it, shortened to 60 characters."""
    text = str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def dotted(key: KeyPath, names: Mapping[KeyPath, str] | None = None) -> str:
    """Return a key as text, `load.settings.loops`; array elements by their name in `names`, else `[2]`."""
    text = ""
    for position, part in enumerate(key):
        if isinstance(part, str):
            text += f".{part}" if text else part
        else:
            name = (names or {}).get(key[: position + 1])
            text += f".{name}" if name else f"[{part}]"
    return text


# Tables and their keys --------------------------------------------------------------------------------------


def flat(table: Mapping[str, Any], path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield the values of a table and its inner tables, each with its key."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, (*path, key))
        else:
            yield (*path, key), value


def assign(data: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Put a value into nested tables; create the tables that are missing."""
    here: Any = data
    for part in path[:-1]:
        here = here.setdefault(part, {}) if isinstance(part, str) else here[part]
    here[path[-1]] = value


# From pydantic's errors to problems -------------------------------------------------------------------------

SETTINGS = "settings"
"""The table inside a table that has the settings of the engine."""

OF_UNITS = ("no_unit", "unknown_unit")
"""The errors of quantities that are the ends of codes."""

_IN_WORDS = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "string_type": "must be a text in quotes",
    "bool_type": "must be true or false",
    "union_tag_invalid": "must be a name in quotes or a table",
    "list_type": "must be a list in brackets, such as [1, 2]",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "finite_number": "must be a finite number",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_short": "must not be empty",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
}


def formed(
    model: type[Form], data: Mapping[str, Any], problems: Problems, place: KeyPath | None = None
) -> tuple[Form | None, list[KeyPath]]:
    """Validate data with a model; add a problem for each unknown, missing and ill-typed key.

    Parameters
    ----------
    model
        A strict model with extra="forbid". The descriptions of its fields become hints.
    data
        The data of the TOML file.
    problems
        Receives one problem for each wrong key.
    place
        The place of the data in the file, if the keys are not at their own places.

    Returns
    -------
    tuple
        The model, or None if anything is wrong; and the wrong keys.
    """
    wrong: list[KeyPath] = []
    try:
        return model.model_validate(data), wrong
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = _written_part(detail["loc"], data, missing=detail["type"] == "missing")
            # Each member of a union reports a separate error; the first is enough.
            if key not in wrong:
                wrong.append(key)
                problem = _problem(model, key, detail, data, problems.file.area)
                if key in problems.overridden:  # on a command line a text needs no quotes
                    problem = replace(problem, message=problem.message.replace(" in quotes", "", 1))
                problems.add(place or key, problem)
    return None, wrong


def _problem(
    model: type[BaseModel], key: KeyPath, detail: Any, data: Mapping[str, Any], area: str
) -> Problem:
    name, kind, context = dotted(key, element_names(data)), detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        allowed = keys_allowed(model, key[:-1])
        others = f"allowed here: {', '.join(allowed)}"
        hint = suggest(key[-1], allowed, others)
        if hint == others and SETTINGS in allowed:
            inside = dotted((*key[:-1], SETTINGS, key[-1]), element_names(data))
            hint = f"a setting is written as {inside}; {others}"
        return Problem(f"no such key '{name}'", f"{area}.unknown_key", hint)
    if kind == "missing":
        return Problem(f"'{name}' is missing", f"{area}.missing_key", _help(model, key))
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        hint = suggest(detail["input"], allowed, f"allowed: {', '.join(allowed)}")
        message = f"{name} = {show(detail['input'])} is not allowed"
        return Problem(message, f"{area}.value_not_allowed", hint)
    says = _IN_WORDS[kind].format(**context) if kind in _IN_WORDS else detail["msg"]
    message = f"{name} = {show(detail['input'])}: it {says}"
    if kind == "list_type" and (hint := _as_list(model, key, detail["input"])):
        return Problem(message, f"{area}.invalid_value", hint)
    return Problem(message, f"{area}.{kind if kind in OF_UNITS else 'invalid_value'}", _help(model, key))


def _as_list(model: type[BaseModel], key: KeyPath, text: Any) -> str:
    """Return a hint for a text that was given for a list of words; nothing if it is none."""
    field = field_at(model, key)
    if not isinstance(text, str) or "," in text or field is None:
        return ""
    if list[str] not in (field.annotation, *get_args(field.annotation)):
        return ""
    try:
        words = shlex.split(text)
    except ValueError:
        return ""
    return f"write {show(words)}" if words else ""


def _written_part(location: Sequence[str | int], data: Any, *, missing: bool) -> KeyPath:
    """Return the key of an error location, without the union members that pydantic adds to it."""
    key: list[str | int] = []
    for position, part in enumerate(location):
        inside = isinstance(data, dict) and part in data
        if not inside and not (isinstance(data, list) and isinstance(part, int) and part < len(data)):
            if missing and position == len(location) - 1:
                key.append(part)
            continue
        key.append(part)
        data = data[part]
    return tuple(key)


def element_names(data: Mapping[str, Any]) -> dict[KeyPath, str]:
    """Return the names of tables in arrays of tables: their `name` or `id`."""
    names: dict[KeyPath, str] = {}
    for array, tables in data.items():
        for index, table in enumerate(tables if isinstance(tables, list) else ()):
            name = (table.get("name") or table.get("id")) if isinstance(table, dict) else None
            if isinstance(name, str):
                names[(array, index)] = name
    return names


def keys_allowed(model: type[BaseModel], key: KeyPath) -> list[str]:
    """Return the keys that the table at `key` may have."""
    inner = _model_at(model, key)
    return list(inner.model_fields) if inner else []


def field_at(model: type[BaseModel], key: KeyPath) -> FieldInfo | None:
    """Return the field of a key; None if the model does not restrict it."""
    inner = _model_at(model, key[:-1]) if key else None
    return inner.model_fields.get(str(key[-1])) if inner else None


def _help(model: type[BaseModel], key: KeyPath) -> str:
    """Return the description of a key's field, or of the list that the key is an element of."""
    while key:
        field = field_at(model, key)
        if field and field.description:
            return field.description
        key = key[:-1]
    return "docs/generated/reference/study_file.md has all keys"


def _model_at(model: type[BaseModel], key: KeyPath) -> type[BaseModel] | None:
    """Return the model of the table at `key`; None if the model does not restrict it."""
    here: Any = model
    for part in key:
        if table := table_in(here):
            field = table.model_fields.get(str(part))
            here = field.annotation if field else None
        else:
            here = _element_of(here)
    return table_in(here)


def _element_of(annotation: Any) -> Any:
    """Return the type of the elements of a list or dictionary; of a union, of its first such member."""
    if get_origin(annotation) in (list, dict):
        return get_args(annotation)[-1]
    return next((found for each in get_args(annotation) if (found := _element_of(each))), None)


def table_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model that an annotation is, or that is a member of its union."""
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    if get_origin(annotation) in (list, dict):
        return None
    return next((found for each in get_args(annotation) if (found := table_in(each))), None)
