"""A run's crossover: in its summary, in sentences, in the table and in the picture."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from made.shown.drawings import rows, svg_texts
from made.shown.pages import visit
from made.shown.printed import printed
from made.summaries import sweeps as synthetic_sweeps
from made.summaries.crossed import A, B, asked, both_stages, found_of, study_of, summary_of, sweep_of, trials
from made.summaries.swept import CATALOGUE

from thunderherd.records.crossover import CrossoverSummary
from thunderherd.records.summary import Summary
from thunderherd.search.crossover_study import coarse_study, dense_study
from thunderherd.show.charts.crossover import about, crossover_chart, write_pictures
from thunderherd.show.report.page import render, write_report
from thunderherd.show.sentences.crossover import sentences
from thunderherd.statistics.crossings import line_crossing
from thunderherd.toml.write import toml_text
from thunderherd.trial.caveats import NO_COMPLETION, ZERO_COPY_SENDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser

AT = 9000.0


def line(at: float = AT, slope: float = -0.1) -> Callable[[float], float]:
    return lambda size: slope * math.log2(size / at)


TRUTHS: dict[str, tuple[Callable[[float], float], float]] = {
    "one": (line(), 0.03),
    "reversed": (line(slope=0.1), 0.03),
    "shallow": (line(slope=-0.03), 0.12),
    "bent": (lambda size: -0.05 * max(-2.0, math.log2(size / AT)) ** 2 * math.copysign(1, size - AT), 0.02),
    "level": (
        lambda size: -0.05 * math.copysign(max(0.0, abs(math.log2(size / 16384)) - 4), size - 16384),
        0.01,
    ),
    "several": (lambda size: 0.3 * math.cos(math.pi * math.log2(size / 64) / 5), 0.03),
    "everywhere": (lambda size: -0.2, 0.03),
    "onset": (lambda size: -0.1 * max(0.0, math.log2(size / 20_000)), 0.02),
    "nowhere": (lambda size: 0.0, 0.1),
    "equivalent": (lambda size: 0.001, 0.01),
}


@cache
def searched(what: str) -> tuple[Summary, ...]:
    """Return the summaries of a search, of one stage or two."""
    truth, noise = TRUTHS[what]
    with TemporaryDirectory() as directory:
        return tuple(both_stages(Path(directory), truth, noise=noise))


def told(what: str) -> list[str]:
    last = searched(what)[-1]
    return sentences(last, sweep_of(last))


# The summary ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "outcome", "ahead", "stages"),
    [
        ("one", "one", None, 2),
        ("reversed", "one", None, 2),
        ("shallow", "one", None, 2),
        ("level", "one", None, 2),
        ("several", "several", None, 1),
        ("everywhere", "everywhere", A, 1),
        ("onset", "where_separated", A, 1),
        ("nowhere", "nowhere_separated", None, 1),
        ("equivalent", "nowhere_separated", None, 1),
    ],
)
def test_outcomes(what: str, outcome: str, ahead: str | None, stages: int) -> None:
    summaries = searched(what)
    found = found_of(summaries[-1])
    assert (found.outcome, found.ahead, len(summaries)) == (outcome, ahead, stages)
    assert (found.why, found.missing) == (None, {})
    assert found.stage == ("coarse" if stages == 1 else "dense")


def test_the_summary_of_the_second_stage_has_the_whole_answer() -> None:
    first, second = (found_of(each) for each in searched("one"))
    assert [each for each in second.points if each.stage == "coarse"] == first.points
    assert [each.size for each in second.points if each.stage == "dense"] == first.next_sizes
    assert (second.coarse_blocks, second.coarse_trials, second.blocks) == (12, (216, 216), 12)
    assert (
        second.estimate is not None and second.estimate.low is not None and second.estimate.high is not None
    )
    assert second.estimate.low <= AT <= second.estimate.high
    (bracket,) = second.brackets
    assert (bracket.before, bracket.after) == (B, A)
    assert bracket.low < AT < bracket.high
    assert first.estimate is None and first.next_sizes and second.next_sizes == []


def test_the_estimate_is_that_of_the_runs_own_blocks() -> None:
    """Computed from the trials here, without the lab's analysis."""
    with TemporaryDirectory() as directory:
        both_stages(Path(directory), *TRUTHS["one"][:1])
        study = study_of((Path(directory) / "dense.toml").read_text(), Path(directory) / "again.toml")
        made = trials(study, TRUTHS["one"][0], seed=2)
        found = found_of(summary_of(study, made))
    sizes = sorted({int(each.point or 0) for each in study.contenders})
    rate = {
        (each.block, each.contender): float((each.metrics or {})["requests_per_second"] or 0) for each in made
    }
    log_ratios = [
        [math.log(rate[block, f"{B}@dense={size}"] / rate[block, f"{A}@dense={size}"]) for size in sizes]
        for block in range(1, 13)
    ]
    expected = line_crossing(sizes, log_ratios)
    assert found.estimate is not None and expected.value and expected.low and expected.high
    assert found.estimate.value == math.ceil(expected.value)
    # Whole numbers, rounded outward.
    assert (found.estimate.low, found.estimate.high) == (math.floor(expected.low), math.ceil(expected.high))
    assert found.estimate.ends == pytest.approx([math.exp(each) for each in expected.line])
    assert found.estimate.percent_per_doubling == pytest.approx(100 * math.expm1(expected.slope))


