"""Keeps the architecture: imports run downwards, without circles; folders and files stay small.

A new package of the lab, or folder of the engine, goes on its list here, between those that use it and those
that it uses. test_entries.py says what an entry is.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TypeVar

import pytest
from made.code_tree import (
    ENGINE,
    ENTRIES,
    LAB,
    ROOT,
    engine_files,
    engine_folder,
    engine_module,
    engine_uses,
    lab_files,
    lab_imports,
    lab_module,
    lab_package,
    named_module,
    place_in_lab,
    rust_code,
    without_tests,
    written_paths,
)

Node = TypeVar("Node")


LONGEST_FILE, LONG_FILE = 800, 500
"""Lines that no file may have more of; lines from which on a file is reported."""

ENGINE_FOLDERS = [
    "cli",
    "registry",
    "runs",
    "lines",
    "conform",
    "designs",
    "workloads",
    "loads",
    "primitives",
    "counters",
    "limits",
    "server",
    "client",
    "protocol",
    "requests",
    "transfer",
    "stacks",
    "count",
    "net",
    "base",
    "sys",
]
"""From the top down: code that ships uses its own folder and those behind it; tests may use all."""


# The lab ----------------------------------------------------------------------------------------------------

PACKAGES = (
    "cli",
    "capsule",
    "gate",
    "grade",
    "search",
    "run",
    "show.report",
    "show.terminal",
    "show.charts",
    "show.tables",
    "show.sentences",
    "judge.why",
    "judge.summary",
    "judge.claims",
    "conform",
    "trial",
    "doctor",
    "claims",
    "study",
    "study.checks",
    "study.file",
    "labs",
    "hosts",
    "machine",
    "text",
    "records",
    "metrics",
    "engine",
    "engine.outputs",
    "engine.places",
    "toml",
    "statistics",
    "stacks",
)
"""The packages of the lab, from the top floor down. A package imports from packages below it only."""

BESIDE_PACKAGES = {"__init__", "__main__", "errors", "files"}
"""The public functions, the start of the program, and what every floor uses: errors, and safe files."""

CATALOGUES = {"designs", "workloads", "primitives", "loads", "counters", "limits"}
"""Folders of entries, which may have any number of files."""

MOST_FILES = 15

MAP = ROOT / "ARCHITECTURE.md"


def test_lab_has_only_the_listed_files_outside_packages() -> None:
    assert {path.stem for path in LAB.glob("*.py")} == BESIDE_PACKAGES


def test_each_folder_of_the_lab_is_a_package_on_the_list() -> None:
    folders = {lab_package(path) for path in lab_files() if path.stem != "__init__"} - {""}
    assert folders == set(PACKAGES)


def test_lab_imports_run_downwards() -> None:
    packages = {lab_module(each): lab_package(each) for each in lab_files()}
    wrong = []
    for path in lab_files():
        above = PACKAGES[: PACKAGES.index(lab_package(path))] if lab_package(path) in PACKAGES else ()
        wrong += [
            f"{place_in_lab(path)} imports {each}" for each in lab_imports(path) if packages[each] in above
        ]
        if lab_package(path):
            beside = {each for each in lab_imports(path) if packages[each] == ""} - {"errors", "files"}
            wrong += [
                f"{place_in_lab(path)} imports {each}, the program that it is a part of" for each in beside
            ]
    assert wrong == [], "imports run down the list of packages"


def test_the_map_has_each_folder_in_this_order() -> None:
    lab, engine = re.findall(r"^```\n(?:lab/thunderherd|engine/src)/\n(.*?)```", MAP.read_text(), re.M | re.S)
    drawn = [(len(spaces) // 2, name) for spaces, name in re.findall(r"^( +)(\w+)/ ", lab, re.M)]
    floors = [
        name if depth == 1 else f"{next(n for d, n in reversed(drawn[:at]) if d == 1)}.{name}"
        for at, (depth, name) in enumerate(drawn)
    ]
    assert [each for each in floors if each in PACKAGES] == list(PACKAGES)
    assert {each for each in floors if each not in PACKAGES} == {"show", "judge", "studies"}
    floors = [each for each in re.findall(r"(\w+)/", engine) if each not in {"event_loop", "http"}]
    assert floors == ENGINE_FOLDERS


def test_imports_of_the_lab_have_no_circle() -> None:
    circle = circle_in({lab_module(path): lab_imports(path) for path in lab_files()})
    assert not circle, f"these import each other: {circle}"


SHELLS = {"sh", "bash", "dash", "ash", "ksh", "zsh"}
THROUGH_A_SHELL = {"os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"}
WITH_A_SHELL = "gate/revisions.py"
"""The build of a revision is a line that the user typed for a shell."""


def test_the_lab_starts_programs_without_a_shell() -> None:
    """A name from a study, a summary or a machine is then never a command."""
    wrong = {
        path.relative_to(LAB).as_posix(): lines
        for path in sorted(LAB.rglob("*.py"))
        if (lines := [*uses_of_a_shell(path)])
    }
    assert wrong.keys() <= {WITH_A_SHELL}, wrong


def uses_of_a_shell(path: Path) -> Iterator[int]:
    """The lines that start a shell: a function that does, `shell=`, or words such as "sh", "-c"."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            options = {each.arg: ast.unparse(each.value) for each in node.keywords}
            if ast.unparse(node.func) in THROUGH_A_SHELL or options.get("shell", "False") != "False":
                yield node.lineno
        elif isinstance(node, ast.List | ast.Tuple):
            words = [each.value for each in node.elts if isinstance(each, ast.Constant)]
            if "-c" in words and SHELLS & {str(word).rpartition("/")[2] for word in words}:
                yield node.lineno


