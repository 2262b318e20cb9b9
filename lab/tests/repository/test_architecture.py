"""Keeps the architecture: imports run downwards, without circles; folders and files stay small.

A new package goes on the list here, between the packages that use it and those that it uses. test_entries.py
says what an entry is.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LAB = ROOT / "lab" / "thunderherd"
ENGINE = ROOT / "engine" / "src"

LONGEST_FILE, LONG_FILE = 800, 500
"""Lines that no file may have more of; lines from which on a file is reported."""

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def floors_under(heading: str) -> list[list[str]]:
    """The modules of each row of the table under a heading of ARCHITECTURE.md, from the top down.

    A module uses those of the rows below its own, and in its own those further right. A folder is one module.
    """
    table = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")]
    return [[name.strip("/`") for name in names] for row in rows if (names := re.findall(r"`[^`]+`", row))]


ENGINE_FLOORS = floors_under("Floors of the engine")
"""Those of what ships; tests may use all."""

ENTRIES = ["designs", "primitives", "workloads", "loads", "counters", "limits"]
"""Folders whose files know nothing of each other. Between those of `sys` nothing is asked."""


# The lab ----------------------------------------------------------------------------------------------------

PACKAGES = (
    "cli",
    "search",
    "run",
    "show.report",
    "show.charts",
    "show.tables",
    "show.sentences",
    "judge.why",
    "judge.summary",
    "judge.claims",
    "trial",
    "doctor",
    "study",
    "study.file",
    "labs",
    "machine",
    "text",
    "records",
    "metrics",
    "engine",
    "toml",
    "statistics",
    "stacks",
)
"""The packages of the lab, from the top floor down. A package imports from packages below it only."""

BESIDE_PACKAGES = {"__init__", "__main__", "errors"}
"""The public functions, the start of the program, and the errors that every floor may raise."""

CATALOGUES = {"designs", "workloads", "primitives", "loads", "counters", "limits"}
"""Folders of entries, which may have any number of files."""

MOST_FILES = 15


def lab_files() -> list[Path]:
    return sorted(path for path in LAB.rglob("*.py") if path.relative_to(LAB).parts[0] != "studies")


def lab_module(path: Path) -> str:
    """`judge.claims.slopes`; of a package's `__init__.py`, the package; of the program's, nothing."""
    parts = path.relative_to(LAB).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def lab_package(path: Path) -> str:
    return ".".join(path.relative_to(LAB).parts[:-1])


def lab_imports(path: Path) -> set[str]:
    """The other modules of the lab that a file imports, at its top, inside a function or for types alone."""
    modules = {lab_module(each) for each in lab_files()}
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: relative import; write thunderherd.<module>"
            inside = {f"{node.module}.{name.name}" for name in node.names}
            is_module = {each for each in inside if each.removeprefix("thunderherd.") in modules}
            found |= is_module if is_module == inside else is_module | {node.module or ""}
    ours = {each for each in found if each.split(".")[0] == "thunderherd"}
    return {each.removeprefix("thunderherd").lstrip(".") for each in ours} - {lab_module(path)}


def place_in_lab(path: Path) -> str:
    return str(path.relative_to(LAB).with_suffix(""))


def test_the_lab_has_three_files_beside_its_packages() -> None:
    assert {path.stem for path in LAB.glob("*.py")} == BESIDE_PACKAGES


def test_each_folder_of_the_lab_is_a_package_on_the_list() -> None:
    folders = {lab_package(path) for path in lab_files() if path.stem != "__init__"} - {""}
    assert folders == set(PACKAGES)


@pytest.mark.parametrize("path", lab_files(), ids=place_in_lab)
def test_lab_imports_run_downwards(path: Path) -> None:
    above = PACKAGES[: PACKAGES.index(lab_package(path))] if lab_package(path) in PACKAGES else ()
    packages = {lab_module(each): lab_package(each) for each in lab_files()}
    up = sorted(each for each in lab_imports(path) if packages[each] in above)
    assert up == [], f"{place_in_lab(path)} imports {up}, which are on higher floors"
    if lab_package(path):
        beside = {each for each in lab_imports(path) if packages[each] == "" and each != "errors"}
        assert beside == set(), f"{place_in_lab(path)} imports the program that it is a part of"


def test_imports_of_the_lab_have_no_circle() -> None:
    assert circles({lab_module(path): lab_imports(path) for path in lab_files()}) == []


# The engine -------------------------------------------------------------------------------------------------

NOT_CODE = re.compile(
    r"""
      //[^\n]*                          # comment
    | /\*.*?\*/                         # comment
    | b?r(?P<hashes>\#*)".*?"(?P=hashes)  # raw string
    | b?"(?:\\.|[^"\\])*"               # string
    | b?'(?:\\.[^']*|[^'\\])'           # character, not a lifetime
    """,
    re.VERBOSE | re.DOTALL,
)


TESTS_BEGIN = re.compile(r"^#\[cfg\(test\)\]\s*(?:pub )?mod \w+ \{", re.MULTILINE)
TEST_FILE = re.compile(r"^#\[cfg\(test\)\]\s*(?:pub )?mod (\w+);", re.MULTILINE)


def rust_code(path: Path) -> str:
    """A Rust file without comments and texts; lines keep their numbers."""
    return NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"))


def is_test(path: Path) -> bool:
    """Whether a file has nothing but tests of the module above it."""
    parent = ENGINE / "lib.rs" if path.parent == ENGINE else path.parent / "mod.rs"
    if not parent.exists():
        parent = path.parent.with_suffix(".rs")  # an entry with a folder of its own
    return path != parent and path.stem in TEST_FILE.findall(rust_code(parent))


def rust_code_that_ships(path: Path) -> str:
    """Its code without the tests, which are modules in the file or a file of their own."""
    return "" if is_test(path) else without_tests(rust_code(path))


def without_tests(code: str) -> str:
    """Code without its test modules; what stands behind them is kept."""
    while begin := TESTS_BEGIN.search(code):
        depth, end = 1, begin.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        code = code[: begin.start()] + code[end:]
    return code


def engine_files() -> list[Path]:
    return sorted(ENGINE.rglob("*.rs"))


def engine_module(path: Path) -> str:
    return path.relative_to(ENGINE).parts[0].removesuffix(".rs")


def engine_uses(path: Path) -> set[str]:
    """The other top-level modules a file names: `use crate::a::b`, `crate::{a, b::c}`, `crate::a::f()`."""
    code = rust_code_that_ships(path)
    modules = {engine_module(each) for each in engine_files()}
    above = "super::" * len(
        path.relative_to(ENGINE).with_suffix("").parts[: -1 if path.stem == "mod" else None]
    )
    found = {name for root in ("crate::", "thunderherd_engine::", above) for name in named_under(root, code)}
    return (found & modules) - {engine_module(path)}


def named_under(root: str, code: str) -> set[str]:
    """The names that stand directly behind a path such as `crate::` or `super::`, alone or in a use tree."""
    start = rf"(?<!::)\b{root}"
    found = set(re.findall(rf"{start}(\w+)", code))
    for opening in re.finditer(rf"{start}\{{", code):
        found |= set(first_names(code[opening.end() :]))
    return found


def first_names(tree: str) -> Iterator[str]:
    """The first name of each branch of a use tree, whose opening brace has just been read."""
    depth, name = 1, ""
    for character in tree:
        if character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
        if depth == 0 or (depth == 1 and character == ","):
            yield name.strip().split("::")[0].strip()
            name = ""
        if depth == 0:
            return
        if not (depth == 1 and character == ","):
            name += character


@pytest.mark.parametrize("path", engine_files(), ids=lambda path: str(path.relative_to(ENGINE)))
def test_engine_uses_run_downwards(path: Path) -> None:
    assert not upward(engine_module(path), engine_uses(path), ENGINE_FLOORS)


@pytest.mark.parametrize(
    "path",
    [path for path in engine_files() if engine_module(path) in ENTRIES and path.stem != "mod"],
    ids=lambda path: str(path.relative_to(ENGINE)),
)
def test_an_entry_knows_no_other(path: Path) -> None:
    code = rust_code_that_ships(path)
    registry, own = (part.removesuffix(".rs") for part in path.relative_to(ENGINE).parts[:2])
    siblings = {each.stem for each in (ENGINE / registry).glob("*.rs")} - {"mod", own}
    above = "super::" * (len(path.relative_to(ENGINE).parts) - 1)
    named = named_under(above, code) | named_under(f"crate::{registry}::", code)
    for tree in re.finditer(r"\bcrate::\{", code):
        inside = re.split(r";", code[tree.end() :], maxsplit=1)[0]
        named |= named_under(f"{registry}::", inside)
    assert not named & siblings, f"{path.relative_to(ENGINE)} uses its neighbours {sorted(named & siblings)}"


@pytest.mark.parametrize("path", engine_files(), ids=lambda path: str(path.relative_to(ENGINE)))
def test_only_sys_is_unsafe(path: Path) -> None:
    if engine_module(path) == "sys":
        return
    lines = [
        number
        for number, line in enumerate(rust_code(path).splitlines(), 1)
        if re.search(r"\bunsafe\b", line)
    ]
    assert lines == [], f"{path.relative_to(ROOT)}: unsafe in lines {lines}; it belongs into engine/src/sys"


def test_the_page_names_the_modules_of_the_engine() -> None:
    assert misplaced({engine_module(path) for path in engine_files()}, ENGINE_FLOORS) == []


# Both -------------------------------------------------------------------------------------------------------


def all_files() -> list[Path]:
    rust = [*ENGINE.rglob("*.rs"), *(ROOT / "engine" / "tests").rglob("*.rs")]
    python = [path for each in ("lab", "bench", "tools") for path in (ROOT / each).rglob("*.py")]
    return sorted([*rust, *python])


@pytest.mark.parametrize("path", all_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short(path: Path) -> None:
    length = len(path.read_text(encoding="utf-8").splitlines())
    assert length <= LONGEST_FILE, f"{length} lines, at most {LONGEST_FILE} are allowed: divide it"
    if length > LONG_FILE:
        warnings.warn(f"{path.relative_to(ROOT)} has {length} lines: has it one subject?", stacklevel=1)


def folders() -> list[Path]:
    return sorted({path.parent for path in all_files()} - {ENGINE / each for each in CATALOGUES})


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: str(folder.relative_to(ROOT)))
def test_folders_are_small(folder: Path) -> None:
    files = [path for path in all_files() if path.parent == folder]
    assert len(files) <= MOST_FILES, (
        f"{len(files)} files, at most {MOST_FILES} are allowed: it has two subjects"
    )


def circles(imports: Mapping[str, set[str]]) -> list[list[str]]:
    """Groups of modules that import each other, directly or by way of others."""
    found: list[list[str]] = []
    left = {name: set(others) for name, others in imports.items()}
    while True:
        try:
            tuple(TopologicalSorter(left).static_order())
        except CycleError as error:
            circle = error.args[1]
            found.append(circle)
            left = {name: others - set(circle) for name, others in left.items() if name not in circle}
        else:
            return found


def place_of(module: str, floors: list[list[str]]) -> tuple[int, int]:
    """Its floor, counted from the top, and its place there, from the left."""
    for number, floor in enumerate(floors):
        if module in floor:
            return number, floor.index(module)
    pytest.fail(f"{module} is on no floor: give it one in ARCHITECTURE.md")


def upward(module: str, used: Iterable[str], floors: list[list[str]]) -> list[str]:
    """The imports that do not run downwards, in words."""
    own = place_of(module, floors)
    return [
        f"{module} uses {other}, which is {'left of' if place_of(other, floors)[0] == own[0] else 'above'} it"
        for other in sorted(used)
        if place_of(other, floors) <= own
    ]


def misplaced(modules: set[str], floors: list[list[str]]) -> list[str]:
    """Modules that are on no floor or on several, and names of modules that are gone."""
    named = Counter(name for floor in floors for name in floor)
    return sorted(name for name in modules | set(named) if named[name] != (name in modules))


# The reading itself -----------------------------------------------------------------------------------------


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    (found,) = circles({"a": {"b"}, "b": {"a"}, "c": {"a"}})
    assert set(found) == {"a", "b"}


def test_an_arrow_that_runs_upwards_is_seen() -> None:
    floors = [["top"], ["left", "right"], ["bottom"]]
    assert upward("left", {"right", "bottom"}, floors) == []
    assert upward("right", {"left", "top"}, floors) == [
        "right uses left, which is left of it",
        "right uses top, which is above it",
    ]


def test_a_module_without_a_place_of_its_own_is_seen() -> None:
    assert misplaced({"a", "b", "new"}, [["a", "gone"], ["b", "a"]]) == ["a", "gone", "new"]


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
    assert list(first_names("design::{Design, Run}, sys, tally::{self}};")) == ["design", "sys", "tally"]


def test_what_stands_behind_a_test_module_is_read() -> None:
    code = "use crate::a;\n#[cfg(test)]\nmod tests {\n    fn f() { crate::b() }\n}\nuse crate::c;\n"
    assert named_under("crate::", without_tests(code)) == {"a", "c"}


def test_names_behind_super_are_read_at_their_own_height() -> None:
    code = "use super::super::up; use super::{left, right::x}; super::call()"
    assert named_under("super::", code) - {"super"} == {"left", "right", "call"}
    assert named_under("super::super::", code) == {"up"}
