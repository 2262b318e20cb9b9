"""A crossover in sentences, on the terminal and in the report."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from made.shown.printed import printed
from made.summaries import sweeps as synthetic_sweeps
from made.summaries.crossed import A, B, found_of, sweep_of
from made.summaries.searched_crossovers import TRUTHS, changed, has, searched, told

from thunderherd.show.charts.crossover import crossover_chart
from thunderherd.show.report.page import render
from thunderherd.show.sentences.crossover import sentences


def test_every_answer_in_words(golden: Callable[[str, str], None]) -> None:
    """The wording; the figures in it are asserted below."""
    pages = [f"{what}\n" + "\n".join(told(what)) for what in TRUTHS]
    golden("crossover-sentences.txt", "\n\n".join(pages) + "\n")


def test_one_crossing_in_words() -> None:
    found = found_of(searched("one")[-1])
    answer, by_tests, rests = told("one")
    assert found.estimate is not None and found.estimate.low and found.estimate.high
    low, high = (f"{each:,.0f}" for each in (found.estimate.low, found.estimate.high))
    assert has(answer, f"{found.estimate.value:,.0f} bytes", A, B, "95 %", low, f"{high} bytes", B, A)
    (bracket,) = found.brackets
    assert all(has(by_tests, f"{size // 1024:.0f} KiB") for size in (bracket.low, bracket.high))
    assert has(rests, 9, "64 bytes", "4 MiB", 12, 216, 216, 12, 168, 168)


def test_the_other_way_round_in_words() -> None:
    assert has(told("reversed")[0], A, B, "95 %", B, A)
    assert not has(told("one")[0], "Below ") and has(told("reversed")[0], "Below ")


def test_an_interval_beyond_the_range_in_words() -> None:
    found = found_of(searched("one")[-1])
    for (low, high), shown in {
        (5000.0, 1e200): ("5,000 bytes", "4 MiB;"),
        (0.1, 20_000.0): ("64 bytes", "20,000 bytes;"),
        (0.1, 1e200): ("95 %", ";"),
    }.items():
        beyond = changed(found, low=low, high=high)
        interval = sentences(beyond, sweep_of(beyond))[0].partition("95 %")[2].partition(";")[0] + ";"
        assert has(f"95 %{interval}", *shown)
        assert len(re.findall(r"\d", interval)) == len(re.findall(r"\d", "".join(shown).replace("95 %", "")))


def test_an_unbounded_interval_and_a_long_equivalent_stretch_in_words() -> None:
    answer, unbounded, stretch, _ = told("level")
    assert has(answer, "256 bytes", "1 MiB") and has(unbounded, "95 %")
    assert has(stretch, "1 KiB", "256 KiB", "3 %")


def test_a_line_that_bends_in_words() -> None:
    found = found_of(searched("one")[-1])
    bent = changed(found, curvature_p=0.012)
    said = sentences(bent, sweep_of(bent))
    (bends,) = [each for each in said if each not in told("one")]
    assert "(p = 0.012)" in bends


def test_a_line_that_is_zero_elsewhere_in_words() -> None:
    found = found_of(searched("one")[-1])
    elsewhere = changed(found, none=True)
    (bracket,) = found.brackets
    answer, why, _ = sentences(elsewhere, sweep_of(elsewhere))
    assert has(answer, f"{bracket.low:,.0f} bytes", f"{bracket.high / 1024:g} KiB", A, B)
    assert why not in told("one")
    assert "none" not in crossover_chart(elsewhere, sweep_of(elsewhere))


def test_several_crossings_in_words() -> None:
    answer, _ = told("several")
    crossings = [("256 bytes", "1 KiB", B, A), ("4 KiB", "16 KiB", A, B), ("256 KiB", "1 MiB", B, A)]
    assert has(answer, 3, *(part for crossing in crossings for part in crossing))


@pytest.mark.parametrize(
    ("what", "parts"),
    [
        ("everywhere", (A, B, "9 sizes", "1.2")),
        ("onset", (A, B, "4 of 9 sizes", "(64 KiB to 4 MiB)", B, A, "3 %", 5, "(64 bytes to 16 KiB)")),
        ("nowhere", ("9 sizes", 9, "(64 bytes to 4 MiB;", "%", ").")),
        ("equivalent", ("9 sizes", "3 %", 9, "(")),
    ],
)
def test_no_crossing_in_words(what: str, parts: tuple[object, ...]) -> None:
    answer, rests = told(what)
    assert has(answer, *parts)
    assert has(rests, 9, "64 bytes", "4 MiB", 12, 216, 216)


def test_a_first_stage_alone_says_so() -> None:
    first = searched("one")[0]
    said = sentences(first, sweep_of(first))
    assert has(said[0], "4 KiB", "16 KiB") and said[1] not in told("one")


def test_study_without_a_crossover_has_no_sentences() -> None:
    summary = synthetic_sweeps.summary()
    assert all(each.crossover is None and sentences(summary, each) == [] for each in summary.sweeps)


@pytest.mark.parametrize("what", TRUTHS)
def test_every_sentence_is_printed_and_in_the_report(what: str) -> None:
    summary = searched(what)[-1]
    text = " ".join(printed(summary, 100).split())
    page = " ".join(render(summary).split())
    for sentence in told(what):
        assert sentence in text
        assert sentence.replace("&", "&amp;") in page
