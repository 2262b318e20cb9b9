"""The answer of a comparison: a sentence for each metric, and the few things to know about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thunderherd.metrics.table import PAYLOAD_RATE
from thunderherd.records.summary import ContenderSummary, PairSummary, Summary, SweepSummary
from thunderherd.show.sentences.leads import Lead
from thunderherd.show.sentences.left_out import not_counted
from thunderherd.show.sentences.tables import invalid_trials, of_all_trials, trial_counts, without_meaning
from thunderherd.text.figures import capital, count, decimals, listed, number, unit_of, words_of
from thunderherd.text.printable import printable
from thunderherd.text.shown import at_least_in_words

__all__ = [
    "MetricAnswer",
    "compared_in_words",
    "head_and_phrase",
    "labels_of",
    "merged",
    "metric_answers",
    "to_know",
    "worse_than_first",
]

FIRST_REASONS = 2
"""The reasons of invalid trials that come before the notes."""
MUCH = 0.2
"""The share of the CPUs used by other processes from which a reader is told."""
MOST_OTHERS = 3
"""The most contenders that a sentence compares with the best; it counts the others."""

PHRASES = {
    "server_cpu_per_request": ("CPU per request", "uses {} CPU per request"),
    "machine_cpu_per_request": (
        "CPU of the whole machine per request",
        "costs the machine {} CPU per request",
    ),
    "server_cpu_per_byte": ("CPU per byte", "uses {} CPU per byte"),
    "machine_cpu_per_byte": ("CPU of the whole machine per byte", "costs the machine {} CPU per byte"),
    "client_cpu_per_request": (
        "CPU of the clients per request",
        "costs its clients {} CPU per request",
    ),
    "client_cpu_per_byte": ("CPU of the clients per byte", "costs its clients {} CPU per byte"),
    "requests_per_second": ("Throughput", "answers {} requests per second"),
    PAYLOAD_RATE: ("Throughput", "moves {} bytes per second"),
    "server.memory": ("Memory", "holds {} memory"),
    "server.memory_per_connection": ("Memory per connection", "uses {} memory per connection"),
    "latency_p99_seconds": ("p99 latency", "has {} p99 latency"),
    "latency_p90_seconds": ("p90 latency", "has {} p90 latency"),
    "latency_p50_seconds": ("Median latency", "has {} median latency"),
    "latency_mean_seconds": ("Mean latency", "has {} mean latency"),
}
"""Metric → its name at the head of a sentence, and what the better contender does."""


@dataclass(frozen=True)
class MetricAnswer:
    """The answer in one metric, of the main table or of a sweep's point.

    `best` are the labels of the contenders that no other beats significantly; empty if nothing was compared.
    """

    metric: str
    sweep: str | None
    head: str
    sentence: str
    best: tuple[str, ...]
    pairs: tuple[PairSummary, ...]
    subject: str = ""
    """The metric and the point; empty if there is a comparison."""
    why_none: str = ""
    """Why nothing was compared; empty if there is a comparison."""

    @property
    def better(self) -> tuple[str, ...]:
        """The best contenders, if at least one other is significantly worse."""
        return self.best if any(pair.verdict in ("faster", "slower") for pair in self.pairs) else ()

    @property
    def is_undecided(self) -> bool:
        """True if no comparison found a difference, and not all found equivalence."""
        verdicts = {pair.verdict for pair in self.pairs}
        return "undecided" in verdicts and not verdicts & {"faster", "slower"}


def metric_answers(summary: Summary) -> list[MetricAnswer]:
    """Answers in each metric that contenders were compared by, in the study's order."""
    found = []
    if any(each.sweep is None for each in summary.contenders):
        found = [
            _answer(summary, name, None, None)
            for name in (summary.study.metric, *summary.study.further_metrics)
        ]
    for sweep in summary.sweeps:
        for point in sweep.points:
            names = (sweep.metric, *sweep.further_metrics)
            found += [_answer(summary, name, sweep, point.name) for name in names]
    return found


