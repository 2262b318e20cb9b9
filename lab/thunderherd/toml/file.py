"""TOML files of which every complaint names the file and the line, and all complaints come at once.

`tomllib` does not say where a key stood, and the TOML libraries that keep a file's layout do not give lines
either. So the text is scanned a second time, after `tomllib` has accepted it: `locate` may rely on
well-formed TOML and only has to find where keys begin.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from thunderherd.errors import Problem, UserError

KeyPath = tuple[str | int, ...]
"""A place in a TOML document: names of tables and keys, numbers (from 0) of array elements."""

Form = TypeVar("Form", bound=BaseModel)


class TomlFile:
    """One TOML file as read: its data, and the line of each key.

    Where its `text` is given it need not be there. Raises UserError when it cannot be read or is no TOML.
    """

    def __init__(self, path: Path, text: str | None = None) -> None:
        self.path = path
        self._text = text = read_text(path) if text is None else text
        try:
            self.data: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            where = f"{path}:{_line_of_syntax_error(error, text)}"
            raise UserError(f"no valid TOML: {error}", code="study.not_toml", where=where) from None

    @cached_property
    def lines(self) -> dict[KeyPath, int]:
        """The line of each key, which are looked for when the first is asked for."""
        return locate(self._text)

    def where(self, key: KeyPath) -> str:
        """FILE:LINE of a key; where the key is not written, of the nearest table around it."""
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.path}:{self.lines.get(key, 1)}"


def read_text(path: Path) -> str:
    """The text of a file; UserError when there is none to be had."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        message = f"no UTF-8 text (byte {error.start})"
        raise UserError(
            message, code="file.not_text", hint="is it the right file?", where=str(path)
        ) from None
    except OSError as error:
        message = f"cannot be read: {error.strerror or error}"
        raise UserError(message, code="file.unreadable", where=str(path)) from None


def _line_of_syntax_error(error: tomllib.TOMLDecodeError, text: str) -> int:
    """`tomllib` gives the line in its message only (as an attribute from Python 3.14 on)."""
    found = re.search(r"at line (\d+)", str(error))
    return int(found[1]) if found else text.count("\n") + 1


# Problems ---------------------------------------------------------------------------------------------------


class Problems:
    """Collects the problems of one file, so that the user can solve them all at once."""

    def __init__(self, file: TomlFile) -> None:
        self.file = file
        self.origins: dict[KeyPath, str] = {}
        """Keys whose value was written elsewhere: where it was written."""
        self.overridden: dict[KeyPath, Any] = {}
        """The keys among them to which the user gave another value, and the value."""
        self.settled: set[KeyPath] = set()
        """Keys that are wrong by themselves. Other problems with them only follow from that."""
        self._found: list[Problem] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, key: KeyPath, problem: Problem | str, *, code: str = "", hint: str = "") -> None:
        """Adds a problem with a key; the same problem is added once."""
        if key in self.settled:
            return
        found = problem if isinstance(problem, Problem) else Problem(problem, code, hint)
        self.note(found.at(self.where(key)))

    def note(self, problem: Problem | str, *, code: str = "", hint: str = "") -> None:
        """Adds a problem that names its place itself."""
        found = problem if isinstance(problem, Problem) else Problem(problem, code, hint)
        if found not in self._found:
            self._found.append(found)

    def where(self, key: KeyPath) -> str:
        """Where the value of a key was written: an override, a size, or its own line."""
        for length in range(len(key), 0, -1):
            if origin := self.origins.get(key[:length]):
                return origin
        return self.file.where(key)

    def blame(self, *keys: KeyPath) -> KeyPath:
        """Of keys that contradict each other, the overridden one; otherwise the first."""
        return next((key for key in keys if key in self.overridden), keys[0])

    def absorb(self, other: "Problems") -> None:
        """Adds the problems that another pass over the same file found."""
        self._found.extend(each for each in other._found if each not in self._found)

    def raise_any(self) -> None:
        """Raises one UserError with all problems, in the order of the file."""
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
    """Sorts line 9 before line 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", line)]


def near(name: object, known: Iterable[str]) -> str:
    """`; did you mean 'prefork_mutex'?`, or nothing if no known name is close."""
    found = nearest(name, known)
    return f"; did you mean '{found}'?" if found else ""


def nearest(name: object, known: Iterable[str]) -> str | None:
    """The known name that is closest to what was typed; None if none is close."""
    names = list(dict.fromkeys(known))
    found = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if not found and len(str(name)) > 2:
        found = [candidate for candidate in names if candidate.startswith(str(name))][:1]
    return found[0] if found else None


def unknown(what: str, name: object, known: Iterable[str], area: str = "study") -> Problem:
    """`no such design 'x'`, with code `study.unknown_design` and the known names as hint."""
    names = list(dict.fromkeys(known))
    kind = re.sub(r"\W+", "_", re.sub(r" (of|in) .*", "", what))
    hint = f"known: {', '.join(names) or 'none'}{near(name, names)}"
    return Problem(f"no such {what} {show(name)}", f"{area}.unknown_{kind}", hint)


def show(value: object) -> str:
    """A value as TOML writes it, cut where it is long."""
    text = str(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def dotted(key: KeyPath, names: Mapping[KeyPath, str] | None = None) -> str:
    """`load.settings.loops`; array elements by the name that `names` has for them, else `[2]`."""
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
    """The values of a table with their keys: `{a = {b = 1}}` and `{"a.b" = 1}` are the same."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from flat(value, (*path, key))
        else:
            yield (*path, key), value


