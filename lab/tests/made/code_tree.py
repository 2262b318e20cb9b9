"""The files of both halves, read as source code: their modules, and what they import and name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


LAB = ROOT / "lab" / "thunderherd"


ENGINE = ROOT / "engine" / "src"


ENTRIES = ["designs", "primitives", "workloads", "loads", "counters", "limits"]
"""Folders of the engine whose files know nothing of each other."""


@cache
def lab_files() -> list[Path]:
    return sorted(path for path in LAB.rglob("*.py") if path.relative_to(LAB).parts[0] != "studies")


def lab_module(path: Path) -> str:
    """`judge.claims.slopes`; of a package's `__init__.py`, the package; of the program's, nothing."""
    parts = path.relative_to(LAB).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def lab_package(path: Path) -> str:
    return ".".join(path.relative_to(LAB).parts[:-1])


@cache
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


@cache
def rust_code(path: Path) -> str:
    """A Rust file without comments and texts; lines keep their numbers."""
    return NOT_CODE.sub(lambda match: "\n" * match[0].count("\n"), path.read_text(encoding="utf-8"))


def is_test(path: Path) -> bool:
    """Whether a file has nothing but tests of the module above it."""
    parent = ENGINE / "lib.rs" if path.parent == ENGINE else path.parent / "mod.rs"
    if not parent.exists():
        parent = path.parent.with_suffix(".rs")  # an entry with its own folder
    return path != parent and path.stem in TEST_FILE.findall(rust_code(parent))


@cache
def rust_code_that_ships(path: Path) -> str:
    """Its code without the tests, which are modules of the file or separate files."""
    return "" if is_test(path) else without_tests(rust_code(path))


def without_tests(code: str) -> str:
    """Code without its test modules; code after them is kept."""
    while begin := TESTS_BEGIN.search(code):
        depth, end = 1, begin.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
        code = code[: begin.start()] + code[end:]
    return code


@cache
def engine_files() -> list[Path]:
    return sorted(ENGINE.rglob("*.rs"))


def engine_folder(path: Path) -> str:
    """The folder of the list that holds a file; for the two files outside the folders, their own name."""
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


@cache
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
