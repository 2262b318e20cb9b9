"""The pairs of contenders that a run explains, and the data that this needs, from the files on disk."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from thunderherd.errors import Problem, UserError
from thunderherd.judge.summary.block_rejection import blocks_of
from thunderherd.judge.why.causes import explain
from thunderherd.labs import has_tcp
from thunderherd.metrics.table import PAYLOAD_RATE, PER_BYTE, SHARE_OF_CEILING, Side, SideOrBoth
from thunderherd.metrics.table import metric as metric_named
from thunderherd.records.explanation import Difference, Explanation, Per, Range
from thunderherd.records.extra_trials import ContenderCounts, Share
from thunderherd.records.limits import MachineLimits
from thunderherd.records.summary import ContenderSummary, Summary, SweepSummary, TrialMetrics, TrialRecord
from thunderherd.toml.file import unknown

__all__ = [
    "best_against_others",
    "command_to_run_again",
    "difference",
    "explained",
    "is_first",
    "pairs_of",
    "place_of",
    "usual_per",
    "with_counted_points",
]

HERE = "explain"
"""The place of refusals: the command."""

EXPLAINED_SIDES: tuple[SideOrBoth, ...] = ("server", "both")
"""The sides that are explained by default: one alone may only show who was charged."""


def best_against_others(summary: Summary, trials: Sequence[TrialRecord]) -> list[Explanation]:
    """Return the explanations of each table's best contender against each other one, where possible."""
    if summary.counting is None or summary.limits is None:
        return []
    found = []
    for a, b in pairs_of(summary):
        for side in EXPLAINED_SIDES:
            per = usual_per(summary, a)
            between = difference(summary, trials, a, b, side=side, per=per)
            counts = [_counts(summary, name) for name in (a, b)]
            if between is not None and counts[0] and counts[1]:
                tcp = _have_tcp(summary, a, b)
                explanation = explain(
                    counts[0], counts[1], summary.limits, between, side=side, per=per, has_tcp=tcp
                )
                found.append(_with_remarks(explanation, summary, trials))
    return found


def _with_remarks(explanation: Explanation, summary: Summary, trials: Sequence[TrialRecord]) -> Explanation:
    """Add the remarks on its figures, and what profiles show about its rest."""
    has_price = any(each.cause == "connections" and each.amount is not None for each in explanation.causes)
    network = None if has_price else network_part(summary, trials, explanation)
    return explanation.model_copy(
        update={"remarks": _remarks(summary, explanation.a, explanation.b), "network": network}
    )


def _remarks(summary: Summary, a: str, b: str) -> list[str]:
    """Return the remarks on two contenders: of the main table, and of the sweeps they are in."""
    sweeps = {each.sweep for each in summary.contenders if each.name in (a, b)}
    texts = [*(summary.study.remarks if None in sweeps else [])]
    texts += [text for sweep in summary.sweeps if sweep.name in sweeps for text in sweep.remarks]
    return [*dict.fromkeys(texts)]


def explained(
    summary: Summary,
    trials: Sequence[TrialRecord],
    a: str,
    b: str,
    *,
    side: SideOrBoth,
    per: Per | None = None,
    where: str = "DIR",
) -> Explanation:
    """Explain why a needs more CPU time than b, or less.

    Raises `UserError`, with what to type, if that is impossible; `where` is the run's directory.
    """
    names = [each.name for each in summary.contenders]
    for name in (a, b):
        if name not in names:
            raise UserError(unknown("contender", name, names, "explain").at(HERE))
    if a == b:
        raise UserError(
            f"{a} is given twice",
            code="explain.same_contender",
            hint=f"give two contenders, such as {_another(a, names)}",
            where=HERE,
        )
    per = per or usual_per(summary, a)
    limits = limits_of(summary, where)
    counts = {name: counts_of(summary, name, where, (a, b)) for name in (a, b)}
    between = difference(summary, trials, a, b, side=side, per=per)
    if between is None:
        raise UserError(why_no_difference(summary, a, b, per))
    explanation = explain(
        counts[a], counts[b], limits, between, side=side, per=per, has_tcp=_have_tcp(summary, a, b)
    )
    return _with_remarks(explanation, summary, trials)


