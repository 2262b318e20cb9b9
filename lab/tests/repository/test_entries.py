"""One entry, one file, one line: only its own file names it, and its registry lists it."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from made.code_tree import (
    ENGINE,
    ENTRIES,
    LAB,
    NOT_CODE,
    ROOT,
    TEST_FILE,
    engine_files,
    is_test,
    lab_files,
    lab_module,
    place_in_lab,
    rust_code,
    rust_code_that_ships,
    without_tests,
)

from thunderherd.engine.client import catalogue, find_engine
from thunderherd.labs import KINDS

NAMED_ELSEWHERE = {"counters"}
"""What keeps the CPU time of a measured window is a counter too, and `cpu_time` must know which one it is."""


@pytest.mark.parametrize("registry", ENTRIES)
def test_an_entry_is_one_file_and_one_line(registry: str) -> None:
    folder = ENGINE / registry
    code = rust_code(folder / "mod.rs")
    declared = re.search(r"register!\s*\{(.*)\}", code, re.DOTALL)
    assert declared, f"{folder.name}/mod.rs has no register! {{ ... }}"
    lines = re.findall(r"^ {8}(\w+),$", declared[1], re.MULTILINE)
    files = {path.stem for path in folder.glob("*.rs")} - {"mod", *TEST_FILE.findall(code)}
    assert sorted(lines) == sorted(files)
    lines += rows_of(registry)
    assert len(lines) == len(set(lines))

    elsewhere = [
        f"{path.relative_to(ENGINE)} names {registry}::{name}"
        for path in engine_files()
        for name in lines
        if registry not in NAMED_ELSEWHERE
        and folder not in path.parents
        and re.search(rf"\b{registry}::{name}\b", rust_code_that_ships(path))
    ]
    assert elsewhere == [], "an entry is found by its registry alone"


def rows_of(registry: str) -> list[str]:
    """The entries of a registry that are no more than a value and have no file: `name = value`."""
    return re.findall(r"^ {8}(\w+) = ", rust_code(ENGINE / registry / "mod.rs"), re.MULTILINE)


def test_the_engine_lists_what_its_files_and_rows_are_called() -> None:
    offered = json.loads(
        subprocess.run([find_engine(), "list", "--json"], capture_output=True, check=True).stdout
    )
    for registry in ENTRIES:
        names = {entry["name"] for entry in offered[registry]}
        code = rust_code(ENGINE / registry / "mod.rs")
        files = {path.stem for path in (ENGINE / registry).glob("*.rs")} - {"mod", *TEST_FILE.findall(code)}
        assert names == files | set(rows_of(registry))


SAID_IN_THE_LAB = {
    ("engine.outputs.parsers", "bytes"): "a key of the JSON that a load generator prints",
    ("engine.outputs.sockets", "bytes"): "likewise",
    ("search.knee_study", "open"): "a rate is what only this load keeps to, and what a knee is looked for on",
    (
        "search.knee_study",
        "closed_connections",
    ): "what finds out the most that a design does, to know where to look",
    ("judge.claims.answers", "open"): "a question that the data does not decide, and no load",
    ("claims.question_tables", "open"): "likewise",
    ("machine.limits", "pipe_round_trip"): "what the prices of a switch and of a wake-up are differences of",
    ("machine.limits", "pipe_transfer"): "likewise",
    ("judge.summary.bounds", "system_call"): "the least that a system call costs a server",
    ("judge.summary.bounds", "memcpy"): "what bounds bytes a second",
    ("judge.summary.bounds", "tcp_connection"): "what bounds connections a second",
    ("judge.summary.bounds", "tcp_transfer"): "what bounds requests a second over connections that are kept",
    ("judge.summary.bounds", "tcp_exchange"): "what bounds a server's CPU time for a request",
    ("judge.summary.bounds", "tcp_accept_close"): "what bounds a server's CPU time for a connection",
    ("judge.summary.bounds", "pipe_round_trip"): "what bounds round trips",
    (
        "judge.summary.bounds",
        "fork_exit_wait",
    ): "what a design that makes a process for every connection pays",
    ("judge.summary.bounds", "thread_creation"): "likewise, a thread",
    **{
        ("judge.why.causes", price): "what a cause of a difference is priced at"
        for price in (
            "fork_exit_wait",
            "thread_creation",
            "system_call",
            "page_fault",
            "memcpy",
            "tcp_connection",
        )
    },
    ("judge.why.causes", "bytes"): "the unit of what is copied",
    ("toml.quantities", "bytes"): "the unit, as the engine has it of settings",
    ("cli.compare", "bytes"): "the setting of several workloads, which has an option",
    ("cli.gate", "bytes"): "likewise",
    ("cli.sessions", "bytes"): "likewise",
    ("search.compare_study", "bytes"): "likewise, among the options",
    ("search.compare_study", "open"): "an option, which opens the report",
    ("metrics.table", "bytes"): "the unit of memory",
    ("text.figures", "bytes"): "likewise",
    ("show.charts.interactive", "select"): "what Vega-Lite calls how a parameter is chosen",
    ("stacks.symbols", "memcpy"): "a function that copies (memcpy(3))",
}
"""Names of entries that a module of the lab may contain, with the reason."""


def entries_of(registry: str) -> set[str]:
    return {path.stem for path in (ENGINE / registry).glob("*.rs")} - {"mod"}


@pytest.mark.parametrize("path", lab_files(), ids=place_in_lab)
def test_lab_contains_no_name_of_an_entry(path: Path) -> None:
    names = set().union(*(entries_of(registry) for registry in ENTRIES if registry != "counters"))
    said = {
        node.value: node.lineno
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    }
    allowed = {name for module, name in SAID_IN_THE_LAB if module == lab_module(path)}
    unreasoned = [f"{path.name}:{line}: {name}" for name, line in said.items() if name not in allowed]
    assert unreasoned == [], "what there is comes from the engine's catalogue and from the studies"
    assert allowed <= set(said), "an exception that nothing needs any more"


LABS = LAB / "labs"
LABS_SAID = {
    ("hosts.cluster", "remote"): "the engine's option --allow-remote",
    ("cli.options", "loopback"): "the default of --lab, in its help",
    ("doctor.network", "loopback"): "the interface, in what bounds its speed",
    ("engine.lines", "loopback"): "the engine's description of an interface, generated",
    ("engine.lines", "unix"): "the engine's description of an address, generated",
    ("trial.listener_holders", "unix"): "the kernel's table of Unix sockets, /proc/net/unix",
    ("stacks.symbols", "unix"): "a folder of the kernel's source, net/unix",
    ("labs.words", "unix"): "what an address of the engine's begins with",
    ("claims.claim_file", "veth"): "an example of a condition, in the words that explain the key",
}
"""Names of labs that a module may say, with the reason."""


def texts_of(path: Path) -> Iterator[str]:
    """The texts of a module, but for those that explain it to its readers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    explaining = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in explaining:
            yield node.value


