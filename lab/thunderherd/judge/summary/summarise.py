"""From the trials on disk to the summary: blocks that count, costs of contenders, verdicts.

Nothing is measured and nothing is remembered here. The same trials give the same summary, whether the run
ended, was interrupted or was resumed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from statistics import median, pstdev
from typing import Any

from thunderherd.judge.claims.answers import answers
from thunderherd.judge.claims.claims import judge
from thunderherd.judge.claims.paper_counters import counted
from thunderherd.judge.claims.slopes import slopes
from thunderherd.judge.summary.block_rejection import Block, Selection, blocks_of, last_attempts, most_blocks
from thunderherd.judge.summary.bounds import best_of_bounds, without_bounds
from thunderherd.judge.summary.ceilings import with_ceilings
from thunderherd.judge.summary.crossover import crossover
from thunderherd.judge.summary.noise import noise_of_hosts, noise_summary
from thunderherd.judge.summary.open_claims import is_decided, selected
from thunderherd.judge.summary.pair_summaries import (
    MetricValues,
    by_rank,
    columns_of,
    family,
    metric_values,
    paced_columns,
    ranking,
    verdicts,
    verdicts_of_all_blocks,
)
from thunderherd.labs import has_tcp
from thunderherd.metrics.cpu_sources import cpu_sources_below
from thunderherd.metrics.table import better_of, in_order, metric_names
from thunderherd.metrics.table import metric as metric_named
from thunderherd.records.limits import MachineLimits
from thunderherd.records.summary import (
    ClientsPerWorker,
    ContenderSummary,
    Estimate,
    LookTaken,
    PairSummary,
    Spread,
    StudySummary,
    Summary,
    SweepSummary,
    TrialCounts,
    TrialForm,
    TrialRecord,
)
from thunderherd.statistics.columns import Column, known, together
from thunderherd.statistics.comparisons import Look
from thunderherd.statistics.samples import hodges_lehmann
from thunderherd.study.loading import Contender, Study, Sweep, asked_for
from thunderherd.text.figures import count
from thunderherd.trial.busy_polling import not_of_load
from thunderherd.trial.caveats import (
    client_notes,
    closing_notes,
    conform_notes,
    copied_after_all,
    latency_notes,
    not_reported,
    not_told,
    own_server_notes,
    root_notes,
    scaled_metrics,
    scaled_notes,
    unavailable_counters,
    unknown_cpu,
    unknown_shares,
)
from thunderherd.trial.counters import TOO_FEW
from thunderherd.trial.load_validity import CLIENT_LIMITED
from thunderherd.trial.observation import connections_of, read_late

TIME_WAS_UP = "the time budget of the blocks, {:g} s, was used up: the last look was taken after {}"
UNFINISHED = "the run did not finish: verdicts are those of the looks taken so far"


def summarise(
    study: Study,
    trials: Sequence[TrialRecord],
    machine: Mapping[str, Any],
    *,
    seed: int,
    command: Sequence[str] = (),
    started: str = "",
    notes: Sequence[str] = (),
    limits: MachineLimits | None = None,
    limits_of_hosts: Mapping[str, MachineLimits] | None = None,
) -> Summary:
    """Return every figure of a run, from the files on disk so far."""
    selection = selected(study, trials)
    blocks = {block.number: with_ceilings(study, block) for block in blocks_of(trials)}
    accepted = [blocks[number] for number in selection.counted()]
    values = metric_values(study, selection.given_up, accepted, selection.settled)
    judged = verdicts(study, selection, blocks)
    # The looks that were taken: if the time was up, the last one came early.
    study = study.model_copy(update={"looks": selection.looks})
    pairs, further = by_rank(study, judged)
    ranks, shared = ranking(study, pairs, values)
    complete = bool(selection.reached) and (
        selection.next_look is None or is_decided(study, selection, judged)
    )
    unavailable = unavailable_counters(study, trials)
    scaled = {each.name: scaled_metrics(study, _valid(each, accepted)) for each in study.contenders}
    contenders = [
        _contender(
            study, contender, accepted, values, ranks.get(contender.name), shared.get(contender.name, "")
        ).model_copy(update={"scaled": scaled[contender.name]})
        for contender in study.contenders
    ]
    usable = machine.get("cpu", {}).get("usable") or [0]
    return Summary(
        study=_study_summary(
            study,
            trials,
            selection,
            blocks,
            complete,
            seed,
            command,
            started,
            [
                *notes,
                *root_notes(study, machine),
                *conform_notes(study, machine),
                *copied_after_all(study, values),
            ],
            copied_after_all(study, values, {each.name for each in study.contenders if each.sweep is None}),
        ),
        machine=dict(machine),
        limits=limits,
        limits_of_hosts=dict(limits_of_hosts or {}),
        bounds=best_of_bounds(study, contenders, limits, usable),
        without_bounds=without_bounds(study, contenders, limits, usable),
        contenders=contenders,
        unavailable=not_told(study, unavailable),
        sweeps=[_sweep(study, sweep, values, pairs, unavailable) for sweep in study.sweeps],
        paper=list(study.paper),
        pairs=pairs,
        pairs_all_blocks=verdicts_of_all_blocks(study, selection, blocks),
        further_pairs=further,
        claims=judge(study, values, unavailable=unavailable, scaled=scaled),
        questions=[]
        if study.decides == "claims"
        else answers(study, values, unavailable=unavailable, scaled=scaled),
        counted=counted(study, contenders, unavailable),
        trials=_counts(trials, selection),
    )


# Contenders


def _contender(
    study: Study,
    contender: Contender,
    blocks: Sequence[Block],
    values: MetricValues,
    rank: int | None,
    shared: str,
) -> ContenderSummary:
    name, shown, confidence = contender.name, study.measure.normalise_connections, 1 - study.measure.alpha
    columns = {metric: of_all[name] for metric, of_all in values.items() if name in of_all}
    intervals = {
        metric: found
        for metric in in_order(values)
        if (found := _interval(columns.get(metric, []), confidence)) is not None
    }
    trials, runs = _valid(contender, blocks), _runs(study, contender, blocks)
    limited = paced_columns(trials)
    spread, workers = _workers(contender, blocks)
    return ContenderSummary(
        **_described(study, contender),
        connections=connections_of(trials[-1]) if trials else {},
        blocks=len(trials) if columns else 0,
        metrics=intervals,
        unknown=unknown_shares(contender, values)
        | not_reported(contender, trials)
        | not_of_load(trials, study.measure.states)
        | unknown_cpu(trials)
        | dict.fromkeys(limited, CLIENT_LIMITED),
        at_least={
            name: found
            for name, column in limited.items()
            if better_of(name) == "more" and (found := _interval(column, confidence)) is not None
        },
        runs=[trial.metrics or {} for trial in runs],
        spread=_spread(runs) if study.repetitions is not None else {},
        cpu_seconds=_interval(
            [cost * shown for cost in known(columns.get("server_cpu_per_connection", []))], confidence
        ),
        process_control_seconds=_process_control(
            study, name, values.get("server_cpu_per_connection", {}), confidence
        ),
        clients_per_worker=spread,
        worker_connections=workers,
        rank=rank,
        letters=shared,
        voluntary_switches_per_connection=intervals.get("voluntary_switches_per_connection"),
        connections_per_second=intervals.get("connections_per_second"),
        client_cpu_seconds=_interval(_normalised(columns, "client_cpu_seconds", shown), confidence),
        machine_cpu_seconds=_interval(_normalised(columns, "machine_cpu_seconds", shown), confidence),
        noise=noise_summary(trials, over_tcp=has_tcp(contender.lab.kind)),
        noise_of_hosts=noise_of_hosts(trials, over_tcp=has_tcp(contender.lab.kind)),
    )


def _described(study: Study, contender: Contender) -> dict[str, Any]:
    """Return the fields of a contender's summary that do not depend on trials."""
    same = ("name", "label", "base", "sweep", "point", "row", "control_of", "design", "primitive", "receive")
    return {
        **{field: getattr(contender, field) for field in (*same, "workload", "trial", "scale", "metric")},
        "settings": dict(contender.settings),
        "load": None if contender.load == study.load else contender.load.model_dump(mode="json"),
        "lab": None if contender.lab == study.lab else contender.lab.model_dump(mode="json"),
    }


