"""The clients' own way of moving bytes: in studies, in their sweeps, in what is started and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import SMALL_STUDY

from thunderherd.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.study import Study, load_study
from thunderherd.trial import run_trial

CHUNKS = SMALL_STUDY.replace('kind = "closed"\n', 'kind = "closed"\nprimitive = "test_chunks"\n').replace(
    "loops = 25,", "loops = 25, chunk = 100,"
)
SWEPT = (
    SMALL_STUDY
    + """
[[sweeps]]
name = "ways"
title = "Each side's way of moving bytes"
key = "load.primitive"
values = ["send", "test_chunks"]
contenders = ["iterative", "fork_per_client"]
[[sweeps]]
name = "both"
title = "Both sides at once"
values = [
    { name = "plain", set = { primitive = "send", "load.primitive" = "send" } },
    { name = "chunks", set = { primitive = "test_chunks", "settings.chunk" = 9, \
"load.primitive" = "test_chunks", "load.settings.chunk" = 7 } },
]
contenders = ["iterative", "fork_per_client"]
"""
)


@pytest.fixture
def loaded(tmp_path: Path, some_catalogue: Catalogue) -> Callable[..., Study]:
    def load(text: str, *overrides: str) -> Study:
        path = tmp_path / "small.toml"
        path.write_text(text.replace("looks = [10", "looks = [14").replace("[14, 12, 16]", "[14, 15, 16]"))
        return load_study(str(path), "quick", list(overrides), some_catalogue)

    return load


def test_it_is_send_where_nobody_says_otherwise(loaded: Callable[..., Study]) -> None:
    study = loaded(SMALL_STUDY)
    assert {each.load.primitive for each in study.contenders} == {study.load.primitive} == {"send"}
    assert "chunk" not in study.load.settings


def test_its_settings_are_the_loads(loaded: Callable[..., Study]) -> None:
    study = loaded(CHUNKS)
    assert (study.load.primitive, study.load.settings["chunk"]) == ("test_chunks", 100)
    assert {each.primitive for each in study.contenders} == {"send"}
    assert all("chunk" not in each.settings for each in study.contenders)
    assert loaded(CHUNKS, "load.settings.chunk=9").load.settings["chunk"] == 9
    assert loaded(SMALL_STUDY, "load.primitive=test_chunks").load.settings["chunk"] == 512
    assert study.digest != loaded(SMALL_STUDY).digest


def test_a_contender_may_have_its_own(loaded: Callable[..., Study]) -> None:
    text = SMALL_STUDY + 'load = { primitive = "test_chunks", settings = { chunk = 8 } }\n'
    study = loaded(text)
    assert study.load.primitive == "send"
    assert study.contender("prefork").load.model_dump()["primitive"] == "test_chunks"
    assert study.contender("prefork").load.settings["chunk"] == 8


def test_sweeps_go_over_it(loaded: Callable[..., Study]) -> None:
    study = loaded(SWEPT)
    found = {each.name: each for each in study.contenders}
    assert found["iterative@ways=send"].load.primitive == "send"
    assert found["iterative@ways=test_chunks"].load.settings["chunk"] == 512
    chunks = found["iterative@both=chunks"]
    assert (chunks.primitive, chunks.settings["chunk"]) == ("test_chunks", 9)
    assert (chunks.load.primitive, chunks.load.settings["chunk"]) == ("test_chunks", 7)


@pytest.mark.parametrize(
    ("text", "overrides", "says"),
    [
        (CHUNKS.replace('"test_chunks"', '"test_chunk"'), (), "did you mean 'test_chunks'?"),
        (SWEPT.replace('"send", "test_chunks"]', '"sent"]'), (), "did you mean 'send'?"),
        (SMALL_STUDY, ("load.settings.chunk=9",), 'load "closed" has no setting "chunk"'),
        (CHUNKS, ("load.settings.chunk=0",), "chunk = 0; allowed: a whole number from 1"),
        (CHUNKS.replace("chunk = 100", "chunks = 1"), (), 'load "closed" with primitive test_chunks'),
        (SMALL_STUDY, ("primitive=test_chunks",), "could be server.primitive or load.primitive"),
    ],
)
def test_what_there_is_not_is_refused(
    loaded: Callable[..., Study], text: str, overrides: Sequence[str], says: str
) -> None:
    with pytest.raises(UserError) as refused:
        loaded(text, *overrides)
    assert says in str(refused.value)


def test_the_load_is_started_with_it(loaded: Callable[..., Study], fake_engine: Callable[..., Path]) -> None:
    fake_engine()
    study = loaded(CHUNKS)
    found = run_trial(study, study.contender("prefork"), block=1, position=1, seed=1)
    assert found.valid, found.invalid_reasons
    for each in (*found.loads, *found.warm_up):
        assert (each.primitive, each.settings["chunk"]) == ("test_chunks", "100")
