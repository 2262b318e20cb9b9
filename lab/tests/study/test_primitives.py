"""Each side's way of moving bytes, a primitive for each direction: in studies, in their sweeps, in what is
started and kept; and what does not fit, or is not here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made.refusals import places, refused
from made.small_studies import SMALL_STUDY

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import catalogue
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.trial import run_trial

CHUNKS = SMALL_STUDY.replace('kind = "closed"\n', 'kind = "closed"\nprimitive = "test_chunks"\n').replace(
    "loops = 25,", "loops = 25, chunk = 100,"
)
DISCARDING = SMALL_STUDY.replace('kind = "closed"\n', 'kind = "closed"\nreceive = "test_discard"\n').replace(
    "loops = 25,", "loops = 25, most = 7,"
)
SWEPT = (
    SMALL_STUDY
    + """
[[sweeps]]
name = "ways"
title = "Each side's way of moving bytes"
key = "load.primitive"
values = ["send_each", "test_chunks"]
contenders = ["iterative", "fork_per_client"]
[[sweeps]]
name = "both"
title = "Both sides at once"
values = [
    { name = "plain", set = { primitive = "send_each", "load.primitive" = "send_each" } },
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


def test_default_primitives_are_send_each_and_recv(loaded: Callable[..., Study]) -> None:
    study = loaded(SMALL_STUDY)
    assert {each.load.primitive for each in study.contenders} == {study.load.primitive} == {"send_each"}
    assert {(each.receive, each.load.receive) for each in study.contenders} == {("recv", "recv")}
    silent = SMALL_STUDY.replace('primitive = "send_each"\n', "")
    assert loaded(silent).digest == study.digest
    assert "chunk" not in study.load.settings


def test_settings_of_the_loads_primitive_belong_to_the_load(loaded: Callable[..., Study]) -> None:
    study = loaded(CHUNKS)
    assert (study.load.primitive, study.load.settings["chunk"]) == ("test_chunks", 100)
    assert {each.primitive for each in study.contenders} == {"send_each"}
    assert all("chunk" not in each.settings for each in study.contenders)
    assert loaded(CHUNKS, "load.settings.chunk=9").load.settings["chunk"] == 9
    assert loaded(SMALL_STUDY, "load.primitive=test_chunks").load.settings["chunk"] == 512
    assert study.digest != loaded(SMALL_STUDY).digest


def test_contender_may_have_its_own_load_primitive(loaded: Callable[..., Study]) -> None:
    text = SMALL_STUDY + 'load = { primitive = "test_chunks", settings = { chunk = 8 } }\n'
    study = loaded(text)
    assert study.load.primitive == "send_each"
    assert study.contender("prefork").load.model_dump()["primitive"] == "test_chunks"
    assert study.contender("prefork").load.settings["chunk"] == 8


def test_sweep_may_vary_primitives(loaded: Callable[..., Study]) -> None:
    study = loaded(SWEPT)
    found = {each.name: each for each in study.contenders}
    assert found["iterative@ways=send_each"].load.primitive == "send_each"
    assert found["iterative@ways=test_chunks"].load.settings["chunk"] == 512
    chunks = found["iterative@both=chunks"]
    assert (chunks.primitive, chunks.settings["chunk"]) == ("test_chunks", 9)
    assert (chunks.load.primitive, chunks.load.settings["chunk"]) == ("test_chunks", 7)


def test_receive_primitive_has_settings(loaded: Callable[..., Study]) -> None:
    study = loaded(DISCARDING)
    assert {(each.receive, each.load.receive) for each in study.contenders} == {("recv", "test_discard")}
    assert (study.load.settings["most"], study.load.stores) == (7, False)
    assert all("most" not in each.settings and each.stores for each in study.contenders)
    assert loaded(SMALL_STUDY, "load.receive=test_discard").load.settings["most"] == 4096


def test_contender_or_point_may_have_its_own_receive_primitive(loaded: Callable[..., Study]) -> None:
    text = SMALL_STUDY + 'load = { receive = "test_discard", settings = { most = 8 } }\n'
    prefork = loaded(text).contender("prefork")
    assert (prefork.load.receive, prefork.load.settings["most"]) == ("test_discard", 8)
    swept = SWEPT.replace(
        '"load.primitive"\nvalues = ["send_each", "test_chunks"]',
        '"load.receive"\nvalues = ["recv", "test_discard"]',
    )
    found = {each.name: each for each in loaded(swept).contenders}
    assert found["iterative@ways=recv"].load.stores
    assert found["iterative@ways=test_discard"].load.settings["most"] == 4096
    assert found["iterative@ways=test_discard"].configured()["load.receive"] == "test_discard"


def test_unavailable_primitive_is_refused_or_left_out(loaded: Callable[..., Study]) -> None:
    for key in ("server.primitive", "load.primitive"):
        problems = refused(loaded, SMALL_STUDY, f"{key}=test_absent")
        assert {problem.code for problem in problems} == {"study.unavailable_primitive"}
        assert all(" too old" in problem.message for problem in problems)
    swept = SWEPT.replace('["send_each", "test_chunks"]', '["send_each", "test_absent"]', 1)
    study = loaded(swept.replace('name = "ways"', 'name = "ways"\nskip_unavailable = true'))
    assert "iterative@ways=send_each" in {each.name for each in study.contenders}
    assert " too old" in study.absent["iterative@ways=test_absent"]


@pytest.mark.parametrize(
    ("text", "override", "code", "part"),
    [
        (CHUNKS.replace('"test_chunks"', '"test_chunk"'), "", "study.unknown_primitive", "'test_chunks'"),
        (
            SWEPT.replace('"send_each", "test_chunks"]', '"send_eech"]'),
            "",
            "study.unknown_primitive",
            "'send_each'",
        ),
        (SMALL_STUDY, "load.settings.chunk=9", "study.unknown_setting", '"chunk"'),
        (CHUNKS, "load.settings.chunk=0", "study.invalid_setting", "chunk = 0"),
        (CHUNKS.replace("chunk = 100", "chunks = 1"), "", "study.unknown_setting", "test_chunks"),
        (SMALL_STUDY, "primitive=test_chunks", "set.ambiguous_key", "server.primitive or load.primitive"),
        (
            DISCARDING.replace('"test_discard"', '"test_discord"'),
            "",
            "study.unknown_primitive",
            "'test_discard'",
        ),
        (DISCARDING.replace("most = 7", "moist = 7"), "", "study.unknown_setting", "test_discard"),
        (SMALL_STUDY, "load.receive=send_each", "study.wrong_direction", "recv, test_discard"),
        (SMALL_STUDY, "server.primitive=recv", "study.wrong_direction", "send_each, "),
        (SMALL_STUDY + 'receive = "send_each"\n', "", "study.wrong_direction", 'receive = "send_each"'),
    ],
)
def test_mistakes_with_primitives_are_refused(
    loaded: Callable[..., Study], text: str, override: str, code: str, part: str
) -> None:
    problems = refused(loaded, text, *([override] if override else []))
    assert any(each.code == code and part in f"{each.message} {each.hint}" for each in problems), problems


@pytest.mark.parametrize(
    ("more", "override", "code", "line"),
    [
        ('receive = "busy_poll_truncate"\n', "", "fit.primitive_and_workload", 1),
        ("", "server.receive=busy_poll_truncate", "fit.primitive_and_workload", None),
        ('design = "epoll"\n', "server.receive=busy_poll", "fit.primitive_and_waiting", None),
    ],
)
def test_impossible_combination_is_reported_at_its_key(
    use_engine: Path, tmp_path: Path, more: str, override: str, code: str, line: int | None
) -> None:
    path = tmp_path / "small.toml"
    text = SMALL_STUDY.replace('design = "prefork"\n', "") if "design" in more else SMALL_STUDY
    path.write_text(text + more)
    problems = refused(load_study, str(path), "quick", [override] if override else [], catalogue(use_engine))
    place = f"--set {override}" if line is None else f"{path}:{len(text.splitlines()) + line}"
    assert places(problems, code) == [place]


def test_both_sides_are_started_with_their_primitives(
    loaded: Callable[..., Study], fake_engine: Callable[..., Path]
) -> None:
    fake_engine()
    study = loaded(DISCARDING)
    found = run_trial(study, study.contender("prefork"), block=1, position=1, seed=1)
    assert found.valid, found.invalid_reasons
    assert found.ready is not None
    assert (found.ready.primitive, found.ready.receive) == ("send_each", "recv")
    assert {each.receive for each in (*found.loads, *found.warm_up)} == {"test_discard"}


def test_load_is_started_with_its_primitive_and_settings(
    loaded: Callable[..., Study], fake_engine: Callable[..., Path]
) -> None:
    fake_engine()
    study = loaded(CHUNKS)
    found = run_trial(study, study.contender("prefork"), block=1, position=1, seed=1)
    assert found.valid, found.invalid_reasons
    for each in (*found.loads, *found.warm_up):
        assert (each.primitive, each.settings["chunk"]) == ("test_chunks", "100")
