"""From trials to the summary, with synthetic costs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from made.summaries.trials import made_trial

from thunderherd.engine.lines import LoadResult, Snapshot, Window
from thunderherd.judge.summary import pair_summaries
from thunderherd.judge.summary.block_rejection import blocks_of, select
from thunderherd.judge.summary.pair_summaries import is_decided, metric_values
from thunderherd.judge.summary.summarise import UNFINISHED, summarise
from thunderherd.records.summary import ContenderSummary, Summary, TrialRecord
from thunderherd.study.loading import Look, Study
from thunderherd.trial.load_validity import CLIENT_LIMITED, LIMITED_SHARE
from thunderherd.trial.observation import left_out

COSTS = {"iterative": 20e-6, "fork_per_client": 100e-6, "prefork": 20.1e-6}


def wobble(block: int, name: str) -> float:
    """Return a factor near 1 that differs between blocks and contenders, always the same."""
    return 1 + 0.01 * ((block * 7 + len(name) * 3) % 5 - 2) / 2


def trials_of(
    study: Study, blocks: int, *, foreign: float = 0.0, but: frozenset[str] = frozenset()
) -> list[TrialRecord]:
    """Return all contenders in each block; in the second other processes use CPU time.

    Those in `but` are always invalid.
    """
    return [
        made_trial(
            study,
            name,
            block,
            cost=cost * wobble(block, name),
            foreign=foreign if block == 2 else 0.0,
            valid=name not in but,
            attempt=attempt,
        )
        for block in range(1, blocks + 1)
        for name, cost in COSTS.items()
        for attempt in ((1, 2) if name in but else (1,))
    ]


def summary_of(study: Study, trials: list[TrialRecord]) -> Summary:
    return summarise(study, trials, {"kernel": "Linux"}, seed=1, command=["thunderherd"], started="now")


def contender(summary: Summary, name: str) -> ContenderSummary:
    return next(each for each in summary.contenders if each.name == name)


def test_costs_and_differences_are_found(small_study: Study) -> None:
    found = summary_of(small_study, trials_of(small_study, 10))
    fork, base = contender(found, "fork_per_client"), contender(found, "iterative")
    assert fork.cpu_seconds is not None
    assert fork.cpu_seconds.value == pytest.approx(5000 * 100e-6, rel=0.02)
    assert fork.cpu_seconds.low is not None
    assert fork.cpu_seconds.low < fork.cpu_seconds.value < (fork.cpu_seconds.high or 0)
    assert fork.process_control_seconds is not None
    assert fork.process_control_seconds.value == pytest.approx(5000 * 80e-6, rel=0.02)
    assert base.process_control_seconds is not None
    assert (base.process_control_seconds.value, base.process_control_seconds.low) == (0.0, None)
    assert (fork.rank, base.rank) == (3, 1)
    assert fork.client_cpu_seconds is not None
    assert fork.client_cpu_seconds.value == pytest.approx(0.01 / 100 * 5000)
    assert fork.blocks == found.study.blocks == 10


def test_verdicts_and_letters_agree(small_study: Study) -> None:
    found = summary_of(small_study, trials_of(small_study, 10))
    verdicts = {(pair.a, pair.b): pair.verdict for pair in found.pairs}
    assert verdicts[("iterative", "fork_per_client")] == "faster"
    assert verdicts[("fork_per_client", "prefork")] == "slower"
    assert verdicts[("iterative", "prefork")] == "equivalent"
    assert contender(found, "iterative").letters == contender(found, "prefork").letters == "a"
    assert contender(found, "fork_per_client").letters == "b"
    assert found.study.complete
    assert [look.decided for look in found.study.looks] == [3]


def test_workers_are_averaged_by_place(small_study: Study) -> None:
    found = contender(summary_of(small_study, trials_of(small_study, 10)), "prefork")
    assert found.worker_connections == [33.0, 33.0, 33.0]
    assert found.clients_per_worker is not None
    assert found.clients_per_worker.standard_deviation == 0
    poolless = contender(summary_of(small_study, trials_of(small_study, 10)), "iterative")
    assert poolless.clients_per_worker is None


def test_workers_without_new_connections_have_no_spread(small_study: Study) -> None:
    """Persistent connections are all older than the window."""
    trials = [
        each.model_copy(update={"worker_connections": each.worker_connections and [0, 0, 0]})
        for each in trials_of(small_study, 10)
    ]
    found = contender(summary_of(small_study, trials), "prefork")
    assert (found.worker_connections, found.clients_per_worker) == (None, None)


def test_unfinished_run_decides_nothing(small_study: Study) -> None:
    for blocks in (0, 1, 4):
        found = summary_of(small_study, trials_of(small_study, blocks))
        assert {pair.verdict for pair in found.pairs} == {"undecided"}
        assert not found.study.complete
        assert UNFINISHED in found.study.notes
        assert [look.taken for look in found.study.looks] == [False]
        assert Summary.model_validate_json(found.model_dump_json(by_alias=True)) == found
        assert contender(found, "prefork").letters == ("" if blocks == 0 else "a")


def test_a_repeated_noisy_trial_has_no_figure(small_study: Study) -> None:
    study = small_study.model_copy(update={"noise": small_study.noise.model_copy(update={"foreign": "10%"})})
    quiet = trials_of(study, 10)
    again = [each for each in quiet if (each.block, each.contender) == (3, "prefork")]
    noisy = made_trial(study, "prefork", 3, cost=1.0, foreign=0.5)
    others = [each for each in quiet if each not in again]
    both = [*others, noisy, *(each.model_copy(update={"attempt": 2}) for each in again)]
    found, expected = (summarise(study, each, {}, seed=1) for each in (both, quiet))
    assert [each.metrics for each in found.contenders] == [each.metrics for each in expected.contenders]
    assert (found.trials.valid, found.trials.invalid, found.trials.rejected) == (30, 0, 1)
    assert found.trials.rejected_blocks == [] and found.trials.repeated == 1


def test_rejected_blocks_are_kept_in_the_other_analysis(small_study: Study) -> None:
    noise = small_study.noise.model_copy(update={"foreign": "10%"})
    study = small_study.model_copy(update={"noise": noise})
    found = summary_of(study, trials_of(study, 11, foreign=0.5))
    assert found.trials.rejected_blocks == [2]
    assert (found.trials.valid, found.trials.invalid, found.trials.rejected) == (30, 0, 3)
    assert {pair.blocks for pair in found.pairs} == {10}
    assert {pair.blocks for pair in found.pairs_all_blocks} == {11}


def test_kept_noisy_blocks_are_noted(small_study: Study) -> None:
    noise = small_study.noise.model_copy(update={"foreign": "10%", "reject_at_most": "0"})
    study = small_study.model_copy(update={"noise": noise})
    found = summary_of(study, trials_of(study, 10, foreign=0.5))
    assert found.trials.noisy_blocks_kept == [2]
    assert any(note.startswith("1 of 10 blocks ") for note in found.study.notes)


def test_given_up_contender_has_no_figures(small_study: Study) -> None:
    found = summary_of(small_study, trials_of(small_study, 10, but=frozenset({"prefork"})))
    lost = contender(found, "prefork")
    assert lost.cpu_seconds is None
    assert lost.process_control_seconds is None
    assert lost.rank is None
    assert lost.blocks == 0
    pairs = {(pair.a, pair.b): pair for pair in found.pairs}
    assert len(pairs) == found.study.family_size == 3
    assert pairs[("iterative", "prefork")].verdict == "undecided"
    assert pairs[("iterative", "prefork")].ratio is None
    assert pairs[("iterative", "fork_per_client")].verdict == "faster"
    assert found.trials.invalid == 20
    assert found.trials.invalid_reasons == {"prefork: load: errors: 2 refused": 20}
    (why,) = found.trials.given_up.values()
    assert any(note.startswith("prefork ") and note.endswith(why) for note in found.study.notes)


def test_run_without_ratios_is_undecided(small_study: Study) -> None:
    found = summary_of(small_study, trials_of(small_study, 10))
    without = [pair.model_copy(update={"ratio": None, "verdict": "undecided"}) for pair in found.pairs]
    assert is_decided(found.pairs)
    assert is_decided([found.pairs[0], *without[1:]]), "what cannot be compared is not waited for"
    assert not is_decided(without)


def test_look_without_enough_blocks_is_left_out_of_the_other_analysis(small_full_study: Study) -> None:
    """The look after 11 takes a noisy block that the look after 10 had left, since the 14th was spoilt."""
    noise = small_full_study.noise.model_copy(update={"foreign": "10%"})
    looks = (Look(blocks=10, alpha=0.01), Look(blocks=11, alpha=0.04))
    study = small_full_study.model_copy(update={"noise": noise, "looks": looks})
    trials = [
        made_trial(
            study, name, block, cost=cost * wobble(block, name), foreign=0.5 if block <= 4 else 0.0,
            valid=(block, name) != (14, "prefork"), attempt=attempt,
        )
        for block in range(1, 15)
        for name, cost in COSTS.items()
        for attempt in ((1, 2) if (block, name) == (14, "prefork") else (1,))
    ]  # fmt: skip
    assert [each.run for each in select(study, trials).reached] == [13, 13]
    found = summary_of(study, trials)
    assert {pair.blocks for pair in found.pairs} == {11}
    assert {pair.blocks for pair in found.pairs_all_blocks} == {13}
    assert {pair.decided_at for pair in found.pairs_all_blocks} <= {13, None}


def test_a_rate_is_better_when_it_is_higher(small_study: Study) -> None:
    judged = {"metric": "connections_per_second", "better": "more"}
    contenders = tuple(each.model_copy(update=judged) for each in small_study.contenders)
    measure = small_study.measure.model_copy(update=judged)
    family = tuple(each.model_copy(update=judged) for each in small_study.comparisons)
    study = small_study.model_copy(
        update={"measure": measure, "contenders": contenders, "comparisons": family}
    )
    trials = []
    for trial in trials_of(study, 10):
        assert trial.metrics is not None
        rate = 10_000 * wobble(trial.block, "abc") * (2 if trial.contender == "prefork" else 1)
        metrics = trial.metrics | {"connections_per_second": rate}
        trials.append(trial.model_copy(update={"metrics": metrics}))
    found = summary_of(study, trials)
    verdicts = {(pair.a, pair.b): pair.verdict for pair in found.pairs}
    assert verdicts[("iterative", "prefork")] == "slower"
    assert contender(found, "prefork").rank == 1


def test_controls_have_neither_rank_nor_letters(small_study: Study) -> None:
    control = small_study.contender("prefork").model_copy(update={"name": "control", "control_of": "prefork"})
    declared = small_study.comparisons[0].model_copy(update={"a": "prefork", "b": "control"})
    study = small_study.model_copy(
        update={
            "contenders": (*small_study.contenders, control),
            "comparisons": (*small_study.comparisons, declared),
        }
    )
    trials = [
        *trials_of(study, 10),
        *(made_trial(study, "control", block, cost=30e-6 * wobble(block, "x")) for block in range(1, 11)),
    ]
    found = summary_of(study, trials)
    assert contender(found, "control").rank is None
    assert contender(found, "control").letters == ""
    assert contender(found, "control").cpu_seconds is not None
    assert next(pair for pair in found.pairs if pair.b == "control").verdict == "faster"
    assert contender(found, "prefork").letters == "a"


def test_values_are_aligned_by_block(small_study: Study) -> None:
    trials = trials_of(small_study, 3)
    selection = select(small_study, trials)
    values = metric_values(small_study, selection.given_up, blocks_of(trials))
    assert values["server_cpu_per_connection"]["prefork"] == [
        pytest.approx(20.1e-6 * wobble(block, "prefork")) for block in (1, 2, 3)
    ]
    assert set(values["clients_per_worker_sd"]) == {"prefork"}  # the others have no pool


def read_late(trial: TrialRecord) -> TrialRecord:
    """Return the trial with its server read 50 ms after a window of 100 ms began."""
    window = Window(started_monotonic_ns=0, ended_monotonic_ns=100_000_000, requests=9, connections=9)
    seen = {
        "before": Snapshot.model_construct(monotonic_ns=50_000_000),
        "after": Snapshot.model_construct(monotonic_ns=100_000_000),
        "loads": [LoadResult.model_construct(window=window)],
    }
    late = trial.model_copy(update=seen)
    told = {name: None if left_out(name, late) else value for name, value in (trial.metrics or {}).items()}
    return late.model_copy(update={"metrics": told})


def judged_by_clients(study: Study) -> Study:
    """Return a study in which a trial whose server was read late counts."""
    metric = "connections_per_second"
    judged = {"metric": metric, "better": "more"}
    contenders = tuple(each.model_copy(update=judged) for each in study.contenders)
    return study.model_copy(
        update={"measure": study.measure.model_copy(update=judged), "contenders": contenders}
    )


def test_a_server_that_was_read_late_once_loses_the_figures_of_that_block_alone(small_study: Study) -> None:
    study, trials = judged_by_clients(small_study), trials_of(small_study, 10)
    late = [
        read_late(trial) if (trial.block, trial.contender) == (3, "prefork") else trial for trial in trials
    ]
    values = metric_values(study, select(study, late).given_up, blocks_of(late))
    costs = values["server_cpu_per_connection"]
    assert [block for block, cost in enumerate(costs["prefork"], start=1) if cost is None] == [3]
    assert None not in costs["iterative"]
    found = contender(summary_of(study, late), "prefork")
    assert (found.blocks, found.metrics["connections_per_second"].blocks) == (10, 10)
    assert found.metrics["server_cpu_per_connection"].blocks == 9
    # The difference to the baseline uses the blocks that have both.
    assert found.process_control_seconds is not None
    assert found.process_control_seconds.blocks == 9
    without = summary_of(study, [trial for trial in trials if trial.block != 3])
    expected = contender(without, "prefork")
    assert found.process_control_seconds == expected.process_control_seconds
    assert found.machine_cpu_seconds == expected.machine_cpu_seconds
    notes = summary_of(study, late).study.notes
    assert any(note.endswith(": prefork 1 of 10") for note in notes)


def test_a_server_that_was_read_late_each_time_has_no_figures(small_study: Study) -> None:
    study = judged_by_clients(small_study)
    late = [
        read_late(trial) if trial.contender == "prefork" else trial for trial in trials_of(small_study, 10)
    ]
    found = contender(summary_of(study, late), "prefork")
    assert "server_cpu_per_connection" not in found.metrics
    assert found.process_control_seconds is None
    assert found.metrics["connections_per_second"].blocks == 10


def test_metric_missing_in_some_trials_is_not_summarised(small_study: Study) -> None:
    """A percentile that some trials had too few requests for is not shown for the others."""
    trials = [
        trial.model_copy(
            update={
                "metrics": {**(trial.metrics or {}), "latency_p99_seconds": 1e-3 if trial.block > 1 else None}
            }
        )
        for trial in trials_of(small_study, 10)
    ]
    assert "latency_p99_seconds" not in contender(summary_of(small_study, trials), "prefork").metrics
    late = [read_late(trial) if trial.block == 1 else trial for trial in trials]
    found = contender(summary_of(judged_by_clients(small_study), late), "prefork")
    assert "latency_p99_seconds" not in found.metrics


def test_repeated_runs_that_were_read_late_are_not_in_the_mean(small_study: Study) -> None:
    study = judged_by_clients(small_study).model_copy(update={"repetitions": 3})
    trials = [read_late(trial) if trial.block == 2 else trial for trial in trials_of(small_study, 3)]
    found = contender(summary_of(study, trials), "prefork")
    costs = [20.1e-6 * wobble(block, "prefork") for block in (1, 3)]
    assert found.spread["server_cpu_per_connection"].mean == pytest.approx(sum(costs) / 2)
    assert [run["server_cpu_per_connection"] is None for run in found.runs] == [False, True, False]


def test_warnings_of_trials_become_notes(small_study: Study) -> None:
    trials = [trial.model_copy(update={"warnings": ["odd"]}) for trial in trials_of(small_study, 2)]
    assert "6 of 6 trials: odd" in summary_of(small_study, trials).study.notes


def test_further_metrics_are_one_family_with_the_first(small_study: Study) -> None:
    """Each pair is compared in every metric; only the first metric ranks."""
    measure = small_study.measure.model_copy(update={"further_metrics": ("connections_per_second",)})
    more = [
        each.model_copy(update={"metric": "connections_per_second", "better": "more"})
        for each in small_study.comparisons
    ]
    study = small_study.model_copy(
        update={"measure": measure, "comparisons": (*small_study.comparisons, *more)}
    )
    trials = []
    for trial in trials_of(study, 12):
        rate = 10_000 * wobble(trial.block, "abc") * (2 if trial.contender == "fork_per_client" else 1)
        metrics = (trial.metrics or {}) | {"connections_per_second": rate}
        trials.append(trial.model_copy(update={"metrics": metrics}))
    found, alone = summary_of(study, trials), summary_of(small_study, trials)
    assert found.study.family_size == 6 == len(found.family)
    costs = {(pair.a, pair.b): pair.verdict for pair in found.pairs}
    rates = {(pair.a, pair.b): pair.verdict for pair in found.further_pairs}
    assert costs["iterative", "fork_per_client"] == "faster"
    assert rates["iterative", "fork_per_client"] == "slower"
    assert {pair.metric for pair in found.further_pairs} == {"connections_per_second"}
    assert [each.rank for each in found.contenders] == [each.rank for each in alone.contenders]
    for pair, single in zip(found.pairs, alone.pairs, strict=True):
        assert (pair.ratio, pair.p) == (single.ratio, single.p)
        assert (pair.p_adjusted or 0) >= (single.p_adjusted or 0), "the family is larger"


def test_rates_that_the_clients_limited_are_lower_bounds_and_not_compared(
    small_study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients of one contender have no idle time in two of ten trials."""
    limited = {("prefork", 3), ("prefork", 7)}

    def was_limited(trials: Sequence[TrialRecord]) -> bool:
        share = [(trial.contender, trial.block) in limited for trial in trials]
        return sum(share) > LIMITED_SHARE * len(share)

    monkeypatch.setattr(pair_summaries, "are_client_limited", was_limited)
    judged = {"metric": "connections_per_second", "better": "more"}
    family = tuple(each.model_copy(update=judged) for each in small_study.comparisons)
    measure = small_study.measure.model_copy(update=judged)
    study = small_study.model_copy(update={"comparisons": family, "measure": measure})
    found = summary_of(study, trials_of(study, 10))
    prefork, iterative = contender(found, "prefork"), contender(found, "iterative")
    assert prefork.at_least["connections_per_second"].value == pytest.approx(400)
    assert "connections_per_second" not in prefork.metrics and prefork.rank is None
    assert prefork.unknown["connections_per_second"] == CLIENT_LIMITED
    assert "elapsed_seconds" not in prefork.metrics and "elapsed_seconds" not in prefork.at_least
    assert prefork.metrics["server_cpu_per_connection"].value == pytest.approx(20.1e-6, rel=0.02)
    assert not iterative.at_least and iterative.metrics["connections_per_second"].value == 400
    ratios = {(pair.a, pair.b): pair.ratio for pair in found.pairs}
    assert ratios["iterative", "prefork"] is None and ratios["iterative", "fork_per_client"] == 1.0