def _answer(summary: Summary, name: str, sweep: SweepSummary | None, point: str | None) -> MetricAnswer:
    place = (sweep.name if sweep else None, point)
    own = [each for each in summary.contenders if (each.sweep, each.point) == place]
    pairs = [pair for pair in summary.family if pair.metric == name and (pair.sweep, pair.point) == place]
    head, _ = head_and_phrase(name)
    labels = labels_of(summary)
    bases = {each.name: labels[each.base] for each in own}
    shown = [pair.model_copy(update={"a": bases[pair.a], "b": bases[pair.b]}) for pair in pairs if pair.ratio]
    where = _where(sweep, point) if sweep else ""
    if shown:
        text, best = compared_in_words(shown, name, summary.study.blocks, where)
        return MetricAnswer(name, place[0], head, printable(text), tuple(best), tuple(pairs))
    subject, why = printable(f"{head}{where}"), printable(_why_none(summary, own, name))
    return MetricAnswer(name, place[0], head, _no_verdict([subject], why), (), tuple(pairs), subject, why)


def _where(sweep: SweepSummary, point: str | None) -> str:
    """Writes ` at a common rate of 5,000 requests per second`, or ` (Streams by message size, 64)`."""
    if len(sweep.points) == 1:
        title = sweep.title
        return f" {_lower_first(title)}" if title.startswith(("At ", "With ")) else f" ({title})"
    label = next(each.label for each in sweep.points if each.name == point)
    return f" ({sweep.title}, {label})"


def _no_verdict(subjects: Sequence[str], why: str) -> str:
    first, *others = subjects
    return f"{listed([first, *map(_as_noun, others)])}: no verdict. {why}"


def merged(answers: Sequence[MetricAnswer]) -> list[MetricAnswer]:
    """Merges answers that have no verdict for the same reason into one sentence, where the first stands."""
    by_reason: dict[str, list[str]] = {}
    for each in answers:
        if each.why_none:
            by_reason.setdefault(each.why_none, []).append(each.subject)
    found = [each for each in answers if not each.why_none or each.subject == by_reason[each.why_none][0]]
    return [
        replace(each, sentence=_no_verdict(by_reason[each.why_none], each.why_none))
        if each.why_none
        else each
        for each in found
    ]


def compared_in_words(
    pairs: Sequence[PairSummary], name: str, blocks: int, where: str = "", *, are_too_few: bool = False
) -> tuple[str, list[str]]:
    """Writes the answer in one metric, and lists the contenders that no other beats significantly.

    All pairs have a ratio, and there is at least one. With `are_too_few`, or without any bound, the sentence
    has estimates and no verdict. `where` names a sweep's point.
    """
    head, phrase = head_and_phrase(name)
    best = _unbeaten(pairs)
    if are_too_few or all(pair.simultaneous_low is None for pair in pairs):
        so_far = _estimates(pairs, name, phrase)
        few = f"{count(blocks, 'block')} {'is' if blocks == 1 else 'are'} too few"
        return f"{head}{where}: no verdict, {few}; so far {so_far}.", best
    return _compared(pairs, best, name, head, phrase, where), best


def head_and_phrase(name: str) -> tuple[str, str]:
    """Gives the name of a metric at the head of a sentence, and what the better contender does."""
    return PHRASES.get(name, (capital(words_of(name)), f"has {{}} {words_of(name)}"))


def labels_of(summary: Summary) -> dict[str, str]:
    """Maps the contenders to their labels: a server that is not ours has its URL or command."""
    return {each.base: each.base for each in summary.contenders} | {
        each.base: each.label for each in summary.contenders if each.sweep is None
    }


def _as_noun(head: str) -> str:
    """Gives the head of a sentence as it stands inside one."""
    return head if head[:1].islower() or head[1:2].isupper() else _lower_first(head)


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


