"""Every key of a TOML text has its line, and every problem names one."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made.refusals import refused
from pydantic import Field, ValidationError

from thunderherd.toml.file import (
    LONGEST_REST,
    KeyPath,
    Problems,
    TomlFile,
    dotted,
    formed,
    nearest,
    suggest,
    unknown,
)
from thunderherd.toml.lines import locate
from thunderherd.toml.strict import StrictTable

TEXT = '''\
# a comment with [brackets] and = signs
title = "a # no comment"      # 2
"quoted key" = 'x = 1'
literal."with.dot".last = 4

list = [
    1, 2,   # 7
    "]",    # 8
    { name = "a", size = 1 },
    [10, 10],
]
text = """
[no.table]
no_key = 1
quotes at the end """""
after = 2024-01-01 10:00:00
lines = \'\'\'
[[nor.this]]
\'\'\'
inline = { a = 1, b.c = [ { d = 2 } ] }

[table.inner]   # 22
key = 1
[table]
other = 0x1F

[[array]]       # 27
name = "first"
[array.settings]
pool = 1
[[array.parts]]
x = 1
[[array.parts]]
x = 2

[[array]]       # 36
name = "second"
array_too = { settings = 1 }
[array.settings]
pool = 2
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        (("title",), 2),
        (("quoted key",), 3),
        (("literal",), 4),
        (("literal", "with.dot", "last"), 4),
        (("list",), 6),
        (("list", 0), 7),
        (("list", 1), 7),
        (("list", 2), 8),
        (("list", 3, "size"), 9),
        (("list", 4, 1), 10),
        (("text",), 12),
        (("after",), 16),
        (("lines",), 17),
        (("inline",), 20),
        (("inline", "b", "c", 0, "d"), 20),
        (("table", "inner", "key"), 23),
        (("table", "other"), 25),
        (("array", 0), 27),
        (("array", 0, "name"), 28),
        (("array", 0, "settings", "pool"), 30),
        (("array", 0, "parts", 1, "x"), 34),
        (("array", 1), 36),
        (("array", 1, "name"), 37),
        (("array", 1, "settings", "pool"), 40),
    ],
)
def test_lines_of_keys(key: KeyPath, line: int) -> None:
    assert locate(TEXT)[key] == line


def keys_of(value: Any, key: KeyPath = ()) -> Iterator[KeyPath]:
    """Yield every key and element of parsed TOML."""
    if key:
        yield key
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from keys_of(inner, (*key, name))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from keys_of(inner, (*key, index))


def test_located_keys_match_the_parsed_keys() -> None:
    assert set(locate(TEXT)) == set(keys_of(tomllib.loads(TEXT)))


NAMES = st.sampled_from(["a", "b", "c-1", '"d e"', "'f.g'", '"[h]"', '"="', '"\\""', "9"])
SCALARS = st.sampled_from(
    [
        "1",
        "-2.5e3",
        "true",
        "inf",
        "2024-01-01T10:00:00Z",
        '"x"',
        "'y'",
        '"#"',
        "'[a]'",
        '"\\\\"',
        '"\\"="',
        '"""\n[t]\nk = 1\n"""',
        "'''\n#'\n'''",
        '"""a""""',
        '""',
        "''",
        '""""""',
    ]
)
GAPS = st.sampled_from(["", " ", "\n", " # ] } = '\"\n", "\n\n\t"])


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> str:
    """Draw a TOML value, which may be an array over several lines or an inline table."""
    kind = draw(st.integers(0, 3)) if depth else 0
    if kind <= 1:
        return draw(SCALARS)
    if kind == 2:
        inner = [draw(GAPS) + draw(values(depth - 1)) + draw(GAPS) for _ in range(draw(st.integers(0, 3)))]
        return f"[{','.join(inner)}{draw(GAPS)}]"
    names = draw(st.lists(NAMES, unique=True, max_size=3))
    return "{ " + ", ".join(f"{name} = {draw(values(depth - 1))}" for name in names) + " }"


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Draw a text of tables, arrays of tables, dotted keys and comments; it need not be valid TOML."""
    lines = []
    for _ in range(draw(st.integers(0, 8))):
        names = draw(st.lists(NAMES, min_size=1, max_size=3))
        key = draw(st.sampled_from([".", " . "])).join(names)
        kind = draw(st.integers(0, 5))
        if kind == 0:
            lines.append(f"[ {key} ]  # [x]")
        elif kind == 1:
            lines.append(f"  [[{key}]]")
        elif kind == 2:
            lines.append(draw(GAPS).replace("\n", "\n#") or "# y = 1")
        else:
            lines.append(f"{key}={draw(values())} # = [z]")
    return "\n".join(lines)


@given(documents())
def test_scanner_finds_what_tomllib_finds(text: str) -> None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = locate(text)
    assert set(found) == set(keys_of(data))
    lines = text.split("\n")
    for key, line in found.items():
        name = key[-1]
        assert isinstance(name, int) or name.replace('"', '\\"') in lines[line - 1], (key, line)


# Files ------------------------------------------------------------------------------------------------------


class Named(StrictTable):
    """A table with a name and a value."""

    name: str = Field(description="its name")
    value: int = Field(ge=1, description="its value")
    settings: dict[str, Any] = Field(default={}, description="its settings")


class Changes(Named, total=False):
    """The keys that differ."""


