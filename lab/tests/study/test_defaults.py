"""A study needs a name and contenders; the rest has defaults, which `run --show-defaults` prints."""

from __future__ import annotations

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made.refusals import refused
from made.stand_in import answered

from thunderherd.engine.client import catalogue
from thunderherd.statistics.comparisons import first_look_blocks
from thunderherd.study.defaults import DURATION, filled, with_defaults
from thunderherd.study.file.names import bundled_studies
from thunderherd.study.loading import Study, load_study
from thunderherd.toml.write import inline

SIX_LINES = """\
name = "mine"
load.settings.clients = 64

[[contenders]]
design = "epoll"

[[contenders]]
design = "thread_per_client"
"""

STREAM = """\
name = "streams"
server.workload = "stream"
contenders = [{ design = "epoll" }, { design = "epoll", receive = "readv" }]
"""

POOLS = """\
name = "pools"
contenders = [{ design = "prefork" }, { design = "prefork", settings = { pool = 30 } }]
[[sweeps]]
key = "load.settings.clients"
values = [2, 40]
"""

CONTROL = """\
name = "control"
load = { kind = "open", settings = { rate = 500 } }
contenders = [{ design = "epoll" }, { control_of = "epoll", settings = { nodelay = false } }]
sizes = { quick = { looks = [12, 20] }, once = { repetitions = 3 }, mine = {} }
"""

MINIMAL = {"six lines": SIX_LINES, "stream": STREAM, "pools": POOLS, "control": CONTROL}


def loaded(directory: Path, text: str = SIX_LINES, *overrides: str, size: str = "quick") -> Study:
    path = directory / "mine.toml"
    path.write_text(text)
    return load_study(str(path), size, overrides, catalogue())


def codes(directory: Path, text: str, *overrides: str) -> set[str]:
    return {problem.code for problem in refused(loaded, directory, text, *overrides)}


# Values -----------------------------------------------------------------------------------------------------


def test_six_lines_are_a_study(tmp_path: Path) -> None:
    study, known = loaded(tmp_path), catalogue()
    assert (study.title, study.question, study.source) == ("epoll and thread_per_client", "", "")
    assert [each.name for each in study.contenders] == ["epoll", "thread_per_client"]
    assert {each.workload for each in study.contenders} == {known.defaults.workload}
    assert study.measure.metric == "server_cpu_per_request"
    load = known.load(study.load.kind)
    assert load is not None and load.duration == "duration"
    assert study.load.processes == 1
    settings = study.load.settings
    assert (settings["clients"], settings["connections"]) == (64, "kept")
    assert (settings["duration"], settings["warm_up"]) == (DURATION, DURATION / 5)
    assert [(each.a, each.b) for each in study.comparisons] == [("epoll", "thread_per_client")]
    assert study.notes == ()


