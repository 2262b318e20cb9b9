"""The command line: arguments it passes on, its output, its refusals. Most tests need no engine."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from made.refusals import codes_printed
from made.stand_in import HOLES, UNAVAILABLE, answered, forked

import thunderherd
from thunderherd.cli import main
from thunderherd.cli.list import MARK, SECTIONS, SHORTENED

ROOT = Path(__file__).resolve().parents[3]


pytestmark = pytest.mark.usefixtures("stand_in")


def run(*arguments: str, stdin: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "thunderherd", *arguments]
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=240, cwd=cwd, check=False
    )


def assert_mistake(done: subprocess.CompletedProcess[str], code: str, *facts: str) -> None:
    """A line with the code on stderr, perhaps a hint, and the facts; nothing on stdout; exit status 2."""
    assert done.returncode == 2, done
    assert done.stdout == ""
    refusal, *hints = done.stderr.splitlines()
    assert refusal.startswith("thunderherd: "), done.stderr
    assert [line[:6] for line in hints] in ([], ["hint: "]), done.stderr
    assert codes_printed(done.stderr) == [code], done.stderr
    assert [fact for fact in facts if fact not in done.stderr] == [], done.stderr


# serve, load and count become the engine --------------------------------------------------------------------


@pytest.mark.parametrize("command", ["serve", "load", "count"])
@pytest.mark.parametrize(
    "arguments",
    [[], ["--help"], ["-h"], ["prefork", "--pool", "3", "--", "--x", "-"], ["--no-such", "a b", ""]],
)
def test_arguments_stdin_and_status_are_passed_to_and_from_the_engine(
    command: str, arguments: list[str]
) -> None:
    done = forked(command, *arguments, stdin="one line\n")
    assert done.returncode == 7
    lines = done.stdout.splitlines()
    handed = [line.removeprefix("argument ") for line in lines if line.startswith("argument ")]
    # The kernel replaces a script's argv[0] by interpreter and path, hence [2:].
    assert handed[2:] == [command, *arguments]
    assert lines[-1] == "one line"
    assert done.stderr == ""


def ignored_or_blocked(status: str) -> dict[str, int]:
    """The masks of /proc/PID/status by name, one bit a signal."""
    lines = (line.split() for line in status.splitlines() if line.startswith(("SigIgn:", "SigBlk:")))
    return {name: int(mask, 16) for name, mask in lines}


def test_engine_inherits_no_signal_that_only_python_ignores() -> None:
    here = ignored_or_blocked(Path("/proc/self/status").read_text())
    pythons_own = 1 << (signal.SIGPIPE - 1) | 1 << (signal.SIGXFSZ - 1)
    expected = here | {"SigIgn:": here["SigIgn:"] & ~pythons_own}
    assert ignored_or_blocked(run("serve", "prefork").stdout) == expected


def test_the_engine_takes_this_process_and_its_signals() -> None:
    command = [sys.executable, "-m", "thunderherd", "serve", "wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"process {process.pid}\n"
        while process.stdout.readline() not in ("waiting\n", ""):
            pass
        process.send_signal(signal.SIGINT)
        assert "interrupted\n" in process.stdout.read()
    assert process.returncode == 9


def test_the_program_is_called_thunderherd(stand_in: Path) -> None:
    stand_in.unlink()
    stand_in.symlink_to("/bin/sleep")
    # A real executable, unlike a script, sees its argv[0]; sleep prints errors under that name.
    assert run("serve").stderr.startswith("thunderherd: invalid ")


def test_missing_engine_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(tmp_path / "nothing"))
    assert_mistake(run("serve", "prefork"), "engine.not_executable", "THUNDERHERD_ENGINE", "nothing")
    assert_mistake(answered("list"), "engine.not_executable", "THUNDERHERD_ENGINE", "nothing")


def test_engine_that_cannot_be_started_is_refused(stand_in: Path) -> None:
    stand_in.write_text("#!/no/such/interpreter\n")
    assert_mistake(run("serve", "prefork"), "engine.cannot_start", str(stand_in), "`make build`")


def test_the_hint_for_an_engine_that_cannot_be_started_is_that_of_the_error(stand_in: Path) -> None:
    code = (
        "import errno, os, sys\nfrom thunderherd.cli.main import run_command\n"
        "def execv(*words): raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))\n"
        "os.execv = execv\nsys.exit(run_command(['serve', 'prefork']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert_mistake(done, "engine.cannot_start", str(stand_in), "hint: the whole system has no descriptor")


# list -------------------------------------------------------------------------------------------------------


SCREEN = 24
"""Lines of a terminal that shows the whole list."""


def listed(*words: str) -> str:
    done = answered("list", *words)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def test_list_names_every_entry_on_one_screen(use_engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thunderherd.cli.list.PLAIN_WIDTH", 80)
    lines = listed().splitlines()
    assert len(lines) <= SCREEN and max(map(len, lines)) <= 80, lines
    words = re.findall(r"[\w-]+", " ".join(lines))
    everything = json.loads(listed("--json"))
    for kind in SECTIONS:
        place = words.index(kind)
        names = [entry["name"] for entry in everything[kind]]
        assert words[place + 1] == str(len(names))
        shown = [word for word in words[place + 2 :][: len(names)] if word in names]
        assert shown == names[: len(shown)]
        if kind in SHORTENED:
            left = words[place + 2 + len(shown) :][:2]
            assert left == (["and", str(len(names) - len(shown))] if len(shown) < len(names) else left)
        else:
            assert len(shown) == len(names)


def test_the_last_line_of_list_has_commands_that_work(use_engine: Path) -> None:
    commands = re.findall("`list (.*?)`", listed().splitlines()[-1])
    assert [len(command.split()) for command in commands] == [1, 2]
    for command in commands:
        assert listed(*command.split())


def test_list_marks_what_is_unavailable() -> None:
    assert UNAVAILABLE["available"] is False
    overview = " ".join(listed().split())
    assert f"{UNAVAILABLE['name']}{MARK}" in overview
    assert f"prefork{MARK}" not in overview
    assert str(UNAVAILABLE["reason"]) in listed("counters", str(UNAVAILABLE["name"]))


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("kind", SECTIONS)
def test_list_of_a_kind_has_a_line_for_each_entry(
    kind: str, width: int, use_engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("thunderherd.cli.list.PLAIN_WIDTH", width)
    names = [entry["name"] for entry in json.loads(listed(kind, "--json"))]
    lines = listed(kind).splitlines()
    assert [line.split()[0] for line in lines if re.match(r"  \S", line)] == names
    assert max(len(line) for line in lines) <= width


def test_list_of_an_entry_has_its_settings_and_facts() -> None:
    for words, parts in (
        (("designs", "prefork"), ["prefork: a pool", "UNP 30.6", "--pool 15 workers (1 to 1,024)"]),
        (("designs", "prefork"), ["every server", "--backlog 15 places (1 to 1,024)"]),
        (
            ("workloads", "bytes"),
            [
                "--form short of the reply (short or long) [serve and load]",
                "--limit short of the reply (short or long) [serve]",
                "--check short of the reply (short or long) [load]",
            ],
        ),
        (("labs", "veth"), ["lab.mtu", "lab.loss"]),
        (("studies", "unp-ch30"), ["--size full", "--size pools", "unp-ch30.toml"]),
    ):
        text = " ".join(listed(*words).split())
        assert [part for part in parts if part not in text] == [], text
    assert "--pool" not in listed("designs", "iterative")


def test_list_of_an_entry_as_json_is_the_entry() -> None:
    assert json.loads(listed("designs", "prefork", "--json")) == json.loads(listed("designs", "--json"))[1]


@pytest.mark.parametrize("kind", SECTIONS)
def test_list_describes_every_entry_of_the_engine(kind: str, use_engine: Path) -> None:
    for entry in json.loads(listed(kind, "--json")):
        settings = [
            setting
            for key in ("settings", "service_settings", "client_settings")
            for setting in entry.get(key) or []
        ]
        text = listed(kind, entry["name"])
        assert " ".join(entry["summary"].split()) in " ".join(text.split())
        for setting in settings:
            assert re.search(rf"^  --{setting['name'].replace('_', '-')} ", text, re.MULTILINE), setting


def test_list_shows_the_default_that_each_load_has(use_engine: Path) -> None:
    for load, shown in (
        ("closed_threads", "--clients 4 "),
        ("closed_connections", "--clients 4 "),
        ("open", "--clients 64 "),
        ("open", "--connections kept "),
    ):
        assert shown in listed("loads", load)


def test_list_of_counters_names_other_forms_of_events(
    use_engine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run_command(["list", "counters"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for part in (
        "ref-cycles",
        "pmu/key=value/",
        "rNNNN",
    ):
        assert part in text
    assert "cpu-cycles, cycles" in listed("counters", "cpu_cycles")


@pytest.mark.parametrize(
    "section", ["designs", "primitives", "workloads", "loads", "counters", "limits", "studies"]
)
def test_list_of_one_section(section: str) -> None:
    entries = json.loads(answered("list", section, "--json").stdout)
    text = answered("list", section).stdout
    assert entries
    for entry in entries:
        assert entry["summary"]
        assert any(line.split()[:1] == [entry["name"]] for line in text.splitlines())


def test_list_as_json_has_the_engines_list_and_the_studies() -> None:
    everything = json.loads(answered("list", "--json").stdout)
    sizes = {study["name"]: study["sizes"] for study in everything["studies"]}
    assert {"quick", "full"} <= set(sizes["unp-ch30"])
    assert [design["name"] for design in everything["designs"]] == ["iterative", "prefork"]
    assert everything["schema"] == 4


def test_the_matrix_is_the_engines_and_holes_have_reasons() -> None:
    assert answered("list", "--matrix").stdout == "what fits what\n"
    holes = json.loads(answered("list", "--matrix", "--json").stdout)
    reasons = [(hole["primitive"], hole["reason"]) for hole in HOLES]
    assert [(hole["primitive"], hole["reason"]) for hole in holes] == reasons
    assert (holes[0]["design"], holes[1]["workload"], holes[1]["end"]) == ("prefork", "bytes", "service")


def test_list_of_primitives_shows_the_direction_of_each() -> None:
    text = answered("list", "primitives").stdout
    assert "sends: one send" in text
    assert "receives: one receive" in text


def test_closed_output_pipe_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "thunderherd", "list"],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert done.stderr == b""
    assert done.returncode == 1


# Mistakes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "facts"),
    [
        (["serv"], "usage.unknown_command", ["'serv'", "did you mean", "'serve'"]),
        (["rnu", "unp-ch30"], "usage.unknown_command", ["did you mean", "'run'"]),
        (["run"], "usage.missing", ["STUDY"]),
        (["run", "unp-ch30", "--quik"], "usage.unknown_option", ["--quik", "did you mean --quick?"]),
        (["run", "unp-ch30", "--sed", "3"], "usage.unknown_option", ["--sed", "--seed"]),
        (["run", "unp-ch30", "--seed", "three"], "usage.invalid_value", ["--seed"]),
        (["run", "unp-ch30", "--seed", "-1"], "usage.invalid_value", ["--seed"]),
        (["run", "unp-ch30", "--set"], "usage.missing_value", ["--set"]),
        (["run", "unp-ch30", "--quick", "--full"], "run.several_sizes", ["--quick and --full"]),
        (["run", "unp-ch30", "--full", "--size", "pools"], "run.several_sizes", ["--full and --size pools"]),
        (["run", "unp-ch30", "--size", "pols"], "study.unknown_size", ["pols", "quick, pools, claims, full"]),
        (["run", "unp-ch30", "--size", "pols"], "study.unknown_size", ["did you mean 'pools'?"]),
        (["run", "unp-ch30", "--resume"], "run.resume_without_out", ["--resume", "--out DIR"]),
        (["run", "unp-ch31"], "study.unknown_study", ["unp-ch31", "did you mean", "unp-ch30"]),
        (["run", "no-such.toml"], "file.unreadable", ["no-such.toml"]),
        (["list", "desings"], "list.unknown_list", ["desings", "did you mean", "designs"]),
        (["list", "designs", "prefrok"], "list.unknown_entry", ["prefrok", "did you mean 'prefork'?"]),
        (["list", "designs", "--matrix"], "list.matrix_of_one_kind", ["--matrix"]),
        (["limits", "cal"], "limits.unknown_limit", ["cal", "did you mean 'call'?"]),
        (["limits", "--cpus", "0;1"], "limits.invalid_cpus", ["--cpus 0;1", "--cpus 0,1"]),
        (["table", "/"], "results.no_run", ["/", "thunderherd run"]),
        (["table", "no/such/directory"], "results.no_run", ["no/such/directory"]),
        (["table", ".", "--format", "yaml"], "table.unknown_format", ["yaml", "markdown"]),
        (["table", ".", "--format", "csv", "--pairs"], "table.option_without_effect", ["table . pairs"]),
        (["report", "no/such/directory"], "results.no_run", ["no/such/directory"]),
        (["claims", "unp-ch30", "no/such/directory"], "results.no_run", ["no/such/directory"]),
        (["claims", "unp-ch30"], "claims.no_directory", ["--decide"]),
        (["--versoin"], "usage.unknown_option", ["--versoin", "--version"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0] else None,
)
def test_a_mistake_is_a_line_and_perhaps_a_hint(arguments: list[str], code: str, facts: list[str]) -> None:
    assert_mistake(answered(*arguments), code, *facts)


def test_each_problem_has_a_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(*_: object) -> None:
        problems = (main.Problem("one thing", "a.code", where="a.toml:3"), main.Problem("another", "b.code"))
        raise main.UserError(*problems)

    monkeypatch.setattr("thunderherd.study.loading.load_study", refuse)
    assert main.run_command(["run", "a.toml"]) == 2
    assert capsys.readouterr().err == (
        "thunderherd: a.toml:3: one thing [a.code]\nthunderherd: another [b.code]\n"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["list", "desings", "--json"], 2, "list.unknown_list"),
        (["list", "designs", "prefrok", "--json"], 2, "list.unknown_entry"),
        (["list", "designs", "--matrix", "--json"], 2, "list.matrix_of_one_kind"),
        (["doctor", "epoll", "--json"], 2, "usage.invalid"),
        (["limits", "cal", "--json"], 2, "limits.unknown_limit"),
        (["limits", "--json"], 1, "engine.failed"),
        (["merge", "no-such-file", "--json"], 2, "merge.unreadable"),
        (["explain", "no/such/directory", "--json"], 2, "results.no_run"),
        (["explain", "--per", "mile", "--json"], 2, "usage.missing"),
        (["serve", "prefork", "--lab", "unix", "--port", "80", "--json"], 2, "lab.port_without_tcp"),
        (["load", "bytes", "--lab", "unix:1", "--json"], 2, "lab.invalid_holder"),
        (["list", "--jsn", "--json"], 2, "usage.unknown_option"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_with_json_the_errors_are_on_stdout_too(arguments: list[str], status: int, code: str) -> None:
    done = answered(*arguments)
    assert done.returncode == status, done
    printed = json.loads(done.stdout)
    assert [*printed] == ["errors"]
    (error,) = printed["errors"]
    assert [*error] == ["message", "code", "hint", "where"]
    assert error["code"] == code
    assert main.Problem(**error).line in done.stderr
    assert f"hint: {error['hint']}\n" in done.stderr or not error["hint"]


@pytest.mark.parametrize("command", ["serve", "load", "count", "list", "doctor", "limits"])
def test_without_an_engine_each_command_with_json_has_an_error(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(tmp_path / "nothing"))
    done = answered(command, "--json")
    assert done.returncode == 2, done
    (error,) = json.loads(done.stdout)["errors"]
    assert "THUNDERHERD_ENGINE" in main.Problem(**error).line
    assert main.Problem(**error).line in done.stderr


@pytest.mark.parametrize("place", ["file/results", "file"])
def test_out_that_cannot_be_written_is_refused(real_commands: None, tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    done = answered("run", "unp-ch30", "--out", str(tmp_path / place))
    assert done.returncode != 0
    assert "--out" in done.stderr
    assert place == "file" or codes_printed(done.stderr) == ["system.enotdir"], done.stderr


def test_control_c_is_130_without_a_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("thunderherd.study.loading.load_study", interrupted)
    assert main.run_command(["run", "unp-ch30"]) == 130
    assert "Traceback" not in capsys.readouterr().err


# Runs, with the engine itself -------------------------------------------------------------------------------


@pytest.fixture
def real_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine that is installed next to this Python, instead of the stand-in."""
    monkeypatch.delenv("THUNDERHERD_ENGINE")