def _unbeaten(pairs: Sequence[PairSummary]) -> list[str]:
    """Lists the contenders that no other beats, the one with the least estimate of costs first."""
    beaten = {
        pair.b if pair.verdict == "faster" else pair.a
        for pair in pairs
        if pair.verdict in ("faster", "slower")
    }
    names = list(dict.fromkeys(each for pair in pairs for each in (pair.a, pair.b)))
    wins = {
        name: sum(_cost_ratio(pair, name) < 1 for pair in pairs if name in (pair.a, pair.b)) for name in names
    }
    return sorted((name for name in names if name not in beaten), key=lambda name: -wins[name])


def _cost_ratio(pair: PairSummary, name: str) -> float:
    """Gives the cost of one contender of a pair over that of the other."""
    ratio = pair.ratio or 1.0
    return ratio if name == pair.a else 1 / ratio


def _compared(
    pairs: Sequence[PairSummary],
    best: Sequence[str],
    name: str,
    head: str,
    phrase: str,
    where: str,
) -> str:
    """Writes a sentence from the view of the best contender."""
    # If no verdict orders all, the first contender of the least estimate speaks.
    first = best[0] if best else pairs[0].a
    others = [pair for pair in pairs if first in (pair.a, pair.b)]
    others.sort(key=lambda pair: _cost_ratio(pair, first), reverse=True)
    decided = [pair for pair in others if pair.verdict in ("faster", "slower")]
    level = [_other(pair, first) for pair in others if pair.verdict == "equivalent"]
    unclear = [pair for pair in others if pair.verdict == "undecided"]
    noun = _as_noun(head)
    parts = []
    if decided:
        leads = [_lead(pair, first, name) for pair in reversed(decided)][:MOST_OTHERS]
        more = f"; and is better than {len(decided) - MOST_OTHERS} more" if len(decided) > MOST_OTHERS else ""
        parts.append(f"{_leads_in_words(leads, phrase)}{more}{where}.")
    if level:
        parts.append(f"{first} and {listed(level)} are equivalent in {noun}{where if not decided else ''}.")
    if unclear:
        lead = _lead(unclear[-1], first, name)
        names = listed([_other(pair, first) for pair in unclear])
        about = f" ({lead.in_short()})" if len(unclear) == 1 else ""
        parts.append(
            f"{first} and {names} do not differ significantly in {noun}{where if not decided else ''}{about}."
        )
    return " ".join(parts)


def _estimates(pairs: Sequence[PairSummary], name: str, phrase: str) -> str:
    """Writes the estimates of the contender that leads, of pairs that nothing was decided about."""
    first = _unbeaten(pairs)[0]
    leads = [_lead(pair, first, name) for pair in pairs if first in (pair.a, pair.b)]
    return _leads_in_words(leads[:MOST_OTHERS], phrase, with_interval=False)


def _leads_in_words(leads: Sequence[Lead], phrase: str, *, with_interval: bool = True) -> str:
    """Joins the leads of a contender; those in percent share the words of the phrase."""

    def in_words(lead: Lead, phrase: str) -> str:
        return lead.in_words(phrase, with_interval=with_interval)

    small = [lead for lead in leads if not lead.is_factor]
    texts = [
        in_words(lead, "{}" if place else phrase).removeprefix(f"{lead.first} " if place else "")
        for place, lead in enumerate(small)
    ]
    clauses = [", ".join(texts)] if texts else []
    return "; ".join([*clauses, *(in_words(lead, phrase) for lead in leads if lead.is_factor)])


def _other(pair: PairSummary, name: str) -> str:
    return pair.b if pair.a == name else pair.a


def _lead(pair: PairSummary, name: str, of: str) -> Lead:
    """Gives the lead of a contender over the other of a pair.

    The interval holds for all comparisons together, as the verdicts do.
    """
    ends = (pair.simultaneous_low, pair.ratio, pair.simultaneous_high)
    if name == pair.a:
        # Ratios are of the cost of a over that of b.
        ends = tuple(None if end is None else 1 / end for end in reversed(ends))  # type: ignore[assignment]
    low, ratio, high = ends
    assert ratio is not None, "only pairs with a ratio are shown"
    if pair.verdict in ("faster", "slower") and low is not None and ratio > 1:
        # Holm's method, or an earlier look, may exclude 1 where this interval does not.
        low = max(1.0, low)
    return Lead(of, name, _other(pair, name), ratio, low, high)