def test_the_default_looks_suffice_for_all_comparisons(tmp_path: Path) -> None:
    for designs in (2, 3, 12):
        names = [each.name for each in catalogue().designs if each.available][:designs]
        text = f'name = "mine"\ncontenders = {inline([{"design": name} for name in names])}\n'
        first = first_look_blocks(designs * (designs - 1) // 2, 0.05, 0.3)
        for size, last in (("quick", 2), ("full", 4)):
            looks = [each.blocks for each in loaded(tmp_path, text, size=size).looks]
            assert len(looks) == 3 and (looks[0], looks[-1]) == (first, last * first)
    assert first > 10


def test_the_looks_follow_alpha(tmp_path: Path) -> None:
    looks = loaded(tmp_path, SIX_LINES, "measure.alpha=0.0001").looks
    assert looks[0].blocks == first_look_blocks(1, 0.0001, 0.3) > 10


def test_a_stream_is_compared_by_bytes(tmp_path: Path) -> None:
    study = loaded(tmp_path, STREAM)
    assert study.measure.metric == "server_cpu_per_byte"
    assert [each.name for each in study.contenders] == ["epoll", "epoll_readv"]


def test_connections_are_not_persistent_if_a_server_could_not_serve_all(tmp_path: Path) -> None:
    one_by_one = 'name = "mine"\ncontenders = [{ design = "prefork" }, { design = "epoll" }]\n'
    many = "load.settings.clients = 64\n"
    assert loaded(tmp_path, one_by_one).load.settings["connections"] == "kept"
    assert loaded(tmp_path, many + one_by_one).load.settings["connections"] == "per_request"
    enough = one_by_one.replace('"prefork"', '"prefork", settings = { pool = 64 }')
    assert loaded(tmp_path, many + enough).load.settings["connections"] == "kept"
    assert loaded(tmp_path, one_by_one, "clients=64").load.settings["connections"] == "per_request"


def test_a_sweep_takes_all_contenders(tmp_path: Path) -> None:
    study = loaded(tmp_path, POOLS)
    (sweep,) = study.sweeps
    assert (sweep.name, sweep.title) == ("clients", "By clients")
    assert sweep.contenders == ("prefork", "prefork_pool_30")
    assert [point.name for point in sweep.points] == ["2", "40"]
    assert study.load.settings["connections"] == "per_request"


def test_a_named_load_keeps_the_defaults_of_the_engine(tmp_path: Path) -> None:
    study = loaded(tmp_path, CONTROL)
    assert [each.name for each in study.contenders] == ["epoll", "epoll_nodelay_false"]
    load = catalogue().load("open")
    assert load is not None
    usual = {each.name: each.default for each in load.settings}
    assert study.load.settings["duration"] == usual["duration"]
    assert [each.blocks for each in study.looks] == [12, 20]
    assert [each.alpha for each in study.looks] == pytest.approx([0.025, 0.025])


def test_names_of_contenders(tmp_path: Path) -> None:
    text = 'name = "mine"\ncontenders = [{ design = "epoll" }, { %s }]\n'
    for table, name in {
        'settings = { backlog = 64 }, design = "epoll"': "epoll_backlog_64",
        'design = "epoll", primitive = "writev"': "epoll_writev",
        'design = "epoll", load = { settings = { clients = 9 }, processes = 2 }': "epoll_clients_9_"
        "processes_2",
        'design = "epoll", workload = "http"': "epoll_workload_http",
    }.items():
        assert loaded(tmp_path, text % table).contenders[1].name == name


def test_a_title_names_few_contenders(tmp_path: Path) -> None:
    names = [each.name for each in catalogue().designs if each.available][:7]
    data = {"name": "mine", "contenders": [{"design": name} for name in names]}
    title = filled(data, catalogue())["title"]
    assert all(name in title for name in names[:3]) and names[3] not in title and "4 more" in title


# Overrides --------------------------------------------------------------------------------------------------


def test_defaults_follow_overrides(tmp_path: Path) -> None:
    by_count = loaded(tmp_path, SIX_LINES, "loops=7")
    assert by_count.load.requests_per_trial == 64 * 7
    longer = loaded(tmp_path, SIX_LINES, "duration=2s").load.settings
    assert (longer["duration"], longer["warm_up"]) == (2 * 10**9, 400 * 10**6)
    stream = loaded(tmp_path, SIX_LINES, "server.workload=stream")
    assert stream.measure.metric == "server_cpu_per_byte"
    single = loaded(tmp_path, SIX_LINES, "looks=[11]")
    assert [(each.blocks, each.alpha) for each in single.looks] == [(11, 0.05)]
    assert loaded(tmp_path, SIX_LINES, "repetitions=2").repetitions == 2


def test_an_override_may_use_a_default_name(tmp_path: Path) -> None:
    study = loaded(tmp_path, SIX_LINES, "epoll.nodelay=false")
    assert {each.name: each.settings["nodelay"] for each in study.contenders} == {
        "epoll": False,
        "thread_per_client": True,
    }


# Refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('name = "mine"', "study.nothing_to_run"),
        ('name = "mine"\ncontenders = [{ design = "epoll" }]', "study.nothing_to_compare"),
        ('name = "mine"\ncontenders = [{ design = "epoll" }, {}]', "study.no_design"),
        ('name = "mine"\ncontenders = [{ design = "epoll" }, { design = "epoll" }]', "study.duplicate_name"),
        (SIX_LINES.replace('name = "mine"\n', ""), "study.missing_key"),
        (SIX_LINES.replace('"epoll"', '"epol"'), "study.unknown_design"),
        (SIX_LINES.replace("clients", "client"), "study.unknown_setting"),
        (SIX_LINES.replace("load.settings", "lode.settings"), "study.unknown_key"),
        (f'server.workload = "htp"\n{SIX_LINES}', "study.unknown_workload"),
        (f"sizes = {{}}\n{SIX_LINES}", "study.invalid_value"),
        (f"sizes.quick.looks = [3]\n{SIX_LINES}", "study.look_too_early"),
        (f"sizes.quick.alpha_split = [1.0]\n{SIX_LINES}", "study.no_looks"),
    ],
)
def test_mistakes_in_minimal_studies(text: str, code: str, tmp_path: Path) -> None:
    assert codes(tmp_path, text) == {code}


