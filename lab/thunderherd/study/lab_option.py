"""The option --lab, which chooses where a command runs.

Its value is a kind of lab (`veth`), a word that only one key of [lab] takes (`apart`), or KEY=VALUE of [lab]
(`mtu=9000`). It may be repeated. Commands differ only in the keys that they take.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from thunderherd.errors import Problem, UserError
from thunderherd.hosts.addresses import LOAD, SCHEDULER, SERVER
from thunderherd.labs import KINDS, OF_HOSTS, owners, takes
from thunderherd.labs.words import OPTION, QUANTITIES, InvalidQuantity, parse
from thunderherd.study.file.tables import LabTable
from thunderherd.study.overrides import parse_override
from thunderherd.toml.file import show, unknown

AREA = "lab"
"""The area of the codes of this option's mistakes."""

KEYS = tuple(LabTable.model_fields)
"""The keys of [lab] in a study."""


def read(typed: Sequence[str], keys: Sequence[str] = KEYS, command: str = "") -> dict[str, Any]:
    """Return the typed keys of [lab] and their values, as TOML has them.

    Parameters
    ----------
    typed
        The values of the option, in their order.
    keys
        The keys that the command takes.
    command
        The beginning of an error's place, such as `"crossover: "`.

    Raises
    ------
    UserError
        A word or key is unknown, a quantity is invalid, a key is given twice, or the typed kind does not take
        a key.
    """
    # A command that does not take hosts has no lab of them either.
    kinds = [each.name for each in KINDS.values() if SERVER in keys or not each.reaches_hosts]
    words = dict.fromkeys(kinds, "kind")
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
            found_word = unknown("kind", text, words, AREA)
            raise UserError(
                replace(found_word, hint=f"{found_word.hint}; or KEY=VALUE").at(f"{option} {text}")
            )
        if key not in keys:
            why = _not_taken(key, keys) or unknown("key", key, keys, AREA)
            raise UserError(why.at(f"{option} {text}"))
        if key == "kind" and value not in kinds:
            raise UserError(unknown("kind", value, kinds, AREA).at(f"{option} {text}"))
        if key in QUANTITIES:
            _check_quantity(key, value, f"{option} {text}")
        if key in found:
            raise UserError(
                f"{key} is given twice: {show(found[key])}, and {show(value)}",
                code="lab.duplicate_key",
                hint="leave one of them out",
                where=option,
            )
        found[key], typed_of[key] = value, text
    _check_kind(found, typed_of, option)
    if not {SERVER, LOAD, SCHEDULER}.isdisjoint(found):
        found.setdefault("kind", OF_HOSTS.name)
    return found


def _parts(text: str) -> list[str]:
    """Split a text at commas that are not inside a list, in brackets or of CPUs."""
    return [each.strip() for each in re.split(r",(?![^\[]*\])(?!\s*[0-9-]+\s*(?:,|$))", text)]


def _check_alone(
    place: int, parts: Sequence[str], typed: Sequence[str], keys: Sequence[str], command: str
) -> None:
    """Raise UserError, because each kind, word and key needs a separate option.

    The hint must be valid, so the separate options are read first, which may raise other errors.
    """
    where = f"{command}{OPTION} {typed[place]}"
    left_out = {each: why for each in parts if (why := _not_taken(_key(each), keys))}
    instead = " ".join(f"{OPTION} {each}" for each in parts if each not in left_out)
    if left_out and instead:
        raise UserError(replace(next(iter(left_out.values())), hint=f"type {instead}", where=where))
    read([*typed[:place], *parts, *typed[place + 1 :]], keys, command)
    raise UserError(
        "several values in one option",
        code="lab.several_values",
        hint=f"did you mean {instead}?",
        where=where,
    )


def _key(text: str) -> str:
    return text.partition("=")[0].removeprefix("lab.")


def _not_taken(key: str, keys: Sequence[str]) -> Problem | None:
    """Return the problem of a quantity that a command does not take because it joins an existing network."""
    if key not in QUANTITIES or key in keys:
        return None
    message = f"the server chooses the {key} (`serve {OPTION}`), and this command joins its network"
    return Problem(message, "lab.key_not_taken", f"known: {', '.join(keys)}")


def _check_kind(found: Mapping[str, Any], typed: Mapping[str, str], option: str) -> None:
    """Check that the typed kind takes the typed keys."""
    kind = found.get("kind")
    for key, text in typed.items():
        if kind is None or takes(kind, key):
            continue
        kinds = [each.name for each in owners(key)]
        instead = " or ".join(f"{OPTION} {each} {OPTION} {text}" for each in kinds)
        raise UserError(
            f"lab {kind} has no {key}, which is a key of lab {' and '.join(kinds)}",
            code="lab.key_of_other_lab",
            hint=f"leave it out, or type {instead}",
            where=f"{option} {text}",
        )


def _check_quantity(key: str, value: object, typed: str) -> None:
    try:
        parse(key, value, on_command_line=True)
    except InvalidQuantity as error:
        code = "lab.invalid_quantity"
        raise UserError(error.message, code=code, hint=error.hint, where=typed) from None


def as_overrides(found: Mapping[str, Any]) -> list[str]:
    """Return the keys as `--set` takes them, which is how a run records them."""
    return [f"lab.{key}={_written(value)}" for key, value in found.items()]


def typed_as(typed: Sequence[str]) -> dict[str, str]:
    """Return the overrides of `as_overrides`, each with the words that the user typed."""
    return {each: f"{OPTION} {text}" for text in typed for each in as_overrides(read([text]))}


def _written(value: Any) -> str:
    """Return a value as TOML; a kind or a choice needs no quotes in an override."""
    is_word = isinstance(value, str) and value.isidentifier() and value not in ("true", "false", "inf", "nan")
    return str(value) if is_word else json.dumps(value, ensure_ascii=False)
