"""A run's crossover in its summary."""

from __future__ import annotations

import math
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from made.summaries.crossed import A, B, asked, both_stages, found_of, study_of, summary_of, sweep_of, trials
from made.summaries.searched_crossovers import AT, TRUTHS, has, line, searched
from made.summaries.swept import CATALOGUE

from thunderherd.search.crossover_study import coarse_study, dense_study
from thunderherd.show.report.page import render
from thunderherd.show.sentences.crossover import sentences
from thunderherd.statistics.crossings import line_crossing
from thunderherd.toml.write import toml_text


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


def test_swapping_contenders_swaps_only_their_names() -> None:
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


def test_standings_match_the_verdicts_of_comparisons() -> None:
    for what in TRUTHS:
        for summary in searched(what):
            verdicts = {pair.point: pair.verdict for pair in summary.pairs}
            found = found_of(summary)
            own = {f"{each.size:g}": each.standing for each in found.points if each.stage == found.stage}
            known = {"faster": "a", "slower": "b"}
            assert own == {
                f"{float(point or 0):g}": known.get(each, each) for point, each in verdicts.items()
            }


def test_no_outcome_before_the_first_look(tmp_path: Path) -> None:
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


def test_bracket_of_the_first_stage_survives_an_undecided_second_stage(tmp_path: Path) -> None:
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