def _have_tcp(summary: Summary, *names: str) -> bool:
    """Return whether all of them use TCP connections."""
    usual = summary.study.settings.get("lab") or {}
    labs = [each.lab or usual for each in summary.contenders if each.name in names]
    return all(has_tcp(lab.get("kind")) for lab in labs)


def _another(name: str, names: Sequence[str]) -> str:
    return next((f"{name} {each}" for each in names if each != name), "A B")


def limits_of(summary: Summary, where: str) -> MachineLimits:
    """Return the machine's limits, which are the prices; `UserError` if the run has none."""
    if summary.limits is None:
        raise UserError(
            f"{where} has no machine limits, which are the prices",
            code="explain.no_limits",
            hint=f"run again: {command_to_run_again(summary)}",
            where=HERE,
        )
    return summary.limits


def counts_of(summary: Summary, name: str, where: str, pair: Sequence[str] = ()) -> ContenderCounts:
    """Return the counts of a contender; without any, raise `UserError` with a command that makes them."""
    found = _counts(summary, name)
    if found is not None:
        return found
    if summary.counting is None:
        raise UserError(
            f"{where} has no counted trials, which say what happens per request",
            code="explain.no_counted_trials",
            hint="run again: " + command_to_run_again(summary, pair if _are_of_sweeps(summary, pair) else ()),
            where=HERE,
        )
    counted = summary.counting.of(name)
    if counted is not None:
        raise UserError(
            f"{name} has no valid counted trial: {counted.why}",
            code="explain.no_valid_counted_trial",
            where=HERE,
        )
    raise UserError(
        f"{name} was not counted ({_those_counted(summary, name)})",
        code="explain.not_counted",
        hint=f"count it in a separate run: {command_to_run_again(summary, pair or [name])}; or name it in "
        "`contenders` of the study's [counting]",
        where=HERE,
    )


def _are_of_sweeps(summary: Summary, names: Sequence[str]) -> bool:
    """Return whether one of them is at a point of a sweep, which may only be counted if it is named."""
    return any(each.sweep is not None for each in summary.contenders if each.name in names)


def _those_counted(summary: Summary, name: str) -> str:
    """Return which ones were counted instead: points of its sweep, else contenders of the main table."""
    own = next(each for each in summary.contenders if each.name == name)
    if own.sweep is not None:
        points = counted_points(summary, own.sweep)
        return f"of sweep {own.sweep}, points counted: {', '.join(points) or 'none'}"
    main = [each.name for each in summary.contenders if each.sweep is None]
    return f"counted were: {', '.join(each for each in main if _counts(summary, each)) or 'none'}"


def _counts(summary: Summary, name: str) -> ContenderCounts | None:
    """Return the counts of a contender; None if it has no counted trial."""
    found = summary.counting.of(name) if summary.counting else None
    return found if found is not None and found.trials else None


def command_to_run_again(summary: Summary, names: Sequence[str] = ()) -> str:
    """Return, in backquotes, the command that records all that an explanation needs.

    Contenders are named only if `names` are given.
    """
    study = summary.study
    missing = [
        *([] if summary.limits else ["measure.limits=3s"]),
        *([] if summary.counting else ["counting.trials=1"]),
        *([f"counting.contenders={json.dumps(list(names), ensure_ascii=False)}"] if names else []),
    ]
    keys = {each.partition("=")[0] for each in missing}
    given = [each for each in study.overrides if each.partition("=")[0].strip() not in keys]
    words = ["thunderherd", "run", study.asked_for or study.name, "--size", study.size]
    return f"`{shlex.join([*words, *(word for each in [*given, *missing] for word in ('--set', each))])}`"


# Points of sweeps -------------------------------------------------------------------------------------------


def with_counted_points(summary: Summary) -> Summary:
    """Return the summary with the points of its sweeps at which a difference can be explained."""

    def with_points(sweep: SweepSummary) -> SweepSummary:
        counted = counted_points(summary, sweep.name)
        others = [each.name for each in sweep.points if each.name not in counted]
        has_pairs = len(sweep.contenders) > 1
        points = {"counted_points": counted, "uncounted_points": others if has_pairs else []}
        return sweep.model_copy(update=points)

    return summary.model_copy(update={"sweeps": [with_points(each) for each in summary.sweeps]})


