"""Pairs of extra trials that measure what counting the processor's events costs.

Each pair has a trial with the study's counters and one without. A hypervisor may trap each access to the
processor's counters; every switch of a counted process is then expensive. The trials are in
`with_counters.jsonl` and `without_counters.jsonl` in the run's directory, in the format of `trials.jsonl`.
Only ratios are reported from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from thunderherd.machine.counting_cost import cost_of_counting, measure_pair
from thunderherd.metrics.table import METRICS, PAYLOAD_RATE, SHARE_OF_CEILING
from thunderherd.records.directory import WITH_COUNTERS, WITHOUT_COUNTERS, RunDirectory
from thunderherd.records.extra_trials import ContenderCost, CostEstimate, CountingCost
from thunderherd.records.summary import TrialRecord
from thunderherd.run.extra_trials import ExtraTrials, MakeTrial, Turn
from thunderherd.run.progress import Progress
from thunderherd.study.loading import Contender, Study
from thunderherd.text.figures import count
from thunderherd.trial.counters import events_of_the_processor

CPU_TIMES = ("server_cpu_per_request", "client_cpu_per_request")
"""Metrics that are always compared: counting costs CPU time on both sides."""

FAILED_WITH, FAILED_WITHOUT = "was not measured with its counters", "was not measured without its counters"

NO_PAIR = "the run ended before it had a pair of trials"

FEW_SECONDS, SHARE_OF_RUN = 30.0, 0.1
"""Time limit: no further pair begins after this many seconds, or after this share of the time of all judged
trials if that is longer. The first pair of each contender always runs."""


def cost_run(study: Study, directory: RunDirectory, trial: MakeTrial, show: Progress) -> None:
    """Run the pairs that the study asks for and the run's directory lacks. Main thread only.

    Runs nothing if no judged trial counted events of the processor.
    """
    if not study.counting_cost.is_asked_for or not (events := events_counted(study, directory.read_trials())):
        return
    both = Pairs.of(study, directory)
    missing = both.missing()
    allowed = max(FEW_SECONDS, SHARE_OF_RUN * sum(each.wall_seconds for each in directory.trials))
    if not missing or (missing[0].number > 1 and both.seconds() > allowed):
        return
    names = count(len(study.counting_cost.contenders), "contender")
    show.say(
        f"counting cost of {_some(events)}: extra trials for {names}, at most "
        f"{count(study.counting_cost.trials, 'pair')} each, begun within {allowed:.0f} s"
    )
    for turn in missing:
        if turn.number > 1 and both.seconds() > allowed:
            return
        both.make(turn, trial, show)


def events_counted(study: Study, trials: Iterable[TrialRecord]) -> list[str]:
    """Return the events of the processor that valid trials counted, in the study's order."""
    found = {name for each in trials if each.valid for name in events_of_the_processor(each)}
    return [name for name in study.measure.counters_asked if name in found]


def _some(names: Sequence[str]) -> str:
    """Return `cpu_cycles of the processor`, or `cpu_cycles and 7 more events of the processor`."""
    more = f" and {count(len(names) - 1, 'more event')}" if len(names) > 1 else ""
    return f"{names[0]}{more} of the processor"


