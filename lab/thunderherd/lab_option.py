"""The option --lab of every command that has one: where it runs.

Its value is a kind of lab (`veth`), a word that only one key of [lab] may have (`apart`), or KEY=VALUE of
[lab] (`mtu=9000`); it may be repeated. Commands differ in the keys that they take, and in nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, get_args

from thunderherd.errors import UserError
from thunderherd.lab_words import OPTION, QUANTITIES, parse
from thunderherd.labs import KINDS
from thunderherd.study_file import near, show, unknown
from thunderherd.study_form import LabTable
from thunderherd.study_overrides import parse_override

KEYS = tuple(LabTable.model_fields)
"""What a study's [lab] has."""


def read(typed: Sequence[str], keys: Sequence[str] = KEYS, command: str = "") -> dict[str, Any]:
    """The keys of [lab] that were typed, with their values as TOML has them.

    Parameters
    ----------
    typed
        The option's values, in their order.
    keys
        Those that the command takes.
    command
        What an error begins with, such as `"crossover: "`.

    Raises
    ------
    UserError
        For a word or a key that there is not, a quantity that is none, and a key that is given twice.
    """
    words = dict.fromkeys(KINDS, "kind")
    for key in keys:
        choices = get_args(LabTable.model_fields[key].annotation)
        words |= {word: key for word in choices if isinstance(word, str)}
    found: dict[str, Any] = {}
    for text in typed:
        option = f"{command}{OPTION}"
        _check_alone(text, option, {*words, *keys})
        if "=" in text:
            key, value = parse_override(text, option)
            key = key.removeprefix("lab.")
        elif text in words:
            key, value = words[text], text
        else:
            raise UserError(f"{option} {text}: {unknown('lab', text, words)}; or KEY=VALUE")
        if key not in keys:
            raise UserError(
                f"{option} {text}: no such key {show(key)}; known: {', '.join(keys)}{near(key, keys)}"
            )
        if key == "kind" and value not in KINDS:
            raise UserError(f"{option} {text}: {unknown('lab', value, KINDS)}")
        if key in QUANTITIES:
            _check_quantity(key, value, f"{option} {text}")
        if key in found:
            raise UserError(
                f"{option}: {key} is given twice: {show(found[key])}, and {show(value)}; leave one out"
            )
        found[key] = value
    return found


def _check_alone(text: str, option: str, known: Collection[str]) -> None:
    """Each kind, word and key is typed with an option of its own."""
    parts = [each.strip() for each in re.split(r",(?![^\[]*\])", text)]
    if len(parts) > 1 and all(each.partition("=")[0].removeprefix("lab.") in known for each in parts):
        apart = " ".join(f"{OPTION} {each}" for each in parts)
        raise UserError(f"{option} {text}: it takes one of them at a time; did you mean {apart}?")


def _check_quantity(key: str, value: object, typed: str) -> None:
    try:
        parse(key, value, on_command_line=True)
    except ValueError as error:
        raise UserError(f"{typed}: {error}") from None


def as_overrides(found: Mapping[str, Any]) -> list[str]:
    """The same as `--set` takes them, which is how a run records them."""
    return [f"lab.{key}={_written(value)}" for key, value in found.items()]


def typed_as(typed: Sequence[str]) -> dict[str, str]:
    """The overrides that `as_overrides` makes of them, each with the words that it was typed as."""
    return {each: f"{OPTION} {text}" for text in typed for each in as_overrides(read([text]))}


def _written(value: Any) -> str:
    """A value as TOML; a word that is a kind or a choice needs no quotes there."""
    is_word = isinstance(value, str) and value.isidentifier() and value not in ("true", "false", "inf", "nan")
    return str(value) if is_word else json.dumps(value, ensure_ascii=False)
