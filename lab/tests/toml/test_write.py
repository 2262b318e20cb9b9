"""TOML that the lab writes: `tomllib` reads back the same data."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thunderherd.toml.write import toml_text

# TOML has no lone surrogates, which no UTF-8 file can hold, and integers of 64 bits.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = st.one_of(
    TEXTS,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXTS, VALUES, max_size=5))
def test_written_toml_is_read_back(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml_text(table)) == table


def test_written_toml_reads_like_a_study() -> None:
    text = toml_text(
        {
            "name": "x",
            "sizes": {"quick": {"looks": [12]}},
            "sweeps": [{"set": {"load.settings.loops": 5}, "contenders": [{"name": "a"}, {"name": "b"}]}],
        }
    )
    assert text == (
        'name = "x"\n\n[sizes.quick]\nlooks = [12]\n\n'
        '[[sweeps]]\n\n[sweeps.set]\n"load.settings.loops" = 5\n\n'
        '[[sweeps.contenders]]\nname = "a"\n\n[[sweeps.contenders]]\nname = "b"\n'
    )


def test_the_order_of_an_inner_table_is_kept() -> None:
    table = {"paper": [{"figures": {"first": {"value": "x"}, "second": "y", "third": {"value": "z"}}}]}
    read = tomllib.loads(toml_text(table))
    assert [*read["paper"][0]["figures"]] == ["first", "second", "third"]


def test_comments_are_behind_the_values_of_their_places() -> None:
    table = {"name": "x", "load": {"kind": "y"}, "contenders": [{"name": "a"}, {"name": "b"}]}
    marked = {("load", "kind"): "one", ("contenders", 1, "name"): "two"}
    text = toml_text(table, lambda place: marked.get(place, ""))
    assert tomllib.loads(text) == table
    assert [line for line in text.splitlines() if "#" in line] == ['kind = "y"  # one', 'name = "b"  # two']


@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), object()])
def test_value_without_a_toml_form_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="TOML"):
        toml_text({"key": value})