def test_exchanging_the_two_exchanges_nothing_but_the_names() -> None:
    with TemporaryDirectory() as directory:
        text = toml_text(coarse_study(asked(), CATALOGUE))
        study = study_of(text, Path(directory) / "coarse.toml")
        made = trials(study, line())
        ours = found_of(summary_of(study, made))
        asks = f'a = "{A}"\nb = "{B}"'
        other = text.replace(asks, f'a = "{B}"\nb = "{A}"')
        assert other != text
        theirs = found_of(summary_of(study_of(other, Path(directory) / "other.toml"), made))
    assert (theirs.a, theirs.b) == (ours.b, ours.a)
    assert theirs.brackets == ours.brackets and theirs.next_sizes == ours.next_sizes
    exchanged = {"a": "b", "b": "a"}
    for one, two in zip(ours.points, theirs.points, strict=True):
        assert two.standing == exchanged.get(one.standing, one.standing)
        assert two.ratio == pytest.approx(1 / one.ratio)
        assert one.low and one.high
        assert (two.low, two.high) == pytest.approx((1 / one.high, 1 / one.low))


def test_the_unit_of_the_metric_does_not_matter() -> None:
    with TemporaryDirectory() as directory:
        study = study_of(coarse_study(asked(), CATALOGUE), Path(directory) / "coarse.toml")
        made = trials(study, line())
        scaled = [
            each.model_copy(
                update={
                    "metrics": {name: 3.7 * float(value or 0) for name, value in (each.metrics or {}).items()}
                }
            )
            for each in made
        ]
        ours, theirs = found_of(summary_of(study, made)), found_of(summary_of(study, scaled))
    assert theirs.brackets == ours.brackets and theirs.next_sizes == ours.next_sizes
    assert [each.ratio for each in theirs.points] == pytest.approx([each.ratio for each in ours.points])
    assert [each.standing for each in theirs.points] == [each.standing for each in ours.points]


def test_what_is_shown_is_what_the_table_of_comparisons_has() -> None:
    for what in TRUTHS:
        for summary in searched(what):
            verdicts = {pair.point: pair.verdict for pair in summary.pairs}
            found = found_of(summary)
            own = {f"{each.size:g}": each.standing for each in found.points if each.stage == found.stage}
            known = {"faster": "a", "slower": "b"}
            assert own == {
                f"{float(point or 0):g}": known.get(each, each) for point, each in verdicts.items()
            }


def test_before_the_first_look_nothing_is_told(tmp_path: Path) -> None:
    study = study_of(coarse_study(asked(), CATALOGUE), tmp_path / "coarse.toml")
    summary = summary_of(study, trials(study, line(), blocks=5))
    found = found_of(summary)
    assert (found.outcome, found.brackets, found.estimate, found.next_sizes) == (None, [], None, [])
    assert re.findall(r"\d+", found.why or "") == ["12", "5"]
    assert {point.standing for point in found.points} == {"undecided"}
    (said,) = sentences(summary, sweep_of(summary))
    assert has(said, A, B, f": {found.why}.")
    assert render(summary)
    nothing = summary_of(study, [])
    assert found_of(nothing).points == [] and found_of(nothing).why
    assert render(nothing)


