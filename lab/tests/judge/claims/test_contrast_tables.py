"""Contrasts over sweeps: how they are written, what they expand to, and every mistake that is refused."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from made.questions import check_mistake, with_claims
from made.refusals import refused
from made.summaries import sweeps as synthetic_sweeps
from made.summaries.values import values

from thunderherd.claims.claim_file import Claim, load_claims, load_source
from thunderherd.claims.contrast_tables import Contrast
from thunderherd.judge.claims.claims import judge, judged_after
from thunderherd.judge.claims.contrasts import measure
from thunderherd.records.summary import ClaimSummary
from thunderherd.study.loading import Study

GOOD = """\
study = "unp-ch30"
source = "unp-ch30"

[[claims]]
id = "H1"
statement = "CPU grows with the pool"
paper_figure = "1.8 to 13.5"
paper_data_supports = "yes"
metric = "server_cpu_per_connection"
tests = [
    { label = "grows", slope = { base = "prefork", sweep = "pool_size" } },
    { label = "120 costs more than 5", weights = { "prefork@pool_size=120" = 1, "prefork@pool_size=5" = -1 } },
]
figures = [
    { label = "grows more than without a lock", slope = { base = "prefork_file_lock", sweep = "pool_size", minus = "prefork", weight = 2 } },
    { label = "times", weights = { "prefork@pool_size=120" = 1 }, over = { "prefork@pool_size=5" = 1 } },
    { label = "below the bound", weights = { "prethread_queue@delay=small" = -1 }, constant = 400.0, metric = "requests_per_second" },
    { label = "spread", weights = { "prethread_queue@delay=small" = 1 }, of = "deviation", metric = "requests_per_second" },
]
"""  # noqa: E501


def study(directory: Path, text: str = GOOD) -> Study:
    return with_claims(synthetic_sweeps.study(), directory, text)


def loaded(directory: Path, text: str = GOOD) -> Claim:
    return load_claims(study(directory, text))[0]


def test_a_slope_is_least_squares_over_the_points(tmp_path: Path) -> None:
    weights = loaded(tmp_path).tests[0].weights
    assert set(weights) == {f"prefork@pool_size={pool}" for pool in synthetic_sweeps.POOLS}
    values = [3.0 + 0.25 * pool for pool in synthetic_sweeps.POOLS]
    found = sum(
        weights[f"prefork@pool_size={pool}"] * value
        for pool, value in zip(synthetic_sweeps.POOLS, values, strict=True)
    )
    assert found == pytest.approx(0.25), "a straight line has its own slope"
    noisy = np.random.default_rng(1).normal(size=6)
    by_hand = np.polyfit(synthetic_sweeps.POOLS, noisy, 1)[0]
    assert sum(
        weights[f"prefork@pool_size={p}"] * y for p, y in zip(synthetic_sweeps.POOLS, noisy, strict=True)
    ) == (pytest.approx(by_hand))


def test_a_slope_may_be_taken_from_another_and_weighted(tmp_path: Path) -> None:
    weights = loaded(tmp_path).figures[0].weights
    one, other = weights["prefork_file_lock@pool_size=120"], weights["prefork@pool_size=120"]
    assert one == -other
    assert one == pytest.approx(2 * loaded(tmp_path).tests[0].weights["prefork@pool_size=120"])


def judged(of: Study, **options: object) -> ClaimSummary:
    return judge(of, values(of), **options)[0]  # type: ignore[arg-type]


def test_slopes_constants_and_spreads_are_judged_and_shown(tmp_path: Path) -> None:
    found = judged(study(tmp_path))
    assert found.verdict == "supported"
    lines = found.our_figure.splitlines()
    assert lines[1].startswith("times: 1.2") and lines[2].startswith("below the bound: 69"), lines
    assert "/s (" in lines[2], "a rate has its unit"
    contrast = next(each for each in found.contrasts if each["label"] == "below the bound")
    assert contrast["constant"] == 400.0
    spread = next(each for each in found.contrasts if each["label"] == "spread")
    column = values(study(tmp_path))["requests_per_second"]["prethread_queue@delay=small"]
    assert spread["of"] == "deviation" and 0 < spread["value"] < np.std(column) * 2


def test_deviation_is_measured_from_the_contenders_own_median(tmp_path: Path) -> None:
    of = study(tmp_path)
    figure = next(each for each in loaded(tmp_path).figures if each.of == "deviation")
    rate = {"requests_per_second": {"prethread_queue@delay=small": [1.0, 2.0, 3.0, 4.0, 10.0] * 4}}
    assert measure(figure, of, rate).value == pytest.approx(2.0, abs=1.0)
    same = {"requests_per_second": {"prethread_queue@delay=small": [330.0] * 14}}
    assert measure(figure, of, same).value == 0


def test_figure_near_zero_has_no_superfluous_decimals(tmp_path: Path) -> None:
    of = study(tmp_path)
    what = Contrast(label="returns", metric="empty_wakeups_per_connection", weights={"prefork": 1.0})
    rare = {what.metric: {"prefork": [0.0] * 12 + [2e-4, 3e-4]}}
    assert measure(what, of, rare).figure() == "0.000 (0.000 to 0.000)"
    small = {what.metric: {"prefork": [2e-4, 3e-4] * 7}}
    assert measure(what, of, small).figure().startswith("0.000250 "), "what is there is shown"


# Contenders that a run does not have


def test_claim_on_a_left_out_contender_is_not_testable_here(tmp_path: Path) -> None:
    slope = 'slope = { base = "prefork", sweep = "pool_size" } },'
    found = judged(study(tmp_path, GOOD.replace(slope, slope.replace('"prefork"', '"prefork_mutex"'))))
    assert found.verdict == "not testable here"
    assert found.why == f"{synthetic_sweeps.LACKING} was left out: {synthetic_sweeps.WHY_LACKING}"
    assert "times: 1.2" in found.our_figure, "what can be shown is shown"


def test_parts_that_a_size_does_not_run_leave_claims_undecided(tmp_path: Path) -> None:
    whole = study(tmp_path)
    of_pools = [each.name for each in whole.contenders if each.sweep == "pool_size"]
    smaller = whole.model_copy(
        update={
            "contenders": tuple(each for each in whole.contenders if each.name not in of_pools),
            "sweeps": whole.sweeps[1:],
            "absent": dict.fromkeys([*of_pools, synthetic_sweeps.LACKING], "not part of size quick"),
        }
    )
    found = judged(smaller)
    assert found.verdict == "undecided"
    assert re.search(rf"prefork@pool_size=10 .*\b5 .*: {smaller.absent[of_pools[0]]}$", found.why or "")
    assert "below the bound" in found.our_figure and "times" not in found.our_figure


def test_repetitions_judge_nothing_and_show_everything(tmp_path: Path) -> None:
    repeated = synthetic_sweeps.study(repetitions=3)
    found = judged(repeated.model_copy(update={"claims_path": study(tmp_path).claims_path}))
    assert (found.verdict, found.why) == ("undecided", judged_after(repeated, values(repeated))[1])
    assert "3 repetitions" in found.why
    assert "times: 1.2" in found.our_figure and "(no interval)" in found.our_figure


# Conditions


def test_swept_setting_is_no_condition_of_claims(tmp_path: Path) -> None:
    text = GOOD.replace(
        "[[claims]]", "[conditions]\ncontenders = { pool = 15, backlog = 1024 }\n\n[[claims]]", 1
    )
    assert loaded(tmp_path, text).unmet == ()
    text = text.replace("backlog = 1024", "backlog = 7")
    (unmet,) = loaded(tmp_path, text).unmet
    assert re.search(r"backlog 7, .*1024 \(prefork@pool_size=5 .*\b12 ", unmet)


def test_other_conditions_may_leave_a_claim_undecided(tmp_path: Path) -> None:
    conditions = '[conditions]\nload = { bytes = 1 }\notherwise = "undecided"\nbecause = "scaled delays"\n\n'
    found = judged(study(tmp_path, GOOD.replace("[[claims]]", f"{conditions}[[claims]]", 1)))
    assert found.verdict == "undecided"
    unmet, because = found.why.split("; ")
    assert " bytes 1 " in unmet and unmet.endswith(" 4000") and because == "scaled delays"
    assert "times: 1.2" in found.our_figure


# Mistakes


SLOPE = 'base = "prefork", sweep = "pool_size" }'


@pytest.mark.parametrize(
    ("old", "new", "line", "code", "offers"),
    [
        (f"slope = {{ {SLOPE}", 'slope = { base = "preforc", sweep = "pool_size" }', 11,
         "claims.unknown_contender", "'prefork'?"),
        ('"prefork", sweep = "pool_size" }', '"prefork", sweep = "pool" }', 11, "claims.unknown_sweep",
         "'pool_size'?"),
        ('"prefork", sweep = "pool_size" }', '"thread_per_client", sweep = "delay" }', 11,
         "claims.points_without_numbers", "(small, large)"),
        ('minus = "prefork"', 'minus = "prefork_file_lock"', 15, "claims.minus_itself",
         '"prefork_file_lock"'),
        ("weight = 2", "weight = 0", 15, "claims.zero_weight", "weight = 0"),
        ("weight = 2", "wait = 2", 15, "claims.unknown_key", "'weight'?"),
        ('"prefork@pool_size=5" = -1', '"prefork@pool_size=6" = -1', 12, "claims.unknown_point", '"6"'),
        ('"prefork@pool_size=5" = -1', '"prefork@pool=5" = -1', 12, "claims.unknown_sweep", "'pool_size'?"),
        ('"prefork@pool_size=5" = -1', '"prefok@pool_size=5" = -1', 12, "claims.unknown_contender",
         "'prefork'?"),
        ('"prefork@pool_size=5" = -1', "prefok = -1", 12, "claims.unknown_contender", "'prefork'?"),
        ('of = "deviation"', 'of = "deviations"', 18, "claims.value_not_allowed", "'deviation'?"),
        ('of = "deviation"', 'of = "logarithm", less = "client.task_clock"', 18,
         "claims.ratio_of_more_than_weights", ""),
        ("constant = 400.0", 'constant = "400"', 17, "claims.invalid_value", '"400"'),
        (f"slope = {{ {SLOPE} }}", "constant = 1.0 }", 11, "claims.no_weights", ""),
        (f"slope = {{ {SLOPE}", f"r_squared = {{ {SLOPE}", 11, "claims.unknown_key", "r_squared"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_at_their_line(
    old: str, new: str, line: int, code: str, offers: str, tmp_path: Path
) -> None:
    check_mistake(study(tmp_path), GOOD, (old, new), line, code, offers)


def test_a_file_without_claims_and_questions_is_refused(tmp_path: Path) -> None:
    (problem,) = refused(load_source, study(tmp_path, 'study = "unp-ch30"\nsource = "unp-ch30"\n'))
    assert problem.code == "claims.empty"


def test_a_study_of_sweeps_alone_says_how_contenders_are_named(tmp_path: Path) -> None:
    text = GOOD.replace('"prefork@pool_size=5" = -1', "prefork = -1")
    (problem,) = refused(load_source, with_claims(synthetic_sweeps.study(main=False), tmp_path, text))
    assert (problem.code, Path(problem.where).name) == ("claims.unknown_contender", "claims.toml:12")
    assert "prefork@pool_size=POINT" in problem.hint
