"""The pages of the command line: help, lists and mistakes, each in a golden file."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from made.paths import ROOT
from made.stand_in import answered

from thunderherd import cli
from thunderherd.cli import engine, labs
from thunderherd.cli.main import COMMANDS, app
from thunderherd.engine.catalogue import Catalogue, by_name, defaults
from thunderherd.engine.client import catalogue
from thunderherd.search.crossover_study import FEWEST_POINTS, MOST_POINTS
from thunderherd.study.defaults import DURATION
from thunderherd.toml.quantities import TIME

Golden = Callable[[str, str], None]

NAMES = [each.__name__.rstrip("_") for each in COMMANDS]


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)


def page(*words: str) -> str:
    done = answered(*words)
    assert (done.returncode, done.stderr) == (0, ""), done
    return "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


# Help -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_command(name: str, golden: Golden) -> None:
    golden(f"cli/help-{name}.txt", page(name, "--help"))


def test_the_help_of_the_program(golden: Golden) -> None:
    golden("cli/help.txt", page("--help"))


def test_the_help_of_the_labs_options(golden: Golden) -> None:
    """The help of `serve` and `load` ends with these; the engine prints the part before."""
    golden("cli/help-serve-lab.txt", labs.HELP + labs.SERVE_HELP)


@pytest.mark.parametrize("name", [*NAMES, "serve", "load", "count"])
def test_each_command_has_a_one_line_summary(name: str) -> None:
    first, *_ = command_named(name).help.splitlines()
    assert first.endswith(".") and len(first.split()) < 12


@pytest.mark.parametrize("name", NAMES)
def test_each_option_names_its_default(name: str) -> None:
    """Of each option that may be left out."""
    options = [each for each in command_named(name).params if each.param_type_name == "option"]
    without = [each.name for each in options if not each.required and "(default" not in each.help]
    assert without == []


def test_the_list_of_files_has_each_command_in_its_file() -> None:
    listed = {
        (file, name)
        for file, names in re.findall(r"^(\w+)\.py +(.*?)(?:  |$)", cli.__doc__ or "", re.MULTILINE)
        for name in names.split(", ")
    }
    functions = [*COMMANDS, engine.serve, engine.load, engine.count]
    found = {(each.__module__.rpartition(".")[2], each.__name__.rstrip("_")) for each in functions}
    assert listed == found


def command_named(name: str) -> Any:
    group: Any = typer.main.get_command(app)
    return group.commands[name]


def help_of(command: str, option: str) -> str:
    (found,) = [each.help for each in command_named(command).params if each.name == option]
    return str(found)


def test_defaults_in_the_help_of_crossover_are_those_of_the_search(use_engine: Path) -> None:
    assert f"(default {catalogue(use_engine).defaults.design})" in help_of("crossover", "design")
    assert f"(default {TIME.write(DURATION)})" in help_of("crossover", "duration")
    assert f"(default {FEWEST_POINTS} to {MOST_POINTS}," in help_of("crossover", "points")


def test_defaults_in_the_help_of_knee_and_limits_are_the_engines(use_engine: Path) -> None:
    offered: Catalogue = catalogue()
    load = offered.load("open")
    assert load is not None
    usual = defaults(by_name(load.settings))
    assert f"(default {usual['clients']})" in help_of("knee", "clients")
    assert f"(default {usual['connections']})" in help_of("knee", "connections")
    for setting in offered.limit_settings:
        assert f"(default {setting.write(setting.default)})" in help_of("limits", setting.name)


# Lists ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("stand_in")
def test_the_lists(golden: Golden) -> None:
    golden("cli/list.txt", page("list"))
    golden("cli/list-kind.txt", page("list", "workloads"))
    golden("cli/list-entry.txt", page("list", "workloads", "bytes"))
    golden("cli/list-matrix.txt", page("list", "--matrix"))


# Mistakes ---------------------------------------------------------------------------------------------------

MISTAKES = """\
serv
run
run unp-ch30 --quik
run unp-ch30 --seed three
run unp-ch30 --set
run unp-ch30 --quick --full
run unp-ch30 --size pols
run unp-ch30 --resume
run unp-ch31
run no-such.toml
run unp-ch30 --lab vet
list desings
list designs prefrok
list designs --matrix
limits cal
limits --cpus 0;1
table .
table . --format yaml
table . --format csv --output a.md
table . --format csv --pairs
plot no/such/directory
claims unp-ch30
explain no/such/directory
merge no-such-file
doctor epoll
serve prefork --lab vet
serve prefork --lab
serve prefork --lab veth --rate fast
serve prefork --lab veth --delay 5
serve prefork --lab veth --delay 5m
serve prefork --lab loopback --mtu 1500
serve prefork --lab veth --lab mtu=9000 --mtu 1500
serve prefork --lab unix --port 80
serve prefork --lab unix --listen 127.0.0.1:0
load bytes --lab unix:1
--versoin
"""

MISTAKES_OF_CROSSOVER = """\
crossover prefork
crossover prefork iterative
crossover prefork iteratve --over pool=1..9
crossover prefork prefork --over pool=1..9
crossover prefork,pool iterative --over bytes=1..9
crossover design=prefork,pol=3 iterative --over bytes=1..9
crossover design=prefork,pool=0 iterative --over bytes=1..100
crossover test_chunks recv --over bytes=1..9
crossover prefork iterative --over pool=9..1
crossover prefork iterative --over pool=1..99999
crossover prefork iterative --over pol=1..9
crossover prefork iterative --over check=1..9
crossover prefork iterative --over rate=1gbit..2gbit
crossover prefork iterative --over bytes=1..9 --over pool=1..9
crossover prefork iterative --over bytes=1..1k --blocks 5
crossover prefork iterative --over bytes=1..1k --load closed --duration 5ms
crossover prefork iterative --over loops=1..9 --duration 5ms
crossover prefork iterative --over think=10..100
crossover prefork iterative --over think=10us..10us
crossover prefork iterative --over bytes=1..1k --side serve
crossover prefork iterative --over bytes=1..1k --set load.settings.byte=3
crossover prefork iterative --over bytes=1..1k --study unp-ch30 --workload bytes
crossover prefork iterative --over bytes=1..1k --study erss-hw4
crossover prefork iterative --over bytes=1..1k --resume
crossover prefork iterative --over bytes=1..1k --out file
"""

MISTAKES_OF_COMPARE = """\
compare
compare epoll
compare epoll epoll
compare epol prefork
compare epoll,wait=spn prefork
compare epoll prefork --workload htp
compare epoll prefork --byte 4
compare epoll prefork -n 100
compare epoll prefork --pipeline
compare epoll prefork --bytes 4x
compare epoll prefork --budget 60
compare epoll prefork --budget 5s
compare iterative epoll
compare epoll prefork --fail-if-slower much
compare epoll prefork --fail-if-slower 5
compare epoll prefork --cpus 0
compare epoll prefork --port 80
compare epoll prefork --save file
compare epoll prefork --lab vet
compare epoll prefork --set load.settings.nodlay=true
compare epoll prefork --resume
compare epoll prefork --out file
"""

MISTAKES_OF_KNEE = """\
knee
knee epoll
knee epoll --p50 1ms --p99 2ms
knee epoll --p99 2
knee epoll --p99 -1ms
knee epoll --p99 2ms --rates 1k
knee epoll --p99 2ms --rates 5k..1k
knee epoll --p99 2ms --rates 1k..9k --blocks 3
knee epoll --p99 2ms --duration 20000s
knee epoll --p99 2ms --duration 5
knee epoll --p99 2ms --duration 5m
knee epoll --p999 2ms --rates 100..1k
knee epoll epoll --p99 2ms
knee iterative --p99 2ms
knee design=prefork,pool=5 --p99 2ms
knee primitive=sendmsg,load.processes=2 --p99 2ms
knee epoll --p99 2ms --connections open
knee epoll --p99 2ms --set load.settings.arrivals=odd
knee epoll --p99 2ms --set load.settings.arivals=fixed
knee epoll --p99 2ms --out file
"""


def refusals(typed: str) -> str:
    """Each command with what it prints on stderr."""
    printed = []
    for line in typed.splitlines():
        done = answered(*shlex.split(line))
        assert (done.returncode, done.stdout) == (2, ""), done
        printed.append(f"$ thunderherd {line}\n{done.stderr}".replace(f"{ROOT}/", ""))
    return "\n".join(printed)


@pytest.mark.usefixtures("use_engine")
def test_mistakes(
    golden: Golden,
    stand_in: Path,
    fake_engine: Callable[..., Path],
    real_engine: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The stand-in has few entries, the fake engine those of a search, the real one an open loop."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here" / "file").write_text("")
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(stand_in))
    pages = [refusals(MISTAKES)]
    fake_engine()
    pages.append(refusals(MISTAKES_OF_CROSSOVER))
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(real_engine))
    pages.append(refusals(MISTAKES_OF_KNEE))
    pages.append(refusals(MISTAKES_OF_COMPARE))
    golden("cli/mistakes.txt", "\n".join(pages))
    assert [each.name for each in (tmp_path / "here").iterdir()] == ["file"]
