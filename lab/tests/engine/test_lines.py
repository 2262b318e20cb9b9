"""The lab's models of the engine's lines, compared with the schema that the engine prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thunderherd.engine.conform_lines import ConformCase, Conformed, ConformStop
from thunderherd.engine.limit_lines import LimitRound, Limits, LimitUnavailable
from thunderherd.engine.line_base import EngineLine, Used
from thunderherd.engine.lines import (
    Accepted,
    Connected,
    Life,
    LoadResult,
    Mark,
    Namespaces,
    Ready,
    Refused,
    ServerSummary,
    Snapshot,
    Tally,
)
from thunderherd.engine.profile_lines import Profile, ProfileCheck, SampledStack

SCHEMA = json.loads(
    (
        Path(__file__).resolve().parents[3] / "docs" / "generated" / "reference" / "engine_lines.schema.json"
    ).read_text()
)
LINES: list[type[EngineLine]] = [
    Connected,
    Ready, Snapshot, ServerSummary, Mark, LoadResult, Life, Profile, ProfileCheck, SampledStack, Namespaces,
    Limits, LimitRound, LimitUnavailable, ConformCase, Conformed, ConformStop, Accepted, Refused,
]  # fmt: skip


def published(line: type[EngineLine]) -> dict[str, Any]:
    """What the engine's schema says of a line."""
    name = line.model_fields["line"].default
    found: list[dict[str, Any]] = [
        each for each in SCHEMA["oneOf"] if each["properties"]["line"]["const"] == name
    ]
    (said,) = found
    # A line is the keys of its own type and `line`.
    reference = said.get("$ref", "").rpartition("/")[2]
    own = SCHEMA["$defs"][reference] if reference else {"properties": {}, "required": []}
    return {
        "properties": {**own["properties"], **said["properties"]},
        "required": [*own.get("required", []), *said.get("required", [])],
    }


def test_every_line_has_a_model() -> None:
    names = {each["properties"]["line"]["const"] for each in SCHEMA["oneOf"]}
    assert names == {line.model_fields["line"].default for line in LINES}


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.__name__)
def test_a_line_has_the_keys_that_its_model_reads(line: type[EngineLine]) -> None:
    said = published(line)
    for name, field in line.model_fields.items():
        key = field.alias or name
        assert key in said["properties"], key
        assert key in said["required"] or not field.is_required() or "null" in str(said["properties"][key])


def test_resource_usage_is_part_of_each_line_that_reports_it() -> None:
    lines = [line for line in LINES if issubclass(line, Used)]
    assert lines == [ServerSummary, LoadResult, Life, Profile]
    for line in lines:
        assert Used.model_fields.keys() <= set(published(line)["required"])


def test_tally_has_every_count_of_the_engine() -> None:
    counts = SCHEMA["$defs"]["Counts"]
    assert Tally.model_fields.keys() == counts["properties"].keys()