def test_what_the_first_stage_has_shown_stays_shown(tmp_path: Path) -> None:
    """If the second stage shows nothing, even at the same sizes, the bracket is that of the first."""
    first, _ = searched("one")
    found = found_of(first)
    sizes = [each.size for each in found.points]
    text = dense_study(coarse_study(asked(), CATALOGUE), sizes, found, (216, 216))
    study = study_of(text, tmp_path / "dense.toml")
    second = found_of(summary_of(study, trials(study, line(), noise=5.0)))
    assert {each.standing for each in second.points if each.stage == "dense"} == {"undecided"}
    assert (second.outcome, second.brackets) == ("one", found.brackets)


def test_repetitions_judge_nothing(tmp_path: Path) -> None:
    study = study_of(coarse_study(asked(), CATALOGUE), tmp_path / "coarse.toml", "repetitions=3")
    found = found_of(summary_of(study, trials(study, line(), blocks=3)))
    assert found.outcome is None and "3 repetitions" in (found.why or "")


def given_up(summary_trials: list, names: set[str]) -> list:  # type: ignore[type-arg]
    """Return the trials with those of some contenders invalid, at both attempts."""
    made = []
    for trial in summary_trials:
        if trial.contender not in names:
            made.append(trial)
            continue
        for attempt in (1, 2):
            failed = {"valid": False, "invalid_reasons": ["timed out"], "metrics": None, "attempt": attempt}
            made.append(trial.model_copy(update=failed))
    return made


def test_sizes_whose_trials_are_invalid_are_left_out_and_named(tmp_path: Path) -> None:
    study = study_of(coarse_study(asked(), CATALOGUE), tmp_path / "coarse.toml")
    lost = {f"{A}@coarse=4194304", f"{A}@coarse=1048576"}
    summary = summary_of(study, given_up(trials(study, line()), lost))
    found = found_of(summary)
    assert found.outcome == "one" and len(found.points) == 7
    assert list(found.missing) == ["1048576", "4194304"]
    said = sentences(summary, sweep_of(summary))
    assert any(has(each, "1048576: ", found.missing["1048576"]) for each in said)
    assert has(said[-1], 192, 240), "valid trials of all"


def test_too_few_sizes_are_no_answer(tmp_path: Path) -> None:
    study = study_of(coarse_study(asked(points=3), CATALOGUE), tmp_path / "coarse.toml")
    lost = {each.name for each in study.contenders if each.base == A and each.point != "64"}
    lost_points = [f"; {each.rpartition('=')[2]}: " for each in sorted(lost, key=len)]
    summary = summary_of(study, given_up(trials(study, line()), lost))
    found = found_of(summary)
    assert found.outcome is None and has(found.why or "", 2, "(64)", *lost_points)
    assert render(summary)


# Sentences --------------------------------------------------------------------------------------------------


def has(text: str, *parts: object) -> bool:
    """Return whether the text has all of these, in this order."""
    return re.search(".*".join(re.escape(str(part)) for part in parts), text, re.DOTALL) is not None


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


def changed(found: CrossoverSummary, **estimate: object) -> Summary:
    """Return the summary of the second stage with another estimate."""
    summary = searched("one")[-1]
    at = (
        None
        if estimate.get("none")
        else found.estimate.model_copy(update=estimate)
        if found.estimate
        else None
    )
    sweep = sweep_of(summary).model_copy(update={"crossover": found.model_copy(update={"estimate": at})})
    return summary.model_copy(update={"sweeps": [sweep]})


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
def test_none_in_words(what: str, parts: tuple[object, ...]) -> None:
    answer, rests = told(what)
    assert has(answer, *parts)
    assert has(rests, 9, "64 bytes", "4 MiB", 12, 216, 216)


def test_a_first_stage_alone_says_so() -> None:
    first = searched("one")[0]
    said = sentences(first, sweep_of(first))
    assert has(said[0], "4 KiB", "16 KiB") and said[1] not in told("one")


def test_a_study_that_does_not_ask_says_nothing() -> None:
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