def assign(data: dict[str, Any], path: KeyPath, value: Any) -> None:
    """Puts a value into nested tables, making those that are not there."""
    here: Any = data
    for part in path[:-1]:
        here = here.setdefault(part, {}) if isinstance(part, str) else here[part]
    here[path[-1]] = value


# From pydantic's complaints to ours -------------------------------------------------------------------------

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
}


def formed(
    model: type[Form], data: Mapping[str, Any], problems: Problems, place: KeyPath | None = None
) -> tuple[Form | None, list[KeyPath]]:
    """Holds data against a model, and notes every unknown, missing and ill-typed key. Returns what is made of
    the data, None where something is wrong, and the keys that are.

    Parameters
    ----------
    model
        A strict model with extra="forbid"; the descriptions of its fields say what is allowed.
    data
        What the TOML file says.
    problems
        Takes one problem for each key.
    place
        Where the file has the data, if that is not at the place of each key.
    """
    wrong: list[KeyPath] = []
    try:
        return model.model_validate(data), wrong
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            key = _written_part(detail["loc"], data, missing=detail["type"] == "missing")
            # The members of a union complain one by one; the first complaint is enough.
            if key not in wrong:
                wrong.append(key)
                problem = _complaint(model, key, detail, data)
                if key in problems.overridden:  # a word that the user typed is a text without quotes
                    problem = replace(problem, message=problem.message.replace(" in quotes", "", 1))
                problems.add(place or key, problem)
    return None, wrong


def _complaint(model: type[BaseModel], key: KeyPath, detail: Any, data: Mapping[str, Any]) -> Problem:
    name, kind, context = dotted(key, element_names(data)), detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        allowed = keys_allowed(model, key[:-1])
        hint = f"allowed here: {', '.join(allowed)}{near(key[-1], allowed)}"
        return Problem(f"no such key '{name}'", "study.unknown_key", hint)
    if kind == "missing":
        return Problem(f"'{name}' is missing: {_help(model, key)}", "study.missing_key")
    if kind == "literal_error":
        allowed = re.findall(r"'([^']*)'", context["expected"])
        hint = f"allowed: {', '.join(allowed)}{near(detail['input'], allowed)}"
        return Problem(f"{name} = {show(detail['input'])}", "study.value_not_allowed", hint)
    says = _IN_WORDS[kind].format(**context) if kind in _IN_WORDS else detail["msg"]
    message = f"{name} = {show(detail['input'])}: it {says} ({_help(model, key)})"
    return Problem(message, "study.invalid_value")


def _written_part(location: Sequence[str | int], data: Any, *, missing: bool) -> KeyPath:
    """Pydantic adds the tried members of a union to its locations; the file does not have those."""
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
    """The names of tables in arrays of tables: their `name` or `id`, where they have one."""
    names: dict[KeyPath, str] = {}
    for array, tables in data.items():
        for index, table in enumerate(tables if isinstance(tables, list) else ()):
            name = (table.get("name") or table.get("id")) if isinstance(table, dict) else None
            if isinstance(name, str):
                names[(array, index)] = name
    return names


def keys_allowed(model: type[BaseModel], key: KeyPath) -> list[str]:
    """The keys that may stand in the table at `key`."""
    inner = _model_at(model, key)
    return list(inner.model_fields) if inner else []


def field_at(model: type[BaseModel], key: KeyPath) -> FieldInfo | None:
    """The field that a key is the value of; None where anything may stand."""
    inner = _model_at(model, key[:-1]) if key else None
    return inner.model_fields.get(str(key[-1])) if inner else None


def _help(model: type[BaseModel], key: KeyPath) -> str:
    """What a key is for, from the description of its field, or of the list that it is an element of."""
    while key:
        field = field_at(model, key)
        if field and field.description:
            return field.description
        key = key[:-1]
    return "see a bundled study"


def _model_at(model: type[BaseModel], key: KeyPath) -> type[BaseModel] | None:
    """The model of the table at `key`; None where anything may stand."""
    here: Any = model
    for part in key:
        if table := _table_in(here):
            field = table.model_fields.get(str(part))
            here = field.annotation if field else None
        else:
            here = _element_of(here)
    return _table_in(here)


def _element_of(annotation: Any) -> Any:
    """What a list or a dictionary holds; of a union, its first member that is one."""
    if get_origin(annotation) in (list, dict):
        return get_args(annotation)[-1]
    return next((found for each in get_args(annotation) if (found := _element_of(each))), None)


def _table_in(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation is, or that is a member of its union."""
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    if get_origin(annotation) in (list, dict):
        return None
    return next((found for each in get_args(annotation) if (found := _table_in(each))), None)


# Where keys stand -------------------------------------------------------------------------------------------


def locate(text: str) -> dict[KeyPath, int]:
    """The line (from 1) of every table, key and array element of a TOML text that `tomllib` accepts."""
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
        """How many elements each array of tables has so far."""

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
        """Goes past what the pattern matches here, and returns it; "" where it does not match."""
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
        """The table of that name; of an array of tables, its last element."""
        self.note(key, at)
        return (*key, self.elements[key] - 1) if key in self.elements else key

    def key(self) -> list[str]:
        """A dotted key, its parts unquoted; stops before `=` or `]`."""
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
        """The elements of an array, or the pairs of an inline table."""
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