JUNK: list[Any] = [0, -1, 1.5, True, "", "x", [], [1], [[]], {}, {"x": 1}, [{"name": "a"}]]
PLACES = [
    "load", "load.settings", "server", "measure", "measure.alpha", "contenders", "sizes", "sizes.quick",
    "sizes.quick.looks", "sweeps", "server.workload", "load.processes", "load.settings.connections",
    "load.settings.duration", "measure.metric", "title", "lab",
]  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_junk_is_a_mistake_of_the_user(place: str, tmp_path: Path) -> None:
    """With any value at any key, a file is a study or is refused at a line; nothing else is raised."""
    contenders = 'contenders = [{ design = "epoll" }, { design = "prefork" }]\n'
    for junk in JUNK:
        text = f'name = "mine"\n{place} = {inline(junk)}\n{"" if place == "contenders" else contenders}'
        try:
            loaded(tmp_path, text)
        except Exception as error:
            assert all("mine.toml:" in each.where for each in getattr(error, "problems", [])), junk
            assert hasattr(error, "problems"), junk


# --show-defaults --------------------------------------------------------------------------------------------


LARGE = ("cse232-a2", "cse638-pa02", "erss-hw4", "unp-ch30")
"""They have so many points that each takes as long as several others."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=[pytest.mark.thorough] if each in LARGE else [])
        for each in (*bundled_studies(), *MINIMAL)
    ],
)
def test_a_study_with_its_defaults_is_the_same_study(name: str, tmp_path: Path) -> None:
    """It has the same digest in every size, and no defaults of its own are left to fill in."""
    known = catalogue()
    if name in MINIMAL:
        path = tmp_path / "mine.toml"
        path.write_text(MINIMAL[name])
    else:
        bundled = bundled_studies()[name]
        shutil.copytree(bundled.parent, tmp_path / "study")
        path = tmp_path / "study" / bundled.name
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    sizes = filled(data, known)["sizes"]
    text = with_defaults(data, known)
    before = {size: load_study(str(path), size, (), known).digest for size in sizes}
    path.write_text(text)
    assert {size: load_study(str(path), size, (), known).digest for size in sizes} == before
    assert "# default" in text
    again = with_defaults(tomllib.loads(text), known)
    assert again == text.replace("  # default", "")


def test_the_page_of_the_six_lines(tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SIX_LINES)
    done = answered("run", str(path), "--show-defaults")
    assert (done.returncode, done.stderr) == (0, "")
    golden("study/defaults.toml", done.stdout)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.toml"]


def test_nothing_is_shown_of_a_wrong_study(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SIX_LINES.replace('"epoll"', '"epol"'))
    done = answered("run", str(path), "--show-defaults")
    assert (done.returncode, done.stdout) == (2, "")
    assert "[study.unknown_design]" in done.stderr and f"{path}:5:" in done.stderr


@pytest.mark.parametrize(
    "option", [("--set", "clients=3"), ("--lab", "unix"), ("--seed", "0"), ("--profile",)]
)
def test_defaults_are_those_of_the_file(option: tuple[str, ...], tmp_path: Path) -> None:
    done = answered("run", "self-test", "--show-defaults", *option)
    assert (done.returncode, done.stdout) == (2, "")
    assert "[run.show_defaults_with_options]" in done.stderr and option[0] in done.stderr


# A run ------------------------------------------------------------------------------------------------------

TINY = ("looks=[14]", "clients=4", "duration=120ms", "limits=0", "steal=100%",
        "foreign=100%")  # fmt: skip
"""Four blocks more than a verdict needs: on a busy machine, some trials are read too late to be valid."""


def test_the_six_lines_run_to_a_verdict(tmp_path: Path) -> None:
    """The run mentions no source, question or cost per connection, as the study has none."""
    path, out = tmp_path / "mine.toml", tmp_path / "run"
    path.write_text(SIX_LINES)
    changed = [word for each in TINY for word in ("--set", each)]
    done = answered("run", str(path), "--seed", "1", "--out", str(out), *changed)
    assert done.returncode == 0, done.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert [(each["a"], each["b"], each["metric"]) for each in summary["pairs"]] == [
        ("epoll", "thread_per_client", "server_cpu_per_request")
    ]
    assert summary["pairs"][0]["ratio"] > 0
    assert (summary["study"]["question"], summary["study"]["source"]) == ("", "")
    report = (out / "report.html").read_text()
    body = report[report.index("<body") : report.index("<script", report.index("<body"))]
    pages = [done.stdout, (out / "summary.md").read_text(), (out / "README.md").read_text(), body]
    for page in pages:
        words = page.lower()
        assert "paper" not in words and "source's" not in words and "the source" not in words
        assert "1,000 connections" not in words and "per 1000" not in words
    assert 'class="lead"' not in body
    assert "\n\n\n" not in done.stdout