# The engine -------------------------------------------------------------------------------------------------


def circle_in(uses: Mapping[Node, Iterable[Node]]) -> list[Node]:
    """Files of which each uses the one before it, and the first the last; none where there is no circle."""
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        circle: list[Node] = error.args[1]
        return circle
    return []


def test_engine_uses_run_downwards() -> None:
    upwards = [
        f"{path.relative_to(ENGINE)} uses {used.relative_to(ENGINE)}"
        for path in engine_files()
        if path.parent != ENGINE
        for used in engine_uses(path)
        if ENGINE_FOLDERS.index(engine_folder(used)) < ENGINE_FOLDERS.index(engine_folder(path))
    ]
    assert upwards == [], "uses run down the list ENGINE_FOLDERS"


def test_engine_files_have_no_import_circle() -> None:
    circle = circle_in({path: engine_uses(path) for path in engine_files()})
    assert not circle, f"these use each other: {[str(path.relative_to(ENGINE)) for path in circle]}"


def test_engine_folders_match_the_list() -> None:
    assert sorted(path.name for path in ENGINE.iterdir()) == sorted([*ENGINE_FOLDERS, "lib.rs", "main.rs"])


def test_an_entry_knows_no_other() -> None:
    wrong = []
    for path in engine_files():
        if engine_folder(path) not in ENTRIES or path.stem == "mod":
            continue
        folder, own = engine_module(path)[:2]
        named = {engine_module(used)[:2] for used in engine_uses(path)}
        others = {module[1] for module in named if len(module) == 2 and module[0] == folder} - {own}
        wrong += [f"{path.relative_to(ENGINE)} uses its neighbour {other}" for other in others]
    assert wrong == []


def test_only_sys_is_unsafe() -> None:
    lines = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in engine_files()
        if engine_folder(path) != "sys"
        for number, line in enumerate(rust_code(path).splitlines(), 1)
        if re.search(r"\bunsafe\b", line)
    ]
    assert lines == [], "unsafe belongs into engine/src/sys"


# Both -------------------------------------------------------------------------------------------------------


def all_files() -> list[Path]:
    rust = [*ENGINE.rglob("*.rs"), *(ROOT / "engine" / "tests").rglob("*.rs")]
    python = [path for each in ("lab", "bench", "tools") for path in (ROOT / each).rglob("*.py")]
    return sorted([*rust, *python])


def test_files_are_short() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in all_files()}
    too_long = {
        str(path.relative_to(ROOT)): length for path, length in lengths.items() if length > LONGEST_FILE
    }
    assert too_long == {}, f"at most {LONGEST_FILE} lines are allowed: divide them"
    for path, length in lengths.items():
        if length > LONG_FILE:
            warnings.warn(f"{path.relative_to(ROOT)} has {length} lines: has it one subject?", stacklevel=1)


def test_folders_are_small() -> None:
    counts = Counter(path.parent for path in all_files())
    large = {
        str(folder.relative_to(ROOT)): count
        for folder, count in counts.items()
        if count > MOST_FILES and folder not in {ENGINE / each for each in CATALOGUES}
    }
    assert large == {}, f"at most {MOST_FILES} files are allowed: these have two subjects"


# The reading itself -----------------------------------------------------------------------------------------


def test_rust_is_read_without_comments_and_texts(tmp_path: Path) -> None:
    source = tmp_path / "example.rs"
    source.write_text(
        '// unsafe crate::cli\nlet text = "unsafe { crate::cli }";\n'
        "let c: &'static str = r#\"unsafe\"#; '\"'\nreal()\n"
    )
    code = rust_code(source)
    assert "unsafe" not in code
    assert "cli" not in code
    assert code.splitlines()[3] == "real()"


def test_code_after_a_test_module_is_read() -> None:
    code = "use crate::a;\n#[cfg(test)]\nmod tests {\n    fn f() { crate::b() }\n}\nuse crate::c;\n"
    assert set(written_paths(without_tests(code))) == {("crate", "a"), ("crate", "c")}


def test_every_branch_of_a_use_is_read() -> None:
    code = "use crate::a::{b, c::{self, D as E}};\nfn f() { super::super::up(); x.y(); child::g::<T>() }\n"
    assert list(written_paths(code)) == [
        ("crate", "a", "b"),
        ("crate", "a", "c"),
        ("crate", "a", "c", "D"),
        ("super", "super", "up"),
        ("child", "g"),
    ]


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("crate::a::b", ("a", "b")),
        ("self::part", ("top", "own", "part")),
        ("super::next", ("top", "next")),
        ("super::super::other::x", ("other", "x")),
        ("child::x", ("top", "own", "child", "x")),
        ("std::io", None),
    ],
)
def test_relative_path_is_resolved_from_its_module(written: str, named: tuple[str, ...] | None) -> None:
    assert named_module(tuple(written.split("::")), ("top", "own"), {"child"}) == named


def test_a_shell_is_found(tmp_path: Path) -> None:
    source = tmp_path / "example.py"
    source.write_text(
        "os.system(x)\nrun(x, shell=True)\nrun(x, shell=False)\nrun(['sh', '-c', x])\n"
        "run(('/bin/bash', '-e', '-c', x))\nrun(['cc', '-c', x])\nsubprocess.getoutput(x)\n"
        "run([*words, 'sh', '-c'], shell=wanted)\n"
    )
    assert sorted({*uses_of_a_shell(source)}) == [1, 2, 4, 5, 7, 8]


def test_circle_is_found() -> None:
    a, b, c = map(Path, "abc")
    assert circle_in({a: [b], b: [c], c: []}) == []
    assert set(circle_in({a: [b], b: [c], c: [b]})) == {b, c}
