"""The page on this machine and on others; runnable studies; processes that use the CPUs."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made.machines import ALL_CAPABILITIES, GUEST, MadeMachine, limits, made_noise, status
from made.refusals import codes_printed
from made.stand_in import answered
from rich.console import Console

from thunderherd.cli.machine import page, print_page
from thunderherd.doctor import EXAMINATIONS, runnable_studies
from thunderherd.doctor.diagnosis import Diagnosis, Examined, schema
from thunderherd.doctor.kernel_features import kernel_features
from thunderherd.doctor.kind import Change
from thunderherd.doctor.runnable_studies import (
    ClaimsHere,
    LeftOut,
    SizeHere,
    StudyHere,
    studies_here,
    study_here,
)
from thunderherd.engine.catalogue import Catalogue, Namespace
from thunderherd.engine.client import catalogue, profile_check
from thunderherd.machine import busy, proc
from thunderherd.machine.busy import Busy
from thunderherd.machine.counting_cost import CountingCheck
from thunderherd.records.extra_trials import FREQUENCY, CountingTable
from thunderherd.study.file.names import bundled_studies
from thunderherd.study.loading import Study, load_sizes

jsonschema: Any = importlib.import_module("jsonschema")

WHOLLY = SizeHere(runs="wholly")
HOSTILE = "\x1b[2J\n\x07\u202eevil"
COMMAND = ("      type  ", "      undo  ")


def diagnosed(made_machine: MadeMachine, *studies: StudyHere) -> Diagnosis:
    """The diagnosis of a machine of files, with these studies."""
    here = made_machine.here()
    return Diagnosis(
        kernel="6.18.0",
        processor="A CPU",
        examinations={
            name: Examined(title=each.title, findings=each.findings(here))
            for name, each in EXAMINATIONS.items()
        },
        rests_on=kernel_features(here.catalogue),
        studies=studies,
        all_studies_run=all(each.runs != "not" for each in studies),
    )


def lines_of(found: Diagnosis, width: int = 120) -> list[str]:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    return [line.plain for line in page(console, found)]


# The command, here ------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("use_engine")
def test_the_page_of_this_machine() -> None:
    command = [sys.executable, "-m", "thunderherd", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert "! worth knowing" in lines[1]
    for examination in EXAMINATIONS.values():
        assert examination.title in lines
    for name in bundled_studies():
        assert any(line[4:].startswith(name) for line in lines), name
    assert f"(exit status {done.returncode})" in lines[-1]
    assert "\x1b" not in done.stdout
    assert all(len(line) <= 100 or line.startswith(COMMAND) for line in lines)


@pytest.mark.usefixtures("use_engine")
def test_json_output_fits_its_schema_and_is_complete() -> None:
    done = answered("doctor", "--json")
    told = json.loads(done.stdout)
    jsonschema.validate(told, schema())
    assert told["schema"] == 1
    assert list(told["examinations"]) == list(EXAMINATIONS)
    assert [each["name"] for each in told["studies"]] == list(bundled_studies())
    assert done.returncode == (0 if told["all_studies_run"] else 1)
    assert {"fork(2)", "epoll(7)", "io_uring(7)"} <= {each["name"] for each in told["rests_on"]}
    assert {each["runs"] for each in told["studies"]} <= {"wholly", "in part", "not"}


def test_a_study_that_cannot_run_is_exit_status_1(
    fake_engine: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = bundled_studies()
    monkeypatch.setattr(runnable_studies, "bundled_studies", lambda: {"open-loop": known["open-loop"]})
    fake_engine()  # it lacks the entries that studies of event loops need
    done = answered("doctor")
    assert done.returncode == 1, done.stderr
    assert re.search(r"^  x \S+ +cannot run", done.stdout, re.MULTILINE)
    assert done.stdout.split()[-3:] == ["(exit", "status", "1)."]


@pytest.mark.parametrize("wrong", ["--yaml", "epoll"])
def test_wrong_usage_is_exit_status_2(wrong: str) -> None:
    done = answered("doctor", wrong)
    assert done.returncode == 2
    assert codes_printed(done.stderr) == [
        "usage.unknown_option" if wrong.startswith("-") else "usage.invalid"
    ]
    assert wrong in done.stderr


def test_help_describes_the_exit_status() -> None:
    said = " ".join(answered("doctor", "--help").stdout.replace("│", " ").split())
    assert re.search(r"\b0 if .*\b1 .*\b2 for ", said)


# The page, elsewhere ----------------------------------------------------------------------------------------


def whole(name: str = "a-study") -> StudyHere:
    return StudyHere(name=name, runs="wholly", usual_size="quick", sizes={"quick": WHOLLY}, uncounted=())


def test_page_of_a_machine_without_findings_is_short(made_machine: MadeMachine) -> None:
    made_machine.put({"proc/self/status": status(user=0, capabilities=ALL_CAPABILITIES)})
    lines = lines_of(diagnosed(made_machine, *(whole(f"study-{number}") for number in range(6))))
    assert len(lines) <= 65
    assert not [line for line in lines if line[2:3] in ("!", "x", "?") and line.startswith("  ")]
    assert "6 wholly, 0 in part" in lines[-1] and "(exit status 0)" in lines[-1]


def test_finding_is_followed_by_a_command(made_machine: MadeMachine) -> None:
    made_machine.put({"proc/sys/kernel/perf_event_paranoid": "3"})
    lines = lines_of(diagnosed(made_machine))
    at = next(number for number, line in enumerate(lines) if line.startswith("  ! perf_event_paranoid"))
    below = lines[at : at + 6]
    assert "      type  sudo sysctl -w kernel.perf_event_paranoid=1" in below
    assert "      undo  sudo sysctl -w kernel.perf_event_paranoid=3" in below


def test_names_of_processes_are_harmless(made_machine: MadeMachine) -> None:
    made_machine.noise = made_noise(foreign=0.9)
    made_machine.busy = (Busy(7, HOSTILE, 1.0),)  # not what watch() would give
    for line in lines_of(diagnosed(made_machine)):
        assert line.isprintable()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_fit_the_width(width: int, made_machine: MadeMachine) -> None:
    made_machine.put({"proc/sys/kernel/perf_event_paranoid": "3", "proc/self/limits": limits(files="64")})
    lines = lines_of(diagnosed(made_machine, whole()), width)
    longest_word = 30
    assert all(
        len(line) <= max(min(width, 100), 26 + longest_word) for line in lines if not line.startswith(COMMAND)
    )


def test_colours_are_for_terminals(made_machine: MadeMachine) -> None:
    found = diagnosed(made_machine, whole())
    written = {terminal: io.StringIO() for terminal in (False, True)}
    for terminal, stream in written.items():
        print_page(
            Console(
                file=stream, width=100, force_terminal=terminal, color_system="standard" if terminal else None
            ),
            found,
        )
    assert "\x1b[" not in written[False].getvalue()
    assert "\x1b[" in written[True].getvalue()


def test_page_matches_the_golden_file(made_machine: MadeMachine, golden: Callable[[str, str], None]) -> None:
    """A finding of each judgement, and a study of each kind."""
    made_machine.put({
        **GUEST, "proc/sys/kernel/perf_event_paranoid": "3", "proc/self/limits": limits(files="64"),
    })  # fmt: skip
    made_machine.offer(congestion_controls=None)
    made_machine.noise = made_noise(steal=0.2, foreign=0.6)
    made_machine.busy = (Busy(7, "cc1", 0.9),)
    made_machine.counting = CountingCheck(("cycles", "instructions"), (4.2, 3.5, 3.9))
    many = tuple(f"contender{number}" for number in range(6))
    raised = Change(command="sudo sysctl -w fs.nr_open=9", root=True, undo="sudo sysctl -w fs.nr_open=8")
    left_out = LeftOut(contenders=many, reason="no room", changes=(raised,))
    part, cannot = SizeHere(runs="in part", left_out=(left_out,)), SizeHere(runs="not", left_out=(left_out,))
    refused = SizeHere(runs="not", reasons=tuple(f"reason {number}" for number in range(6)))
    studies = (
        whole(),
        StudyHere(
            name="in-part", runs="in part", usual_size="quick", sizes={"quick": part, "full": refused},
            uncounted=("cpu_cycles",), uncounted_apart=("system_calls", "memory"),
            claims=ClaimsHere(testable=("H1",), not_testable={"H2": "cpu_cycles is not counted here"}),
        ),
        StudyHere(
            name="uncounted", runs="in part", usual_size="quick", sizes={"quick": WHOLLY}, uncounted=(),
            has_counted_trials=False,
        ),
        StudyHere(name="cannot", runs="not", usual_size="quick", sizes={"quick": cannot}, uncounted=()),
    )  # fmt: skip
    page_of = "\n".join(lines_of(diagnosed(made_machine, *studies), 80)) + "\n"
    golden("doctor/page.txt", page_of)


# Studies ----------------------------------------------------------------------------------------------------


@pytest.fixture
def offered(use_engine: Path, made_machine: MadeMachine) -> Catalogue:
    """The engine's catalogue on a machine of files that has room for everything and counts everything."""
    del made_machine
    found = catalogue(use_engine)
    counters = tuple(each.model_copy(update={"available": True}) for each in found.counters)
    return found.model_copy(update={"counters": counters})