def _interval(column: Column, confidence: float) -> Estimate | None:
    """Return the Hodges-Lehmann estimate of a column, with its interval; None if it has no value."""
    if not (there := known(column)):
        return None
    found = hodges_lehmann(there, confidence)
    return Estimate(
        value=found.value, low=found.low, high=found.high, confidence=found.confidence, blocks=found.n
    )


def _normalised(columns: Mapping[str, Column], metric: str, shown: int) -> Column:
    """Return each trial's seconds, scaled to the number of connections that figures are shown for."""
    seconds, connections = columns.get(metric), columns.get("connections")
    if seconds is None or connections is None:
        return []
    return [
        value / count * shown
        for value, count in zip(seconds, connections, strict=True)
        if value is not None and count
    ]


def _process_control(
    study: Study, name: str, costs: Mapping[str, Column], confidence: float
) -> Estimate | None:
    """Return a contender's CPU time minus the baseline's of the same block; None if either is unknown."""
    shown, baseline = study.measure.normalise_connections, study.measure.baseline
    if baseline is None or name not in costs or baseline not in costs:
        return None
    if name == baseline:
        return Estimate(value=0.0, low=None, high=None)
    paired = together({each: costs[each] for each in (name, baseline)})
    return _interval(
        [(own - base) * shown for own, base in zip(paired[name], paired[baseline], strict=True)], confidence
    )