def test_kinds_of_labs_are_named_after_their_files() -> None:
    assert set(KINDS) == {path.stem for path in LABS.glob("*.py")} - {"__init__", "kind", "words"}


@pytest.mark.parametrize(
    "path", [*lab_files(), *sorted((ROOT / "bench").glob("*.py"))], ids=lambda path: path.stem
)
def test_a_kind_of_lab_is_one_entry(path: Path) -> None:
    own = {path.stem} & {*KINDS} if path.parent == LABS else set()
    names = re.compile(rf"\b({'|'.join({*KINDS} - own)})\b")
    said = {name for text in texts_of(path) for name in names.findall(text)}
    module = lab_module(path) if path.is_relative_to(LAB) else path.stem
    allowed = {name for key, name in LABS_SAID if key == module}
    assert said == allowed, "what tells a kind from others is in its entry, in labs/"


def test_defaults_of_load_help_match_the_catalogue() -> None:
    done = subprocess.run([find_engine(), "load", "--help-all"], capture_output=True, text=True, check=True)
    usual = dict(re.findall(r"--(load|primitive|receive) <[^\[]*\[default:\s+(\w+)\]", done.stdout))
    told = catalogue().defaults
    assert usual == {"load": told.load, **told.way._asdict()}


SAID_IN_THE_ENGINE = {
    ("registry/catalogue.rs", "send_each"): "how bytes are sent where the command line says nothing of it",
    ("registry/catalogue.rs", "recv"): "how they are received, likewise",
    ("registry/catalogue.rs", "closed"): "who asks, likewise",
    ("registry/catalogue.rs", "thread_per_client"): "the server of two primitives, likewise",
    ("requests/recording.rs", "bytes"): "the column of a recording",
    ("registry/catalogue.rs", "bytes"): "what is asked for, likewise",
    ("registry/catalogue.rs", "closed_connections"): "the load of a URL",
    ("registry/catalogue.rs", "open"): "the load of a URL with a rate",
    ("registry/catalogue.rs", "http"): "the workload whose URLs have a path",
    ("transfer/waiting.rs", "epoll"): "the kernel's interface, epoll(7)",
    ("transfer/waiting.rs", "io_uring"): "the kernel's interface, io_uring(7)",
    ("transfer/waiting.rs", "polling"): "a client's nonblocking I/O",
    ("loads/closed_connections.rs", "io_uring"): "likewise",
    ("primitives/uring_send_zc.rs", "io_uring"): "the kernel's interface, io_uring(7)",
    ("primitives/uring_send.rs", "io_uring"): "likewise",
    ("base/feature.rs", "io_uring"): "likewise, which a design and two primitives rest on",
    ("base/feature.rs", "splice"): "the system call, which two primitives rest on",
    **dict.fromkeys(
        [
            ("conform/protocol.rs", name)
            for name in ("bytes", "echo", "top_processes", "bucket", "http", "stream", "fields", "blast")
        ],
        "a second implementation of each protocol, for which the first one must not vouch",
    ),
    **dict.fromkeys(
        [
            (f"{name}.rs", "bytes")
            for name in ("base/unit", "cli/help", "counters/memory", "protocol/pattern")
        ],
        "the unit of a setting, or the setting of that name",
    ),
}  # fmt: skip
"""Names that a file of the engine may say of entries other than its own, with the reason."""