def without(offered: Catalogue, *names: str) -> Catalogue:
    """The same catalogue without these counters."""
    hidden = [
        each.model_copy(update={"available": False, "reason": "hidden"}) if each.name in names else each
        for each in offered.counters
    ]
    return offered.model_copy(update={"counters": tuple(hidden)})


def test_every_size_of_every_bundled_study_is_checked(offered: Catalogue) -> None:
    found = {each.name: each for each in studies_here(offered)}
    assert list(found) == list(bundled_studies())
    assert set(found["erss-hw4"].sizes) == {"quick", "report", "claims", "full"}
    assert found["self-test"].runs == "wholly"


def test_a_study_without_its_lab_cannot_run(offered: Catalogue) -> None:
    forbidden = Namespace(local_ports=(1024, 65535), available=False, reason="namespaces are forbidden")
    found = study_here("cse638-pa02", offered.model_copy(update={"namespace": forbidden}))
    assert found.runs == "not"
    said = "; ".join(found.sizes["quick"].reasons)
    assert "namespaces are forbidden" in said
    assert ".toml" not in said, "the user is to change the machine, not the study"


def test_a_pool_without_room_is_left_out_with_the_limit_to_raise(
    offered: Catalogue, made_machine: MadeMachine
) -> None:
    made_machine.put({"proc/self/limits": limits(processes="1000")})
    found = study_here("erss-hw4", offered)
    assert found.sizes["quick"].runs != "not"
    report = found.sizes["report"]
    assert report.runs == "not"
    (cramped,) = [each for each in report.left_out if "processes and threads" in each.reason]
    assert cramped.changes[0].command.startswith("sudo prlimit --pid $$ --nproc=")
    assert "ulimit -u" in cramped.reason
    assert found.runs == "in part", "the usual size has room"


