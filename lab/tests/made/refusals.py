"""What was refused, and where: tests assert the code of a refusal, and golden pages hold its words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from thunderherd.errors import Problem, UserError

PRINTED = re.compile(r"^thunderherd: (?P<text>.*) \[(?P<code>[a-z_]+\.[a-z_]+)\]$", re.MULTILINE)


def refused(call: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[Problem, ...]:
    """The problems that a call is refused for."""
    with pytest.raises(UserError) as refusal:
        call(*arguments, **named)
    return refusal.value.problems


def codes_printed(stderr: str) -> list[str]:
    """The codes of the problems that a command printed, in their order."""
    return [found["code"] for found in PRINTED.finditer(stderr)]