def engine_texts(path: Path) -> list[str]:
    """The texts of a file that ships, without its comments and tests."""
    if is_test(path):
        return []
    texts: list[str] = []

    def number(match: re.Match[str]) -> str:
        texts.append(match[0].lstrip("b").strip('"'))
        return f"\0{len(texts) - 1}\0" if match[0][0] != "/" else ""

    # Some system calls have the names of entries.
    text = re.sub(r'\bnamed\(\s*"\w+"', "named(", path.read_text(encoding="utf-8"))
    code = without_tests(NOT_CODE.sub(number, text))
    return [texts[int(found)] for found in re.findall(r"\0(\d+)\0", code)]


@pytest.mark.parametrize("path", engine_files(), ids=lambda path: str(path.relative_to(ENGINE)))
def test_no_entry_is_named_outside_its_file(path: Path) -> None:
    """As a whole text; in the midst of one, where it is no word of English."""
    here = path.relative_to(ENGINE)
    own = {part.removesuffix(".rs") for part in here.parts[1:2] if here.parts[0] in ENTRIES}
    names = set().union(*(entries_of(registry) for registry in ENTRIES if registry != "counters"))
    texts = engine_texts(path)
    said = {
        name
        for name in names - own
        if name in texts or ("_" in name and re.search(rf"(?<![\w-]){name}(?![\w-])", "\n".join(texts)))
    }
    assert said == {name for file, name in SAID_IN_THE_ENGINE if file == str(here)}