def test_a_study_whose_usual_size_has_no_room_cannot_run(
    offered: Catalogue, made_machine: MadeMachine
) -> None:
    made_machine.put({"proc/self/limits": limits(processes="20")})
    found = study_here("unp-ch30", offered)
    assert found.runs == "not"
    lines = lines_of(diagnosed(made_machine, found))
    assert found.sizes["quick"].runs == "not"
    assert any(line.startswith("      type  sudo prlimit") for line in lines)
    assert lines[-1].startswith("unp-ch30 ") and re.findall(r"\b\d\b", lines[-1]) == ["0", "1", "1"]


def test_few_descriptors_leave_out_those_that_need_them(
    offered: Catalogue, made_machine: MadeMachine
) -> None:
    made_machine.put({"proc/self/limits": limits(files="100")})
    found = study_here("cse232-a2", offered)
    left_out = [each for size in found.sizes.values() for each in size.left_out]
    assert left_out
    assert all("ulimit -Hn" in each.reason for each in left_out)
    names = {name for each in left_out for name in each.contenders}
    assert "single" not in names
    assert any("@" in name for name in names)


def test_unavailable_counters_of_a_study_are_listed(offered: Catalogue) -> None:
    found = study_here("cse638-pa02", without(offered, "cpu_cycles"))
    assert "cpu_cycles" in found.uncounted
    assert not found.uncounted_apart
    assert found.runs == "in part"


def test_claims_that_this_machine_cannot_decide_have_reasons(
    offered: Catalogue, made_machine: MadeMachine
) -> None:
    """A claim needs its contenders and its counters; each of a source has its place."""
    found = study_here("erss-hw4", offered).claims
    assert found is not None and len(found.testable) + len(found.not_testable) == 11
    cpus = len(os.sched_getaffinity(0))
    assert [*found.not_testable] == (["H41", "H42", "H44", "H45", "H47", "H48", "H49"] if cpus < 4 else [])
    assert study_here("self-test", offered).claims is None
    counted, uncounted = (
        study_here("cse638-pa02", each).claims for each in (offered, without(offered, "cpu_cycles"))
    )
    assert counted is not None and uncounted is not None and not counted.not_testable
    of_cycles = {name for name, why in uncounted.not_testable.items() if "cpu_cycles" in why}
    assert of_cycles and of_cycles == set(counted.testable) - set(uncounted.testable)