def _why_none(summary: Summary, own: Sequence[ContenderSummary], name: str) -> str:
    """Says why nothing was compared: the lower bounds of limited rates, or the reason."""
    limited = [each for each in own if name in each.at_least]
    if limited:
        labels = labels_of(summary)
        bounds = [
            f"{labels[each.base]} {at_least_in_words(summary, each, name).partition(' (')[0]}"
            for each in limited
        ]
        return f"The clients are the limit: {'; '.join(bounds)}."
    without = [labels_of(summary)[each.base] for each in own if not each.blocks]
    if without:
        return f"No block counts for {listed(without)}; the notes say why."
    reasons = [each.unknown[name] for each in own if name in each.unknown]
    if reasons:
        return f"{capital(reasons[0])}."
    if all(name in each.metrics for each in own):
        return f"A ratio needs values above 0 in every trial: {'; '.join(_figures(summary, own, name))}."
    return "Some trials lack this metric."


def _figures(summary: Summary, own: Sequence[ContenderSummary], name: str) -> list[str]:
    """Writes each contender with its estimate."""
    values = [each.metrics[name].value for each in own]
    unit = unit_of(name, summary.study.normalise_connections, values, summary.study.counters)
    digits = decimals(unit.of(value) for value in values)
    labels = labels_of(summary)
    return [
        f"{labels[each.base]} {number(unit.of(value), digits)} {unit.name}".strip()
        for each, value in zip(own, values, strict=True)
    ]


# What to know -----------------------------------------------------------------------------------------------


def to_know(summary: Summary) -> list[str]:
    """Lists what a reader must know, each once: trials, why some were invalid, and the run's notes."""
    study, given_up = summary.study, [*summary.trials.given_up]
    # A block of contenders that were all given up counts for nothing.
    counted = study.blocks if any(each.blocks for each in summary.contenders) else 0
    blocks = f"{count(counted, 'block')} {'counts' if counted == 1 else 'count'}"
    lines = [f"{trial_counts(summary)}; {blocks}, seed {study.seed}"]
    others = summary.trials.foreign_share
    if others is not None and others >= MUCH:
        lines.append(f"other processes used {others:.0%} of the CPUs (median of the trials)")
    labels = labels_of(summary)
    bases = {each.name: labels[each.base] for each in summary.contenders}
    invalid = [without_meaning(line) for line in invalid_trials(summary, lambda name: bases.get(name, name))]
    # The reason why a contender was given up is one of those.
    notes = [
        each for each in study.notes if not any(each.startswith(f"{name} was given up") for name in given_up)
    ]
    notes = [*map(of_all_trials, notes), *not_counted(summary)]
    # The first lines are shown: what the figures mean comes before the rarer reasons.
    return [
        printable(each)
        for each in dict.fromkeys([*lines, *invalid[:FIRST_REASONS], *notes, *invalid[FIRST_REASONS:]])
    ]


def worse_than_first(summary: Summary, percent: float) -> list[str]:
    """Names, with the metric, each contender that is shown to be worse than the first by more than `percent`.

    The bound is the end of the interval that holds for all comparisons together.
    """
    found = []
    labels = labels_of(summary)
    bases = {each.name: labels[each.base] for each in summary.contenders}
    first = next((labels[each.base] for each in summary.contenders), None)
    for pair in summary.family:
        a, b = bases[pair.a], bases[pair.b]
        if first not in (a, b) or pair.verdict not in ("faster", "slower"):
            continue
        # The cost of the later contender over that of the first is at least this.
        at_least = (
            pair.simultaneous_low if b == first else pair.simultaneous_high and 1 / pair.simultaneous_high
        )
        if at_least is not None and at_least > 1 + percent / 100:
            found.append(f"{b if a == first else a} in {words_of(pair.metric)}")
    return found
