"""Profiles that somebody damaged, of the engine and of a run: each is read, or refused."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from made.damage.raw import damages
from made.damage.values import alterations
from made.extra_trials import NAMES, MakeRig, ProfiledRig, make_rig

import thunderherd
from thunderherd.engine.places.failures import EngineError
from thunderherd.errors import UserError
from thunderherd.judge.why.profile_files import differential
from thunderherd.judge.why.profiles import contender_profile, folded_of
from thunderherd.records.profiled_trial import SideSamples, read_profile

__all__ = ["make_rig"]

DAMAGES, ALTERATIONS = 300, 100


@pytest.mark.fuzz
def test_a_damaged_profile_of_the_engine_is_read_or_refused(
    tmp_path: Path, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    file = tmp_path / "server.jsonl"
    for content in damages("profiles", draws(DAMAGES)):
        file.write_bytes(content)
        with suppress(EngineError, UserError):
            found = SideSamples.of([file], (500, 1300))
            assert SideSamples.model_validate_json(found.model_dump_json()).read() == found.read()


def test_no_line_end_in_a_name_ends_a_line(tmp_path: Path) -> None:
    """A program may give its threads any names, and the engine writes them as they are."""
    lines = Path(__file__).parents[2].joinpath("data/corpus/profiles/whole.jsonl").read_text().split("\n")
    (tmp_path / "server.jsonl").write_text(
        "\n".join([lines[0], lines[1].replace('"thunderherd-engine"', '"a\x85b\u2028c"'), ""])
    )
    _, (stack,) = read_profile(tmp_path / "server.jsonl")
    assert stack.command == "a\x85b\u2028c"


@pytest.mark.fuzz
def test_altered_profiles_of_a_run_are_read_or_refused(
    make_rig: MakeRig, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    """As a run that is resumed reads them, and `explain`."""
    rig: ProfiledRig = make_rig(ProfiledRig)
    rig.run()
    file = rig.directory / rig.file
    first, *rest = file.read_text().splitlines()
    for text in alterations(rig.file, json.loads(first), draws(ALTERATIONS)):
        file.write_text("\n".join([text, *rest, ""]))
        try:
            found = thunderherd.load(rig.directory).profiled()
        except UserError as error:
            assert error.codes == ("results.broken_line",), text
            continue
        for name in NAMES:
            of_one = [each for each in found if each.contender == name]
            contender_profile(name, of_one, "profiles/it")
            folded_of(of_one, "server", calls=True)
        with suppress(EngineError, UserError):
            differential(found, "prefork", "iterative", rig.directory)