def test_a_study_without_why_runs_in_part(offered: Catalogue, made_machine: MadeMachine) -> None:
    """Judged trials have all their counters, counted trials do not."""
    assert study_here("unp-ch30", offered).runs == "wholly"
    found = study_here("unp-ch30", without(offered, "system_calls", "wakeups"))
    assert (found.runs, found.uncounted) == ("in part", ())
    assert found.uncounted_apart == ("system_calls", "wakeups")
    said = " ".join(" ".join(lines_of(diagnosed(made_machine, found))).split())
    assert "system_calls, wakeups" in said and "system_calls or wakeups" in said
    memory = study_here("erss-hw4", without(offered, "memory"))
    assert memory.uncounted_apart == ("memory",)
    said = " ".join(lines_of(diagnosed(made_machine, memory)))
    assert "thunderherd explain" not in said, "memory explains nothing"


def test_a_study_without_counted_trials_runs_in_part(
    offered: Catalogue, made_machine: MadeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bundled,) = [each for each in studies_here(offered) if each.name == "self-test"]
    assert bundled.has_counted_trials
    plain = load_sizes("self-test", offered)
    without_any = {
        size: study.model_copy(update={"counting": CountingTable()})
        for size, study in plain.items()
        if isinstance(study, Study)
    }
    monkeypatch.setattr("thunderherd.doctor.runnable_studies.load_sizes", lambda name, catalogue: without_any)
    found = study_here("self-test", offered)
    assert (found.runs, found.has_counted_trials, found.uncounted_apart) == ("in part", False, ())
    said = " ".join(" ".join(lines_of(diagnosed(made_machine, found))).split())
    assert "`--set counting.trials=1`" in said


# Processes that use the CPUs --------------------------------------------------------------------------------

SPIN = """
import sys, time
open("/proc/self/comm", "w").write(sys.argv[1])
print("spinning", flush=True)
while time.monotonic() < float(sys.argv[2]): pass
"""


@pytest.fixture
def hostile_process() -> Iterator[int]:
    """A process that keeps a CPU busy until it is killed and has control characters in its name."""
    until = str(time.monotonic() + 60)
    with subprocess.Popen(
        [sys.executable, "-c", SPIN, HOSTILE[:12], until], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_busy_process_is_named_and_left_alone(hostile_process: int) -> None:
    # On a busy machine the process may wait for a CPU in all of a shorter time.
    seen = {each.pid: each for each in busy.watch(2.0).busy}
    assert hostile_process in seen
    assert seen[hostile_process].share <= 1.5
    name = seen[hostile_process].name
    assert name.isprintable()
    assert "evil" in name
    assert os.getpid() not in seen
    os.kill(hostile_process, 0)  # it is still there


def test_cpu_shares_of_processes_cover_the_sampled_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proc, "PROC", tmp_path)
    for pid, name in ((1, "init\n"), (3, "new\n")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "comm").write_text(name)
    found = busy.busiest({1: 10.0, 2: 5.0, 4: 9.0}, {1: 10.5, 2: 5.01, 3: 0.8, 4: 0.0}, seconds=2.0)
    # 2 used less than can be counted, 3 came meanwhile, and 4 is another process under an old number.
    assert found == (Busy(3, "new", 0.4), Busy(1, "init", 0.25))
    assert busy.name_of(99) == "ended"


# What it rests on -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("use_engine")
def test_every_design_and_primitive_names_its_kernel_features() -> None:
    offered = catalogue()
    found = kernel_features(offered)
    entries = (*offered.designs, *offered.primitives)
    assert {name for each in found for name in each.entries} == {each.name for each in entries}
    by_name = {each.name: each for each in found}
    assert len(by_name) == len(found)
    assert by_name["io_uring(7)"].entries == ("io_uring", "uring_send", "uring_send_zc")
    ages = [each.since for each in found]
    assert ages.index("2.6.17") < ages.index("3.9") < ages.index("4.18") < ages.index("5.1"), "as numbers"
    assert ages[0] is None
    # Exactly the entries that need an unavailable feature are unavailable.
    missing = {name for each in found if not each.available for name in each.entries}
    assert missing == {each.name for each in entries if not each.available}


@pytest.mark.usefixtures("use_engine")
def test_features_with_one_name_are_merged() -> None:
    offered = catalogue()
    first, *others = offered.designs
    (feature, *rest) = first.rests_on
    told = feature.model_copy(update={"available": False, "reason": "another answer"})
    changed = first.model_copy(update={"rests_on": (told, *rest)})
    found = kernel_features(offered.model_copy(update={"designs": (changed, *others)}))
    before = {each.name: each.entries for each in kernel_features(offered)}
    assert {each.name: each.entries for each in found} == before


@pytest.mark.usefixtures("use_engine")
def test_profile_check_has_scope_and_event_or_a_reason() -> None:
    found = profile_check()
    assert (found.reason is None) == (found.scope is not None) == (found.event is not None)
    assert found.frequency_hertz == FREQUENCY
