"""A real run with profiles: copying in large replies, its files, an explanation."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made.refusals import codes_printed
from made.small_studies import head

import thunderherd
from thunderherd.cli.main import run_command
from thunderherd.errors import UserError
from thunderherd.judge.why.pairs import explained
from thunderherd.records.extra_trials import ProfilingSummary
from thunderherd.records.summary import Summary
from thunderherd.show.sentences.left_out import where_drawn

STUDY = head(
    "stacks",
    measure='baseline = "iterative"\n',
    load="processes = 2\nwarm_up_connections = 20\n",
    server="settings = { limit = 100000 }\n",
    settings="children = 1, loops = 1500, bytes = 100000",
) + (
    '[sizes.quick]\nrepetitions = 1\n[[contenders]]\nname = "iterative"\ndesign = "iterative"\n'
    '[[contenders]]\nname = "prefork"\ndesign = "prefork"\n'
)


def profiles_of(summary: Summary) -> ProfilingSummary:
    assert summary.profiles is not None
    return summary.profiles


@pytest.fixture(scope="module")
def real_run(real_engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with profiles, made with the command line."""
    folder = tmp_path_factory.mktemp("profiles")
    study, run = folder / "stacks.toml", folder / "run"
    study.write_text(STUDY)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("THUNDERHERD_ENGINE", str(real_engine))
        how = ["--set", 'profiling.event="cpu-clock"', "--seed", "1"]
        assert run_command(["run", str(study), "--out", str(run), "--profile", *how]) == 0
    summary = thunderherd.load(run).summary
    assert summary is not None
    reasons = {each.why for each in profiles_of(summary).contenders if each.why}
    if any("perf_event" in why for why in reasons):
        pytest.skip(f"nothing can be sampled here: {reasons}")
    assert not reasons
    return run


def test_profiles_of_large_replies_have_samples_of_both_sides(real_run: Path) -> None:
    results = thunderherd.load(real_run)
    assert results.summary is not None
    for each in profiles_of(results.summary).contenders:
        server, client = each.sides["server"], each.sides["client"]
        assert (each.trials, each.requests) == (1, 3000)
        assert server.samples > 15 and client.samples > 15
        for side in (server, client):
            assert side.event == "cpu-clock" and side.why_not_cycles and side.interrupts_off is not None
            assert side.covered is not None and side.covered > 0.3
    trials = results.profiled()
    window = trials[0].profiles["client"]
    assert {each.process for each in window.stacks} == {0, 1}
    assert max(at for each in window.stacks for at in each.at_ns) > 1_000_000


def test_kernel_copies_are_found_by_symbol(real_run: Path) -> None:
    summary = thunderherd.load(real_run).summary
    assert summary is not None
    sides = [each.sides for each in profiles_of(summary).contenders]
    if reasons := {each["server"].why_no_kernel_symbols for each in sides} - {None}:
        pytest.skip(f"the kernel's functions have no names here: {reasons}")
    assert all(each["server"].kernel_symbols for each in sides)
    for each in sides:
        symbols = {found.symbol for side in each.values() for found in side.top}
        assert not symbols & {"_raw_spin_unlock_irqrestore", "finish_task_switch"}
    copying = [each["server"].copying_by_kind["across"] * each["server"].samples for each in sides]
    assert sum(copying) > 0, "600 MB were copied, but few of 140 samples each need show it"


def test_profile_files_exist_and_graphs_name_kernel_functions(real_run: Path) -> None:
    folder = real_run / "profiles"
    summary = thunderherd.load(real_run).summary
    assert summary is not None
    assert where_drawn(summary, real_run).startswith(f"{folder}: ")
    names = {path.name for path in folder.iterdir()}
    assert {"prefork.folded", "prefork.svg", "prefork.clients.folded", "prefork.clients.svg"} <= names
    assert {"iterative-against-prefork.svg", "prefork-against-iterative.svg"} <= names
    for path in folder.glob("*.svg"):
        root = ElementTree.fromstring(path.read_bytes())
        texts = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
        assert any("tcp_sendmsg" in text or "[kernel]" in text for text in texts), path.name
    assert re.search(r"\d ns .*per request", (folder / "prefork-against-iterative.svg").read_text())


def test_explain_prints_the_share_of_copying_and_draws_a_pair(
    real_run: Path, use_engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = real_run / "profiles" / "prefork-against-iterative.svg"
    before = drawn.read_bytes()
    drawn.unlink()
    assert run_command(["explain", str(real_run), "prefork", "iterative"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    results = thunderherd.load(real_run)
    assert results.summary is not None
    with pytest.raises(UserError) as no_limits:
        explained(results.summary, results.trials, "prefork", "iterative", side="server")
    assert no_limits.value.codes == ("explain.no_limits",)
    shown, _, _ = no_limits.value.problems[0].message.rpartition(", ")
    assert shown.rpartition(" has ")[2] in said
    assert re.search(r"\d % .*server.*\(95 % interval", said)
    # A long path is broken at the edge of the page.
    assert drawn.name in said.replace(" ", "") and drawn.read_bytes() == before
    assert run_command(["explain", str(real_run), "prefork", "prefrok"]) == 2
    assert codes_printed(capsys.readouterr().err) == ["explain.unknown_contender"]
    assert run_command(["explain", str(real_run), "prefork", "iterative", "--json"]) == 2
    assert run_command(["explain", str(real_run)]) == 0
    assert "iterative: " in capsys.readouterr().out
    # A complete run is resumed with the same command.
    study = str(real_run.parent / "stacks.toml")
    assert run_command(["run", study, "--out", str(real_run), "--profile", "--resume"]) == 0
    assert len(thunderherd.load(real_run).profiled()) == 2