@dataclass(frozen=True)
class Pairs:
    """The pairs of a run: the trials with counters, and those without."""

    study: Study
    counted: ExtraTrials[TrialRecord]
    plain: ExtraTrials[TrialRecord]

    @classmethod
    def of(cls, study: Study, directory: RunDirectory) -> Pairs:
        """Return the pairs of a run, including the trials that are on disk."""
        table = study.counting_cost
        return cls(
            study,
            ExtraTrials.of(study, table, directory, WITH_COUNTERS, TrialRecord),
            ExtraTrials.of(study, table, directory, WITHOUT_COUNTERS, TrialRecord),
        )

    def missing(self) -> list[Turn]:
        """Return the pairs that lack a trial, in the order in which they run.

        All contenders have their first pair before any has its second.
        """
        found = {*self.counted.missing(), *self.plain.missing()}
        return sorted(found, key=lambda turn: (turn.number, turn.position))

    def seconds(self) -> float:
        """Return the time that the pairs have taken so far, in seconds."""
        return sum(each.wall_seconds for each in (*self.counted.done, *self.plain.done))

    def make(self, turn: Turn, trial: MakeTrial, show: Progress) -> None:
        """Make the missing trials of a pair."""

        def measure(with_counters: bool) -> None:
            trials = self.counted if with_counters else self.plain
            study = self.study if with_counters else without_counters(self.study)
            if turn not in trials.missing():
                return

            def made(contender: Contender, attempt: int) -> TrialRecord:
                return trial(study, contender, block=turn.number, position=turn.position, attempt=attempt)

            trials.make(turn, made, show, FAILED_WITH if with_counters else FAILED_WITHOUT)

        measure_pair(turn.number + turn.position, measure)

    def complete(self, name: str) -> Iterator[tuple[TrialRecord, TrialRecord]]:
        """Yield the pairs of a contender in which both trials are valid: with counters, without."""
        plain = {each.block: each for each in self.plain.done if each.valid and each.contender == name}
        for each in self.counted.done:
            if each.valid and each.contender == name and each.block in plain:
                yield each, plain[each.block]


def without_counters(study: Study) -> Study:
    """Return the study without its counters: it counts only what every trial counts."""
    measure = study.measure.model_copy(update={"counters": {}, "states": ()})
    return study.model_copy(update={"measure": measure})


def cost_so_far(study: Study, directory: RunDirectory) -> CountingCost | None:
    """Summarise the pairs of a run; None if there are none."""
    if not study.counting_cost.is_asked_for:
        return None
    pairs = Pairs.of(study, directory)
    costs = [_cost(study, pairs, name) for name in study.counting_cost.contenders]
    if not any(each.ratios for each in costs):
        return None
    return CountingCost(
        events=events_counted(study, pairs.counted.done),
        counters=study.measure.counters_asked,
        pairs=study.counting_cost.trials,
        contenders=costs,
    )


def _cost(study: Study, pairs: Pairs, name: str) -> ContenderCost:
    both = [*pairs.complete(name)]
    found = [ratio_of(metric, both, 1 - study.measure.alpha) for metric in metrics_of(study, name)]
    ratios = [each for each in found if each is not None]
    if ratios:
        return ContenderCost(contender=name, ratios=ratios)
    reasons = [
        reason
        for each in (*pairs.counted.done, *pairs.plain.done)
        if each.contender == name and not each.valid
        for reason in each.invalid_reasons
    ]
    why = "; ".join(dict.fromkeys(reasons)) or NO_PAIR
    return ContenderCost(contender=name, ratios=[], why=why)


def metrics_of(study: Study, name: str) -> list[str]:
    """Return the metrics to compare for a contender.

    These are the CPU times of both sides, and the metrics of its verdicts if a trial without counters has
    them.
    """
    contender = study.contender(name)
    judged = {contender.metric, *(each.metric for each in study.sweeps if contender.base in each.contenders)}
    if SHARE_OF_CEILING in judged:
        judged.add(PAYLOAD_RATE)
    return [*CPU_TIMES, *(each for each in METRICS if each in judged and each not in CPU_TIMES)]


def ratio_of(
    metric: str, both: Iterable[tuple[TrialRecord, TrialRecord]], confidence: float
) -> CostEstimate | None:
    """Estimate the ratio of a metric with counters to without; None if no pair has both values."""
    ratios = []
    for counted, plain in both:
        more, less = ((each.metrics or {}).get(metric) for each in (counted, plain))
        if more and less and more > 0 and less > 0:
            ratios.append(more / less)
    return cost_of_counting(metric, ratios, confidence)