@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_opens_in_a_browser(browser: Browser, tmp_path: Path, width: int) -> None:
    file = write_report(searched("one")[-1], tmp_path / "report.html")
    seen = visit(browser, file, width)
    assert seen.console == []
    assert [url for url in seen.requests if not url.startswith("data:")] == [file.as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    assert seen.page.locator("#crossover-dense .live svg.marks").count() == 1
    assert seen.page.locator("section#over-dense p.answer").first.inner_text() == told("one")[0]
    seen.page.context.close()


# The picture ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("what", TRUTHS)
def test_the_picture_shows_every_size(what: str, narrow: bool) -> None:
    summary = searched(what)[-1]
    chart = crossover_chart(summary, sweep_of(summary), narrow=narrow)
    found = found_of(summary)
    marks = [row for row in rows(chart) if "standing" in row]
    assert [(row["size"], row["ratio"], row["low"], row["high"]) for row in marks] == [
        (each.size, each.ratio, each.low, each.high) for each in found.points
    ]
    texts = svg_texts(chart)
    assert "64" in texts and "4 MiB" in texts
    # The heading has two lines if one is too narrow for it.
    assert re.search(rf"\b{A} / [^/]*\b{B}\b", " ".join(texts))


def test_the_picture_has_the_line_and_its_interval() -> None:
    summary = searched("one")[-1]
    found, data = found_of(summary), rows(crossover_chart(summary, sweep_of(summary)))
    assert found.estimate is not None
    assert any(
        row.get("size") == found.estimate.low and row.get("end") == found.estimate.high for row in data
    )
    assert any(row.get("ratio") == found.estimate.ends[0] for row in data)
    level = searched("level")[-1]
    texts = [about(each, sweep_of(each)) for each in (summary, level)]
    assert len(set(texts)) == 2, "of an interval, and of one that is unbounded"


@pytest.mark.parametrize("what", ["one", "nowhere"])
def test_what_was_copied_after_all_stands_in_the_picture_and_beside_the_answer(
    what: str, tmp_path: Path
) -> None:
    summary = searched(what)[-1]
    remark = f"{A}: 100 % of the clients' {ZERO_COPY_SENDS} were copied"
    sweep = sweep_of(summary).model_copy(update={"remarks": [remark]})
    assert sentences(summary, sweep)[1].endswith(f": {remark}.")
    for narrow in (False, True):
        assert remark in " ".join(svg_texts(crossover_chart(summary, sweep, narrow=narrow)))
    svg, _ = write_pictures(summary, sweep, tmp_path)
    assert ZERO_COPY_SENDS in svg.read_text()


def test_a_share_that_no_completion_tells_stands_in_the_picture_and_beside_the_answer(tmp_path: Path) -> None:
    study = study_of(coarse_study(asked(), CATALOGUE), tmp_path / "coarse.toml")
    changed = tuple(each.model_copy(update={"completes": each.base == A}) for each in study.contenders)
    study = study.model_copy(update={"contenders": changed})
    summary = summary_of(study, trials(study, line()))
    remark = f"{A}: copied share of the server's sends unknown: {NO_COMPLETION}"
    assert sentences(summary, sweep_of(summary))[1].endswith(f": {remark}.")
    write_pictures(summary, sweep_of(summary), tmp_path)
    assert "unknown:" in (tmp_path / "crossover.svg").read_text()


def test_an_interval_far_beyond_the_range_ends_with_the_axis() -> None:
    summary = changed(found_of(searched("one")[-1]), high=1e200)
    sizes = [row["end"] for row in rows(crossover_chart(summary, sweep_of(summary))) if "end" in row]
    assert sizes and max(sizes) < 10 * 2**20


def test_pictures_are_written_as_svg_and_as_png(tmp_path: Path) -> None:
    summary = searched("one")[-1]
    svg, png = write_pictures(summary, sweep_of(summary), tmp_path)
    assert svg.read_text().startswith("<svg") and png.read_bytes().startswith(b"\x89PNG")
    assert "#ffffff" in svg.read_text()
    empty = summary.model_copy(
        update={
            "sweeps": [
                sweep_of(summary).model_copy(
                    update={"crossover": found_of(summary).model_copy(update={"points": []})}
                )
            ]
        }
    )
    assert write_pictures(empty, sweep_of(empty), tmp_path) == []