def _valid(contender: Contender, blocks: Sequence[Block]) -> list[TrialRecord]:
    """Return the valid trials of a contender."""
    return [block.trials[contender.name] for block in blocks if block.succeeded(contender.name)]


def _runs(study: Study, contender: Contender, blocks: Sequence[Block]) -> list[TrialRecord]:
    """Return every run of a study with repetitions; else as many as it shows with its verdicts."""
    if study.repetitions is None:
        blocks = blocks[: study.measure.single_runs]
    return [trial for trial in _valid(contender, blocks) if trial.metrics is not None]


def _spread(runs: Sequence[TrialRecord]) -> dict[str, Spread]:
    """Return mean and spread of each metric over the runs.

    A metric needs a value in every run, except in a run whose server was read late.
    """
    return {name: Spread.of(known(column)) for name, column in columns_of(runs).items()}


def _workers(
    contender: Contender, blocks: Sequence[Block]
) -> tuple[ClientsPerWorker | None, list[float] | None]:
    """Return the spread over workers, and the connections of each place in order, as means over trials.

    The busiest worker changes from trial to trial. A mean by worker would show an evenness that does not
    exist. If connections are persistent, a window may have no new ones to spread.
    """
    counted = [trial.worker_connections for trial in _valid(contender, blocks)]
    counts = [sorted(each, reverse=True) for each in counted if each and any(each)]
    if not counts:
        return None, None
    places = min(len(each) for each in counts)
    spread = ClientsPerWorker(
        minimum=_mean([each[-1] for each in counts]),
        mean=_mean([sum(each) / len(each) for each in counts]),
        maximum=_mean([each[0] for each in counts]),
        standard_deviation=_mean([pstdev(each) for each in counts]),
    )
    return spread, [_mean([each[place] for each in counts]) for place in range(places)]


def _mean(column: Sequence[float]) -> float:
    return sum(column) / len(column)


def _sweep(
    study: Study,
    sweep: Sweep,
    values: MetricValues,
    pairs: Sequence[PairSummary],
    unavailable: Mapping[str, str],
) -> SweepSummary:
    own = {each.name for each in study.contenders if each.sweep == sweep.name}
    missing = {name: why for name in sweep.metrics if (why := unavailable.get(name))}
    known = metric_names(study.measure.asked)
    return SweepSummary(
        **sweep.model_dump(exclude={"key", "remarks", "crossover", "slope_metrics"}),
        key=sweep.key if isinstance(sweep.key, str) else None,
        unavailable=missing,
        substitutes={
            name: other for name in missing if (other := _substitute(name, known, unavailable)) is not None
        },
        remarks=[*sweep.remarks, *copied_after_all(study, values, own)],
        unit=metric_named(sweep.metric).unit,
        slopes=slopes(study, sweep, values, unavailable),
        crossover=crossover(study, sweep, values, pairs, unavailable),
    )


def _substitute(name: str, known: Collection[str], unavailable: Mapping[str, str]) -> str | None:
    """The next lower CPU source that is available, shown in place of an unavailable metric."""
    return next((each for each in cpu_sources_below(name) if each in known and each not in unavailable), None)


# The run as a whole


def _study_summary(
    study: Study,
    trials: Sequence[TrialRecord],
    selection: Selection,
    blocks: Mapping[int, Block],
    complete: bool,
    seed: int,
    command: Sequence[str],
    started: str,
    notes: Sequence[str],
    remarks: Sequence[str],
) -> StudySummary:
    measure = study.measure
    pairs_by_look = [
        [
            pair
            for pair in family(
                study,
                selection,
                [blocks[number] for number in selection.accepted[: reached.look.blocks]],
                [Look(look.blocks, look.alpha) for look in selection.looks],
            )
            if pair.verdict != "undecided"
        ]
        for reached in selection.reached
    ]
    return StudySummary(
        name=study.name,
        title=study.title,
        question=study.question,
        source=study.source,
        asked_for=asked_for(study),
        size=study.size,
        seed=seed,
        digest=study.digest,
        metric=measure.metric,
        better=measure.better,
        further_metrics=list(measure.further_metrics),
        repetitions=study.repetitions,
        baseline=measure.baseline,
        normalise_connections=measure.normalise_connections,
        counters=measure.counters,
        states=list(measure.states),
        connections_per_trial=study.load.connections_per_trial,
        blocks=len(selection.counted()),
        alpha=measure.alpha,
        equivalence_percent=measure.equivalence_percent,
        family_size=len(study.comparisons),
        looks=[
            LookTaken(
                blocks=look.blocks,
                alpha=look.alpha,
                taken=place < len(pairs_by_look),
                decided=len(pairs_by_look[place]) if place < len(pairs_by_look) else None,
            )
            for place, look in enumerate(selection.looks)
        ],
        complete=complete,
        cpu_scope=_cpu_scope(trials),
        cpu_sources={
            trial.ready.cpu_source: trial.ready.cpu_source_reason
            for trial in trials
            if trial.ready is not None and trial.trial == "window"
        },
        settings={
            "load": study.load.model_dump(mode="json"),
            "lab": study.lab.model_dump(mode="json"),
            "noise": study.noise.model_dump(mode="json"),
        },
        units=study.units,
        overrides=list(study.overrides),
        command=list(command),
        notes=[*study.notes, *notes, *_notes(study, trials, selection, complete)],
        remarks=list(remarks),
        started=started,
        finished=datetime.now().astimezone().isoformat(timespec="seconds"),
    )