def test_run_table_and_report_commands_show_one_run(
    real_commands: None, small_study_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run("run", str(small_study_file), "--quick", "--seed", "5", "--out", str(out))
    assert done.returncode == 0, done.stderr
    # A noisy block is made once more, and then there are eleven.
    assert "block 10/1" in done.stderr
    for part in ("fork_per_client", "seed 5", str(out), str(out / "report.html")):
        assert part in done.stdout
    assert json.loads((out / "summary.json").read_text())["study"]["command"][:2] == ["thunderherd", "run"]

    again = run("table", str(out), "--pairs")
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[:8] == done.stdout.splitlines()[:8]
    assert "smallest" in again.stdout.lower()

    written = answered("report", str(out), "--output", str(tmp_path / "mine.html"))
    assert written.stdout == f"{tmp_path / 'mine.html'}\n"
    assert (tmp_path / "mine.html").stat().st_size > 1000

    other = answered("claims", "unp-ch30", str(out))
    assert_mistake(other, "claims.other_study", f"`thunderherd claims small {out}`")
    assert_mistake(
        answered("run", str(small_study_file), "--out", str(out)), "run.directory_taken", "--resume", "--out"
    )


def test_ctrl_c_keeps_the_trials_and_resume_continues(
    real_commands: None, small_study_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    # Most blocks are left when this test, on a busy machine, gets to read of the second one.
    words = ["run", str(small_study_file), "--full", "--set", "repetitions=10", "--out", str(out)]
    command = [sys.executable, "-m", "thunderherd", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        while not process.stderr.readline().startswith(("block 2/", "Traceback")):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "Traceback" not in rest
    assert f"--out {out} --resume" in rest
    kept = (out / "trials.jsonl").read_text().count("\n")
    assert kept >= 6

    # `table` refuses a summary of another version; resuming the run rewrites it.
    (out / "summary.json").write_text('{"schema": 1}')
    refused = answered("table", str(out))
    assert refused.returncode == 2 and codes_printed(refused.stderr) == ["results.other_version"]

    # Size and settings come from the interrupted run and need not be repeated.
    done = answered("run", str(small_study_file), "--out", str(out), "--resume")
    assert done.returncode == 0, done.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert summary["study"]["size"] == "full"
    assert summary["study"]["complete"]
    assert summary["trials"]["valid"] == 30 > kept


# The whole --------------------------------------------------------------------------------------------------


def test_version_matches_the_crate() -> None:
    crate = tomllib.loads((ROOT / "engine" / "Cargo.toml").read_text())
    assert thunderherd.__version__ == crate["package"]["version"]
    assert run("--version").stdout == f"thunderherd {thunderherd.__version__}\n"


def test_help_names_every_command() -> None:
    done = answered("--help")
    assert done.returncode == 0
    for command in ("run", "crossover", "list", "claims", "table", "report", "serve", "load", "count"):
        assert f" {command} " in done.stdout


def test_no_command_shows_the_help() -> None:
    done = answered()
    assert done.returncode == 2
    assert "Usage: thunderherd" in done.stdout


HEAVY = {"polars", "numpy", "scipy", "jinja2", "vl_convert"}


def printed_by(script: str) -> list[str]:
    """Runs a script in a new Python, and returns the lines it prints."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.splitlines()


def test_quick_answers_load_nothing_heavy() -> None:
    script = (
        "import sys\nfrom thunderherd.cli.main import run_command\n"
        "for words in ('list', 'list designs prefork', 'list --matrix', '--help', 'run --help', "
        "'crossover --help'):\n"
        "    run_command(words.split())\n"
        f"    print('heavy after', words, *sorted({HEAVY} & set(sys.modules)), sep=': ')"
    )
    seen = [line for line in printed_by(script) if line.startswith("heavy after")]
    assert len(seen) == 6 and all(line.count(": ") == 1 for line in seen), seen


def test_modules_import_no_heavy_library_that_they_do_not_need() -> None:
    """scipy.stats alone takes a second, in each of the programs that show a run.

    Each of these imports follows the ones before it, and may bring what they do not need.
    """
    unneeded = {
        "show.tables.main, show.tables.by_name": {
            "altair", "numpy", "polars", "vl_convert", "jinja2", "thunderherd.study.loading",
        },
        "show.charts.by_name, show.charts.files": {"altair", "numpy", "polars", "jinja2"},
        "show.report.page": {"altair", "numpy", "thunderherd.study.loading"},
        "run.runner": {"altair", "scipy", "polars"},
    }  # fmt: skip
    script = "import sys\n" + "".join(
        f"import {', '.join(f'thunderherd.{each}' for each in modules.split(', '))}\n"
        f"print({modules!r}, *sorted({names} & set(sys.modules)), sep=': ')\n"
        for modules, names in unneeded.items()
    )
    assert printed_by(script) == [*unneeded]