def counted_points(summary: Summary, sweep: str) -> list[str]:
    """Return the points of a sweep at which at least two contenders were counted."""
    at = [
        each.point
        for each in summary.contenders
        if each.sweep == sweep and each.point is not None and _counts(summary, each.name) is not None
    ]
    return [point for point in dict.fromkeys(at) if at.count(point) > 1]


# Pairs ------------------------------------------------------------------------------------------------------


def pairs_of(summary: Summary) -> list[tuple[str, str]]:
    """Return the best counted contender with each other one, for the main table and each point of a sweep."""
    groups: dict[tuple[str | None, str | None], list[ContenderSummary]] = {}
    for each in summary.contenders:
        if _counts(summary, each.name) is not None:
            groups.setdefault((each.sweep, each.point), []).append(each)
    pairs = []
    for group in groups.values():
        best, *others = sorted(group, key=place_of)
        pairs += [(best.name, other.name) for other in others]
    return pairs


def is_first(summary: Summary, name: str) -> bool:
    """Return whether a contender's differences come first in a report.

    These are the ones of the main table; without one, those at the last point of each sweep.
    """
    own = next(each for each in summary.contenders if each.name == name)
    if own.sweep is None or any(each.sweep is None for each in summary.contenders):
        return own.sweep is None
    points = counted_points(summary, own.sweep)
    return bool(points) and own.point == points[-1]


def place_of(contender: ContenderSummary) -> tuple[int, float]:
    """Return the sorting key of a contender: by rank, else by the metric that its verdicts rest on.

    Contenders without a rank, such as controls, come last.
    """
    if contender.rank is not None:
        return 0, contender.rank
    found = contender.metrics.get(contender.metric)
    if found is None:
        return 2, 0.0
    return 1, -found.value if metric_named(contender.metric).better == "more" else found.value


def usual_per(summary: Summary, name: str) -> Per:
    """Return what is explained by default: a byte if the contender is compared by bytes, else a request."""
    metric = next((each.metric for each in summary.contenders if each.name == name), summary.study.metric)
    return "byte" if metric in (PAYLOAD_RATE, SHARE_OF_CEILING) or metric.endswith(PER_BYTE) else "request"


# The difference ---------------------------------------------------------------------------------------------


def difference(
    summary: Summary,
    trials: Iterable[TrialRecord],
    a: str,
    b: str,
    *,
    side: SideOrBoth,
    per: Per,
) -> Difference | None:
    """Return how much more a needs than b, paired by the blocks that count; None if no block has both."""
    paired = []
    for metrics_a, metrics_b in _paired(summary, trials, a, b):
        of_a, of_b = seconds(metrics_a, side, per), seconds(metrics_b, side, per)
        if of_a is not None and of_b is not None:
            paired.append((of_a, of_b))
    if not paired:
        return None
    # Imported on use: showing a summary should not need numpy.
    from thunderherd.statistics.samples import hodges_lehmann

    confidence = 1 - summary.study.alpha
    found = hodges_lehmann([of_a - of_b for of_a, of_b in paired], confidence)
    alone = [hodges_lehmann(column, confidence).value for column in zip(*paired, strict=True)]
    return Difference(
        a=alone[0],
        b=alone[1],
        value=found.value,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        blocks=found.n,
    )


def _paired(
    summary: Summary, trials: Iterable[TrialRecord], a: str, b: str
) -> Iterator[tuple[TrialMetrics, TrialMetrics]]:
    """Yield the metrics of both, for each block that counts and has them."""
    blocks = {block.number: block for block in blocks_of(trials)}
    for number in summary.trials.accepted_blocks[: summary.study.blocks]:
        block = blocks.get(number)
        if block is not None and block.succeeded(a) and block.succeeded(b):
            yield block.trials[a].metrics or {}, block.trials[b].metrics or {}


SERVER_CPU = "server_cpu_per_request"