def _cpu_scope(trials: Sequence[TrialRecord]) -> TrialForm | None:
    """Return what the CPU figures of trials with a window cover."""
    scopes = {trial.cpu_scope for trial in trials if trial.cpu_scope and trial.trial == "window"}
    return "whole_life" if "whole_life" in scopes else "window" if scopes else None


def _notes(study: Study, trials: Sequence[TrialRecord], selection: Selection, complete: bool) -> list[str]:
    """Return the notes that belong with every figure."""
    notes = [*own_server_notes(study, trials), *client_notes(study), *latency_notes(study, trials)]
    warnings = (warning for trial in trials for warning in trial.warnings)
    warned = Counter(each for each in warnings if not each.startswith(TOO_FEW))
    notes += [f"{times} of {len(trials)} trials: {warning}" for warning, times in warned.items()]
    notes += scaled_notes(trials)
    notes += closing_notes(study, trials)
    notes += _left_out(study, trials, selection)
    if not complete and selection.exhausted and selection.next_look is not None:
        allowed = most_blocks(selection.next_look, study.noise.reject_at_most_percent)
        notes.append(
            f"no look after {selection.next_look.blocks} blocks: of the {allowed} blocks that it may use, "
            f"{len(selection.incomplete)} have invalid trials"
        )
    elif not complete:
        notes.append(UNFINISHED)
    if selection.time_was_up:
        notes.append(TIME_WAS_UP.format(study.budget_seconds, count(len(selection.accepted), "block")))
    if selection.noisy_kept:
        notes.append(
            f"{len(selection.noisy_kept)} of {len(selection.counted())} blocks count although noisier than "
            "the study allows: no more may be rejected, and these are the least noisy"
        )
    notes += [f"{name} was given up: {why}" for name, why in selection.given_up.items()]
    return notes


def _left_out(study: Study, trials: Sequence[TrialRecord], selection: Selection) -> list[str]:
    """Return how many trials of each contender have no server figures, because the server was read late.

    The points of a sweep are counted together.
    """
    counted = set(selection.counted())
    bases = {contender.name: contender.base for contender in study.contenders}
    every, late = Counter[str](), Counter[str]()
    for trial in last_attempts(trials):
        if trial.valid and trial.block in counted:
            every[bases[trial.contender]] += 1
            late[bases[trial.contender]] += bool(read_late(trial))
    counts = ", ".join(f"{name} {times} of {every[name]}" for name, times in late.items() if times)
    return [f"trials without server figures, because the server was read late: {counts}"] if counts else []


def _counts(trials: Sequence[TrialRecord], selection: Selection) -> TrialCounts:
    reasons = Counter(
        f"{trial.contender}: {reason}"
        for trial in trials
        for reason in trial.invalid_reasons
        if not trial.valid
    )
    valid = [trial for trial in trials if trial.valid]
    last = [each for each in last_attempts(trials) if each.valid]
    kept = sum(each.block not in selection.rejected for each in last)
    foreign = [trial.noise.foreign_share for trial in trials if trial.noise is not None]
    return TrialCounts(
        foreign_share=median(foreign) if foreign else None,
        valid=kept,
        invalid=len(trials) - len(valid),
        rejected=len(valid) - kept,
        repeated=len(valid) - len(last),
        invalid_reasons=dict(reasons),
        accepted_blocks=list(selection.accepted),
        rejected_blocks=list(selection.rejected),
        noisy_blocks_kept=list(selection.noisy_kept),
        incomplete_blocks=list(selection.incomplete),
        given_up=selection.given_up,
    )
