"""Lines of the engine that are damaged: each is understood, or refused with its reason."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from made.damage.corpus import kept
from made.damage.raw import damaged
from made.damage.values import altered

from thunderherd.engine.conform_lines import ConformCase, Conformed, ConformStop
from thunderherd.engine.limit_lines import LimitRound, Limits, LimitUnavailable
from thunderherd.engine.line_base import EngineLine
from thunderherd.engine.lines import (
    Accepted,
    Life,
    LoadResult,
    Mark,
    Namespaces,
    Ready,
    Refused,
    ServerSummary,
    Snapshot,
)
from thunderherd.engine.merged_loads import load_lines, merged_loads
from thunderherd.engine.places.failures import EngineError
from thunderherd.engine.process import problem_in, understand
from thunderherd.engine.profile_lines import Profile, ProfileCheck, SampledStack
from thunderherd.errors import UserError

MODELS: dict[str, type[EngineLine]] = {
    each.model_fields["line"].default: each
    for each in (
        Ready, Snapshot, ServerSummary, Mark, LoadResult, Life, Profile, ProfileCheck, SampledStack,
        Namespaces, Limits, LimitRound, LimitUnavailable, ConformCase, Conformed, ConformStop, Accepted,
        Refused,
    )
}  # fmt: skip
LINES = [line for file in kept("lines") for line in file.splitlines()]
DAMAGES = 500


def model_of(line: bytes) -> type[EngineLine]:
    """The model of a kept line, whose first key says what it is."""
    return MODELS[json.loads(line)["line"]]


def read(line: bytes, model: type[EngineLine], file: Path) -> None:
    """Read a line as the lab does, and write it as a run does; merge it if it is of a load."""
    # Halves of characters arrive, too.
    text = line.decode(errors="replace")
    with suppress(EngineError, UserError):
        found = understand(model, text, "a line")
        json.loads(found.model_dump_json(by_alias=True))
        if isinstance(found, LoadResult):
            file.write_text(text)
            merged_loads(load_lines(file))


def test_every_model_has_a_kept_line_and_understands_it() -> None:
    assert {model_of(line) for line in LINES} == set(MODELS.values())
    for line in LINES:
        understand(model_of(line), line.decode(), "a line")


@pytest.mark.fuzz
def test_a_damaged_line_is_understood_or_refused(
    tmp_path: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    for draw in draws(DAMAGES):
        line = draw.choice(LINES)
        model = model_of(line)
        read(damaged(line, draw), model, tmp_path / "load.jsonl")
        read(altered(json.loads(line), draw).encode(), model, tmp_path / "load.jsonl")


@pytest.mark.fuzz
def test_any_error_message_has_a_problem(draws: Callable[[int], Iterator[random.Random]]) -> None:
    whole = "thunderherd-engine: port 80 may not be bound [listen.not_permitted]\nhint: use one above 1023\n"
    assert problem_in(whole).code == "listen.not_permitted"
    for draw in draws(DAMAGES):
        found = problem_in(damaged(whole.encode(), draw).decode(errors="replace"))
        assert found.code and "\n" not in found.message
