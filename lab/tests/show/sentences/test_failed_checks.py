"""What a failed check of a load means, in short."""

from __future__ import annotations

import re

import pytest
from made.paths import ROOT

from thunderherd.show.sentences.tables import CHECKS, without_meaning

IN_FULL = {"errors", "gap_mean", "gap_variation"}
"""Checks without short words: errors have a count of their own, and gaps are those of a recording."""


def test_each_check_of_the_engine_has_words() -> None:
    files = [ROOT / "engine/src/client" / name for name in ("validity.rs", "gave_up.rs")]
    named = {
        name for file in files for name in re.findall(r'const \w+: &str = "([a-z_]+)";', file.read_text())
    }
    assert named == {*CHECKS} | IN_FULL


@pytest.mark.parametrize(
    ("reason", "figures"),
    [
        ("load: achieved_rate = 0.012 to 0.85, allowed: at most 0.01: words: change", ["1.2 to 85 %", "1 %"]),
        ("load: send_lag = 1.5 to 12 ms, allowed: at most 105 µs: words", ["1.5 to 12 ms", "105 µs"]),
        ("load: never_sent = 1, allowed: at most 0.01", ["100 %"]),
    ],
)
def test_shares_are_in_percent_and_times_have_their_unit(reason: str, figures: list[str]) -> None:
    short = without_meaning(reason)
    assert all(figure in short for figure in figures), short
    assert without_meaning("the server died: 7") == "the server died: 7"
