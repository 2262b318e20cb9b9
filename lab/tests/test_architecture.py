"""Keeps the house in order: arrows run downwards, files stay short. What an entry is: test_entries.py.

The folders of the engine are listed here. The floors of the lab are read from ARCHITECTURE.md: a new module
belongs on one of them; one that is on none fails here.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAB = ROOT / "lab" / "thunderherd"
ENGINE = ROOT / "engine" / "src"

LONGEST_FILE = 500

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def floors_under(heading: str) -> list[list[str]]:
    """The modules of each row of the table under a heading of ARCHITECTURE.md, from the top down.

    A module uses those of the rows below its own, and in its own those further right. A folder is one module.
    """
    table = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")]
    return [[name.strip("/`") for name in names] for row in rows if (names := re.findall(r"`[^`]+`", row))]


LAB_FLOORS = floors_under("Floors of the lab")

ENGINE_FOLDERS = [
    "cli",
    "registry",
    "runs",
    "lines",
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

ENTRIES = ["designs", "primitives", "workloads", "loads", "counters", "limits"]
"""Folders of the engine whose files know nothing of each other."""

MOST_FILES = 15
"""In a folder of the engine, but for those of entries."""


# The laboratory ---------------------------------------------------------------------------------------------


def lab_files() -> list[Path]:
    return sorted(path for path in LAB.rglob("*.py") if lab_module(path) != "studies")


def lab_module(path: Path) -> str:
    return path.relative_to(LAB).parts[0].removesuffix(".py")


def lab_imports(path: Path) -> set[str]:
    """The other modules of the package that a file imports, at its top, inside a function or for types
    alone."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}:{node.lineno}: relative import; write thunderherd.<module>"
            found |= {f"{node.module}.{name.name}" for name in node.names} | {node.module or ""}
    names = {lab_module(path) for path in lab_files()}
    parts = [name.split(".") for name in found if name.split(".")[0] == "thunderherd"]
    used = {part[1] if part[1] in names else "__init__" for part in parts if len(part) > 1}
    return used - {lab_module(path)}


def place_in_lab(path: Path) -> str:
    return str(path.relative_to(LAB).with_suffix(""))


@pytest.mark.parametrize("path", lab_files(), ids=place_in_lab)
def test_lab_imports_run_downwards(path: Path) -> None:
    assert not upward(lab_module(path), lab_imports(path), LAB_FLOORS)


def test_the_page_names_the_modules_of_the_lab() -> None:
    assert misplaced({lab_module(path) for path in lab_files()}, LAB_FLOORS) == []


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


def engine_folder(path: Path) -> str:
    """The folder of the list that a file is in; of the two files beside the folders, their own name."""
    return path.relative_to(ENGINE).parts[0].removesuffix(".rs")


def engine_module(path: Path) -> tuple[str, ...]:
    """The path that a file has as a module; that of the library's root is empty."""
    parts = path.relative_to(ENGINE).with_suffix("").parts
    return () if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts


ENGINE_MODULES = {engine_module(path): path for path in engine_files()}