CPU_TIMES: Mapping[tuple[SideOrBoth, Per], tuple[str, ...]] = {
    ("server", "request"): (SERVER_CPU,),
    ("client", "request"): ("client_cpu_per_request",),
    ("both", "request"): (SERVER_CPU, "client_cpu_per_request"),
    ("server", "byte"): ("server_cpu_per_byte",),
    ("client", "byte"): ("client_cpu_per_byte",),
    ("both", "byte"): ("cpu_per_byte",),
}
"""The metrics that add up to each CPU time; per connection, they are those of its requests."""


def seconds(metrics: TrialMetrics, side: SideOrBoth, per: Per) -> float | None:
    """Return a trial's CPU time of what is explained; None if it does not report it."""
    parts = [metrics.get(name) for name in CPU_TIMES[side, "request" if per == "connection" else per]]
    known = [float(each) for each in parts if each is not None]
    if len(known) < len(parts):
        return None
    if per != "connection":
        return sum(known)
    requests, connections = metrics.get("requests"), metrics.get("connections")
    return sum(known) * requests / connections if requests and connections else None


LEAST_COVERED = 0.8
"""The least sampled share of a side's CPU time from which its shares are used.

If processes and threads are sampled one by one, smaller shares are only those of long-lived ones.
"""


def network_part(summary: Summary, trials: Iterable[TrialRecord], explanation: Explanation) -> Range | None:
    """Return what the kernel's network code adds to one contender against another, paired by blocks.

    It is the share of the samples times the CPU time of the judged trials; None if profiles lack it for
    either. Its bounds combine those of the shares and of the CPU time in quadrature, since they come from
    separate trials.
    """
    sides: tuple[Side, ...] = ("server", "client") if explanation.side == "both" else (explanation.side,)
    shares = [
        {side: _network_share(summary, name, side) for side in sides}
        for name in (explanation.a, explanation.b)
    ]
    differences: list[float] = []
    spent: dict[tuple[int, Side], list[float]] = {}
    for pair in _paired(summary, trials, explanation.a, explanation.b):
        parts = []
        for which, metrics in enumerate(pair):
            for side, share in shares[which].items():
                used = seconds(metrics, side, explanation.per)
                if share is None or used is None:
                    return None
                spent.setdefault((which, side), []).append(used)
                parts.append(share.value * used * (1 if which == 0 else -1))
        differences.append(sum(parts))
    if not differences:
        return None
    from thunderherd.statistics.samples import hodges_lehmann

    # With too few blocks for an interval the confidence is 1, which is that of no interval at all.
    confidence = explanation.difference.confidence
    level = confidence if confidence and confidence < 1 else 1 - summary.study.alpha
    found = hodges_lehmann(differences, level)
    down = [0.0 if found.low is None else found.value - found.low]
    up = [0.0 if found.high is None else found.high - found.value]
    for (which, side), used_of_blocks in spent.items():
        share = shares[which][side]
        assert share is not None
        below, above = share.value - share.low, share.high - share.value
        lower, upper = (below, above) if which == 0 else (above, below)
        used = median(used_of_blocks)
        down.append(used * lower)
        up.append(used * upper)
    return Range(value=found.value, low=found.value - math.hypot(*down), high=found.value + math.hypot(*up))


def _network_share(summary: Summary, name: str, side: Side) -> Share | None:
    found = summary.profiles.of(name) if summary.profiles else None
    profile = found.sides.get(side) if found else None
    if profile is None or (profile.why_not_cpus and (profile.covered or 0.0) < LEAST_COVERED):
        return None
    return profile.network


def why_no_difference(summary: Summary, a: str, b: str, per: Per) -> Problem:
    """Return why two contenders have no figures that can be compared."""
    for each in summary.contenders:
        if each.name in (a, b) and not each.blocks:
            message = f"{each.name} has no valid trial in the blocks that count"
            return Problem(message, "explain.no_valid_trial", where=HERE)
        if each.name in (a, b) and (why := each.unknown.get(SERVER_CPU)):
            return Problem(
                f"the CPU time of {each.name} is unknown: {why}", "explain.unknown_cpu_time", where=HERE
            )
    what = {"request": "", "byte": " per byte", "connection": " per connection"}[per]
    return Problem(
        f"no block that counts has the CPU time{what} of both {a} and {b}",
        "explain.no_cpu_time",
        "" if per == "request" else "try --per request",
        HERE,
    )