def written(directory: Path, text: str) -> TomlFile:
    path = directory / "x.toml"
    path.write_text(text)
    return TomlFile(path)


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\nb = \n", 2), ("a = 1\n\na = 2\n", 3), ('a = "', 1), ("[t]\n[t]\n", 2)],
)
def test_syntax_errors_have_their_line(text: str, line: int, tmp_path: Path) -> None:
    (problem,) = refused(written, tmp_path, text)
    assert (problem.code, problem.where) == ("study.not_toml", f"{tmp_path / 'x.toml'}:{line}")


@pytest.mark.parametrize(
    "text", ["a = " + "[" * 5000 + "]" * 5000, "a = " + "9" * 5001], ids=["nested", "digits"]
)
def test_what_no_study_has_is_refused(text: str, tmp_path: Path) -> None:
    (problem,) = refused(written, tmp_path, text)
    assert (problem.code, problem.where) == ("study.not_toml", str(tmp_path / "x.toml"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"a = '\xff'")
    for path, code in (
        (tmp_path / "none.toml", "file.unreadable"),
        (tmp_path / "binary.toml", "file.not_text"),
        (tmp_path, "file.unreadable"),
    ):
        (problem,) = refused(TomlFile, path)
        assert (problem.code, problem.where) == (code, str(path))


def test_codes_begin_with_the_kind_of_file(tmp_path: Path) -> None:
    (problem,) = refused(TomlFile, tmp_path / "x.toml", "a = ", area="claims")
    assert problem.code == "claims.not_toml"
    problems = Problems(TomlFile(tmp_path / "x.toml", "name = 3\nbalue = 1", area="claims"))
    _, wrong = formed(Named, problems.file.data, problems)
    assert {each.code for each in problems.found} == {
        "claims.invalid_value", "claims.unknown_key", "claims.missing_key"
    }  # fmt: skip
    assert {*wrong} == {("name",), ("value",), ("balue",)}


def test_the_hint_of_a_problem_is_the_description_of_the_key(tmp_path: Path) -> None:
    problems = Problems(TomlFile(tmp_path / "x.toml", "name = 3\nbalue = 1"))
    formed(Named, problems.file.data, problems)
    hints = {each.code: each.hint for each in problems.found}
    assert hints["study.invalid_value"] == "its name"
    assert hints["study.missing_key"] == "its value"
    assert "'value'" in hints["study.unknown_key"]


def test_a_table_of_changes_has_the_keys_of_its_base_and_requires_none() -> None:
    assert set(Changes.model_fields) == set(Named.model_fields)
    assert Changes.model_validate({}).model_dump() == {"name": None, "value": None, "settings": {}}
    assert Changes.model_validate({"value": 2}).model_dump(exclude_unset=True) == {"value": 2}
    for wrong in ({"value": 0}, {"name": 3}, {"other": 1}):
        with pytest.raises(ValidationError):
            Changes.model_validate(wrong)


def test_a_problem_of_a_missing_key_is_at_its_table(tmp_path: Path) -> None:
    file = written(tmp_path, "a = 1\n[t]\nb = 1\n")
    assert file.where(("t", "missing", "too")).endswith("x.toml:2")
    assert file.where(("missing",)).endswith("x.toml:1")


def test_problems_are_in_the_order_of_the_file_and_once(tmp_path: Path) -> None:
    problems = Problems(written(tmp_path, "\n".join(f"k{number} = 1" for number in range(1, 12))))
    for number in (11, 2, 2, 9):
        problems.add((f"k{number}",), "wrong")
    found = refused(problems.raise_any)
    assert [each.where.rpartition("x.toml:")[2] for each in found] == ["2", "9", "11"]


def test_names_in_words() -> None:
    assert dotted(("contenders", 1, "settings", "pool"), {("contenders", 1): "prefork"}) == (
        "contenders.prefork.settings.pool"
    )
    assert dotted(("looks", 2)) == "looks[2]"
    assert nearest("prefork_mutx", ["prefork", "prefork_mutex"]) == "prefork_mutex"
    assert nearest("warm_up", ["warm_up_connections"]) == "warm_up_connections"
    assert nearest("zzz", ["prefork"]) is None
    assert "'prefork'" in suggest("preforc", ["prefork"])
    assert suggest("preforc", ["prefork"], "known: prefork").endswith("known: prefork")
    assert suggest("zzz", ["prefork"]) == ""


def test_files_of_other_editors_are_read_alike(tmp_path: Path) -> None:
    """With a byte order mark, other line ends, empty last lines, and whole numbers with a fraction of 0."""
    text = 'size = 200\nshare = 0.5\nname = "a"\n[inner]\nsize = -3\n'
    path = tmp_path / "file.toml"
    path.write_text(text)
    plain = TomlFile(path)
    for changed in (
        "\ufeff" + text,
        text.replace("\n", "\r\n"),
        text + "\n\n",
        text.rstrip(),
        text.replace("200", "200.0").replace("-3", "-3.0"),
    ):
        path.write_bytes(changed.encode())
        found = TomlFile(path)
        assert found.data == plain.data and found.lines == plain.lines
        assert type(found.data["size"]) is type(found.data["inner"]["size"]) is int
    assert type(plain.data["share"]) is float


def test_a_list_of_names_that_is_cut_ends_with_the_command_that_prints_all() -> None:
    names = [f"design_{number}" for number in range(50)]
    hint = unknown("design", "zzz", names).hint
    assert len(hint) < LONGEST_REST + 50 and hint.endswith("`thunderherd list designs`")
    assert names[0] in hint and names[-1] not in hint
    assert "`" not in unknown("design", "zzz", names[:3]).hint