USE = re.compile(r"\buse\s+([^;]+);")
REGISTER = re.compile(r"^crate::register! \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
"""The list of a folder of entries, a line or several for each of them."""


def written_paths(code: str) -> Iterator[tuple[str, ...]]:
    """Every path: those of a `use`, one for each branch of its tree, and those in the midst of code."""
    for tree in USE.findall(code):
        yield from branches(tree)
    for path in re.findall(r"(?<![\w:])\w+(?:::\w+)+", USE.sub("", code)):
        yield tuple(path.split("::"))


def branches(tree: str) -> Iterator[tuple[str, ...]]:
    """The paths of a use tree: `a::{b, c::{self, D as E}}` has a::b, a::c and a::c::D."""
    head, opening, inner = tree.partition("{")
    stem = tuple(name for name in re.split(r"\s*::\s*", head.strip().partition(" as ")[0]) if name)
    if not opening:
        yield stem
        return
    depth, branch = 0, ""
    for character in inner.rpartition("}")[0] + ",":
        depth += {"{": 1, "}": -1}.get(character, 0)
        if character == "," and depth == 0:
            if branch.strip():
                yield from (stem if end == ("self",) else (*stem, *end) for end in branches(branch.strip()))
            branch = ""
        else:
            branch += character


def named_module(
    path: tuple[str, ...], own: tuple[str, ...], children: Iterable[str]
) -> tuple[str, ...] | None:
    """The full path of what a module writes like this; `None` if that begins with a crate or an import."""
    above = next((place for place, name in enumerate(path) if name != "super"), len(path))
    if path[0] in ("crate", "thunderherd_engine"):
        return path[1:]
    if path[0] == "self":
        return own + path[1:]
    if above:
        return own[: len(own) - above] + path[above:]
    return own + path if path[0] in children else None


def engine_uses(path: Path) -> set[Path]:
    """The other files that a file names, and the entries that it lists."""
    code, own = rust_code_that_ships(path), engine_module(path)
    children = set(re.findall(r"\bmod (\w+);", code))
    named = [named_module(each, own, children) for each in written_paths(code)]
    named += [(*own, name) for listed in REGISTER.findall(code) for name in re.findall(r"\w+", listed)]
    found = {file_of(module) for module in named if module is not None}
    return found - {path, ENGINE / "lib.rs"}


def file_of(module: tuple[str, ...]) -> Path:
    """The file that holds what has this full path: the one whose own path is the longest part of it."""
    return next(
        ENGINE_MODULES[module[:length]]
        for length in range(len(module), -1, -1)
        if module[:length] in ENGINE_MODULES
    )


def circle_in(uses: Mapping[Path, Iterable[Path]]) -> list[Path]:
    """Files of which each uses the one before it, and the first the last; none where there is no circle."""
    try:
        TopologicalSorter(uses).prepare()
    except CycleError as error:
        circle: list[Path] = error.args[1]
        return circle
    return []


@pytest.mark.parametrize("path", engine_files(), ids=lambda path: str(path.relative_to(ENGINE)))
def test_engine_uses_run_downwards(path: Path) -> None:
    if path.parent == ENGINE:
        return
    place = ENGINE_FOLDERS.index(engine_folder(path))
    upwards = [
        str(used.relative_to(ENGINE))
        for used in engine_uses(path)
        if ENGINE_FOLDERS.index(engine_folder(used)) < place
    ]
    assert not upwards, f"{path.relative_to(ENGINE)} uses {upwards}, which ENGINE_FOLDERS has above it"


def test_no_circle_is_between_files_of_the_engine() -> None:
    circle = circle_in({path: engine_uses(path) for path in engine_files()})
    assert not circle, f"these use each other: {[str(path.relative_to(ENGINE)) for path in circle]}"


def test_the_engine_has_the_folders_that_are_listed() -> None:
    assert sorted(path.name for path in ENGINE.iterdir()) == sorted([*ENGINE_FOLDERS, "lib.rs", "main.rs"])


def test_no_folder_of_the_engine_is_crowded() -> None:
    tests = ROOT / "engine" / "tests"
    counts = Counter(path.parent for path in [*engine_files(), *tests.rglob("*.rs")])
    catalogues = {ENGINE / folder for folder in ENTRIES}
    assert not {
        str(folder.relative_to(ROOT)): count
        for folder, count in counts.items()
        if count > MOST_FILES and folder not in catalogues
    }, f"more than {MOST_FILES} files: such a folder has two subjects, or needs an inner folder"


@pytest.mark.parametrize(
    "path",
    [path for path in engine_files() if engine_folder(path) in ENTRIES and path.stem != "mod"],
    ids=lambda path: str(path.relative_to(ENGINE)),
)
def test_an_entry_knows_no_other(path: Path) -> None:
    folder, own = engine_module(path)[:2]
    named = {engine_module(used)[:2] for used in engine_uses(path)}
    others = {module[1] for module in named if len(module) == 2 and module[0] == folder} - {own}
    assert not others, f"{path.relative_to(ENGINE)} uses its neighbours {sorted(others)}"


@pytest.mark.parametrize("path", engine_files(), ids=lambda path: str(path.relative_to(ENGINE)))
def test_only_sys_is_unsafe(path: Path) -> None:
    if engine_folder(path) == "sys":
        return
    lines = [
        number
        for number, line in enumerate(rust_code(path).splitlines(), 1)
        if re.search(r"\bunsafe\b", line)
    ]
    assert lines == [], f"{path.relative_to(ROOT)}: unsafe in lines {lines}; it belongs into engine/src/sys"


# Both -------------------------------------------------------------------------------------------------------


def all_files() -> list[Path]:
    rust = [*ENGINE.rglob("*.rs"), *(ROOT / "engine" / "tests").rglob("*.rs")]
    return sorted([*rust, *LAB.rglob("*.py"), *(ROOT / "lab" / "tests").glob("*.py")])


@pytest.mark.parametrize("path", all_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short(path: Path) -> None:
    length = len(path.read_text(encoding="utf-8").splitlines())
    assert length <= LONGEST_FILE, f"{length} lines, at most {LONGEST_FILE} are allowed: divide it"


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


def test_what_stands_behind_a_test_module_is_read() -> None:
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
def test_a_path_is_read_from_where_it_is_written(written: str, named: tuple[str, ...] | None) -> None:
    assert named_module(tuple(written.split("::")), ("top", "own"), {"child"}) == named


def test_a_circle_is_seen() -> None:
    a, b, c = map(Path, "abc")
    assert circle_in({a: [b], b: [c], c: []}) == []
    assert set(circle_in({a: [b], b: [c], c: [b]})) == {b, c}
