"""Refusals in tests: assertions are on codes and places, and golden pages have the words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from thunderherd.errors import Problem, UserError

PRINTED = re.compile(r"^thunderherd: (?P<text>.*) \[(?P<code>[a-z_]+\.[a-z_]+)\]$", re.MULTILINE)


def refused(call: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Problem, ...]:
    """Return the problems that a call is refused for."""
    with pytest.raises(UserError) as refusal:
        call(*arguments, **named)
    return refusal.value.problems


def below(directory: Path, problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Return problems with paths relative to a directory."""
    prefix = f"{directory}/"
    return tuple(
        Problem(*(part.replace(prefix, "") for part in (each.message, each.code, each.hint, each.where)))
        for each in problems
    )


def places(problems: Iterable[Problem], code: str) -> list[str]:
    """Return the places of the problems with a code."""
    return [each.where for each in problems if each.code == code]


def page(cases: Iterable[tuple[str, Iterable[Problem]]]) -> str:
    """Return a golden page: for each case its title, its problems, and their hints."""
    lines: list[str] = []
    for title, problems in cases:
        lines += [f"# {title}"]
        for each in problems:
            lines += [each.line, *([f"    hint: {each.hint}"] if each.hint else [])]
        lines.append("")
    return "\n".join(lines)


def codes_printed(stderr: str) -> list[str]:
    """Return the codes of the problems that a command printed, in their order."""
    return [found["code"] for found in PRINTED.finditer(stderr)]
