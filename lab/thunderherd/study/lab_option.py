"""The option --lab of every command that has one: where it runs.

Its value is a kind of lab (`veth`), a word that only one key of [lab] may have (`apart`), or KEY=VALUE of
[lab] (`mtu=9000`); it may be repeated. Commands differ in the keys that they take, and in nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from thunderherd.errors import UserError
from thunderherd.labs import KINDS, owners, takes
from thunderherd.labs.words import OPTION, QUANTITIES, parse
from thunderherd.study.file.tables import LabTable
from thunderherd.study.overrides import parse_override
from thunderherd.toml.file import near, show, unknown

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
        For a word or a key that there is not, a quantity that is none, a key that is given twice, and one
        that the kind typed with it does not take.
    """
    words = dict.fromkeys(KINDS, "kind")
    for key in keys:
        choices = get_args(LabTable.model_fields[key].annotation)
        words |= {word: key for word in choices if isinstance(word, str)}
    found: dict[str, Any] = {}
    typed_of: dict[str, str] = {}
    option = f"{command}{OPTION}"
    for place, text in enumerate(typed):
        if len(parts := _parts(text)) > 1:
            _check_alone(place, parts, typed, keys, command)
        if "=" in text:
            key, value = parse_override(text, option)
            key = key.removeprefix("lab.")
        elif text in words:
            key, value = words[text], text
        else:
            raise UserError(f"{option} {text}: {unknown('lab', text, words)}; or KEY=VALUE")
        if key not in keys:
            why = (
                _not_its_own(key, keys)
                or f"no such key {show(key)}; known: {', '.join(keys)}{near(key, keys)}"
            )
            raise UserError(f"{option} {text}: {why}")
        if key == "kind" and value not in KINDS:
            raise UserError(f"{option} {text}: {unknown('lab', value, KINDS)}")
        if key in QUANTITIES:
            _check_quantity(key, value, f"{option} {text}")
        if key in found:
            raise UserError(
                f"{option}: {key} is given twice: {show(found[key])}, and {show(value)}; leave one out"
            )
        found[key], typed_of[key] = value, text
    _check_kind(found, typed_of, option)
    return found


def _parts(text: str) -> list[str]:
    """What stands between commas, but for those of lists."""
    return [each.strip() for each in re.split(r",(?![^\[]*\])", text)]


def _check_alone(
    place: int, parts: Sequence[str], typed: Sequence[str], keys: Sequence[str], command: str
) -> None:
    """Each kind, word and key is typed with an option of its own.

    What is proposed in place of several is no mistake itself: who would be refused once more is told why now.
    """
    option, text = f"{command}{OPTION}", typed[place]
    left_out = [each for each in parts if _not_its_own(_key(each), keys)]
    apart = [each for each in parts if each not in left_out]
    instead = " ".join(f"{OPTION} {each}" for each in apart)
    if left_out and apart:
        raise UserError(f"{option} {text}: {_not_its_own(_key(left_out[0]), keys)}; type {instead}")
    read([*typed[:place], *parts, *typed[place + 1 :]], keys, command)
    raise UserError(f"{option} {text}: it takes one of them at a time; did you mean {instead}?")


def _key(text: str) -> str:
    return text.partition("=")[0].removeprefix("lab.")


def _not_its_own(key: str, keys: Sequence[str]) -> str | None:
    """Why a command does not take a quantity that others do: it joins a network, which has its own."""
    if key not in QUANTITIES or key in keys:
        return None
    joined = f"the {key} is the server's to choose (`serve {OPTION}`), whose network this joins"
    return f"{joined}; known: {', '.join(keys)}"


def _check_kind(found: Mapping[str, Any], typed: Mapping[str, str], option: str) -> None:
    """The kind that is typed takes the keys that are typed with it."""
    kind = found.get("kind")
    for key, text in typed.items():
        if kind is None or takes(kind, key):
            continue
        kinds = [each.name for each in owners(key)]
        instead = " or ".join(f"{OPTION} {each} {OPTION} {text}" for each in kinds)
        raise UserError(
            f"{option} {text}: lab {kind} has no {key}, which is a key of lab {' and '.join(kinds)}; leave "
            f"it out, or type {instead}"
        )


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
