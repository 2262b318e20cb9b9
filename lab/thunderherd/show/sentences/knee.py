"""The answer of a search for knees, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from thunderherd.metrics.table import METRICS
from thunderherd.records.knee import DesignKnee, KneePair, KneeSummary
from thunderherd.show.sentences.leads import Lead
from thunderherd.show.sentences.tables import with_ranges, without_meaning, without_numbers
from thunderherd.text.figures import count, percent, seconds_in_words
from thunderherd.text.layout import Sentence
from thunderherd.text.printable import printable

__all__ = ["answer", "goal_in_words", "interval_in_words", "rate_in_words", "sentences", "to_know"]

REQUESTS_PER_SECOND = "requests_per_second"


def goal_in_words(summary: KneeSummary) -> str:
    """Writes `99th percentile of latency at most 2 ms`."""
    return f"{METRICS[summary.metric].words} at most {seconds_in_words(summary.goal_seconds)}"


def rate_in_words(rate: float) -> str:
    """Writes a rate with three significant digits."""
    return f"{float(f'{rate:.3g}'):,.0f}"


def interval_in_words(design: DesignKnee) -> str:
    """Writes the ends of the interval."""
    if design.low is None and design.high is None:
        return "unbounded"
    if design.low is None:
        return f"below {rate_in_words(design.high or 0)}"
    if design.high is None:
        return f"above {rate_in_words(design.low)}"
    return f"{rate_in_words(design.low)} to {rate_in_words(design.high)}"


def sentences(summary: KneeSummary) -> list[str]:
    """Answers for the best design and its lead over others, then for designs without a knee."""
    return [each.text for each in answer(summary)]


def answer(summary: KneeSummary) -> list[Sentence]:
    """Answers for the best design, then for its pairs, then for designs without a knee."""
    known = sorted((each for each in summary.designs if each.rate is not None), key=lambda each: -_rate(each))
    others = [each for each in summary.designs if each.rate is None]
    pairs = [each for each in summary.pairs if not known or known[0].name in (each.a, each.b)]
    of_pairs = [Sentence(_of_pair(each), _better_of(each), each.verdict == "undecided") for each in pairs]
    beaten = {worse for each in summary.pairs for worse in ({each.a, each.b} - {*_better_of(each)})}
    better = tuple(each.name for each in known[:1] if len(known) > 1 and each.name not in beaten)
    goal = f"keeps the {METRICS[summary.metric].words} within {seconds_in_words(summary.goal_seconds)}"
    of_designs = [
        Sentence(_of_design(each, "meets the goal" if place else goal), () if place else better)
        for place, each in enumerate([*known[:1], *others])
    ]
    of_known = len(known[:1])
    return [*of_designs[:of_known], *of_pairs, *of_designs[of_known:]]


def _rate(design: DesignKnee) -> float:
    return design.rate or 0.0


def _better_of(pair: KneePair) -> tuple[str, ...]:
    return {"higher": (pair.a,), "lower": (pair.b,)}.get(pair.verdict, ())


def _of_design(design: DesignKnee, meets: str) -> str:
    name, rates = design.name, [point.rate for point in design.points]
    if design.outcome is None:
        return f"{name}: unknown: {without_meaning(design.why or '')}."
    within = f"{rates[0]:,} to {rates[-1]:,} requests per second"
    if design.outcome == "none":
        return f"{name} {meets} at no rate of {within}."
    if design.outcome == "all":
        return f"{name} {meets} at every rate of {within}."
    if design.outcome == "unclear":
        return f"{name}: unclear: in some blocks every rate of {within} meets the goal, in others none."
    return (
        f"{name} {meets} up to {rate_in_words(_rate(design))} requests per second "
        f"({percent(design.confidence or 0)} interval: {interval_in_words(design)})."
    )


def _of_pair(pair: KneePair) -> str:
    first, other = (pair.b, pair.a) if pair.verdict == "lower" else (pair.a, pair.b)
    lead = _lead(pair, first, other)
    around = f"{percent(pair.confidence)} interval "
    if lead is None:
        return f"{pair.a} and {pair.b} {DIFFER[pair.verdict]}."
    if pair.verdict in ("higher", "lower"):
        return f"{lead.in_words('answers {} requests per second', before=around)}."
    return f"{pair.a} and {pair.b} {DIFFER[pair.verdict]} ({lead.in_short()}, {around.strip()})."


DIFFER = {
    "higher": "differ significantly",
    "lower": "differ significantly",
    "equivalent": "have equivalent knees",
    "undecided": "do not differ significantly",
}


def _lead(pair: KneePair, first: str, other: str) -> Lead | None:
    """Gives the lead of a knee over the other; None if one of them is unknown."""
    if pair.ratio is None:
        return None
    ends: tuple[float | None, ...] = (pair.low, pair.ratio, pair.high)
    if first == pair.b:
        ends = tuple(end and 1 / end for end in reversed(ends))
    low, ratio, high = ends
    assert ratio is not None, "the inverse of a ratio is one"
    return Lead(REQUESTS_PER_SECOND, first, other, ratio, low, high)


# What to know -----------------------------------------------------------------------------------------------


def to_know(summary: KneeSummary) -> list[str]:
    """Lists what a reader must know, each once: rates left out, knees that are not sure, and the notes."""
    lines = [*_left_out(summary), *_unsure(summary)]
    # Rates that were given up are left out.
    notes = [without_meaning(note) for note in summary.notes if " was given up: " not in note]
    blocks = dict.fromkeys(count(each.blocks, "block") for each in summary.designs if each.blocks)
    about = f"{' and '.join(blocks) or 'no block'}, seed {summary.seed}"
    return [printable(each) for each in [*lines, about, *notes]]


def _left_out(summary: KneeSummary) -> list[str]:
    """Groups the rates that are left out by reason; reasons that differ in their numbers alone are one."""
    found: dict[str, tuple[list[str], list[str], list[int]]] = {}
    for each in summary.designs:
        for rate, why in each.left_out.items():
            reason = (
                FOLLOWS if why.startswith(FOLLOWS) else without_meaning(why.partition("last: ")[2] or why)
            )
            names, reasons, rates = found.setdefault(without_numbers(reason), ([], [], []))
            names.append(each.name)
            reasons.append(reason)
            rates.append(rate)
    return [
        f"{count(len(rates), 'rate')} left out ({', '.join(dict.fromkeys(names))}; "
        f"{_ends(rates)} requests per second): {with_ranges(reasons)}"
        for names, reasons, rates in found.values()
    ]


FOLLOWS = "the load already failed"
"""The beginning of the reason of each rate above one at which the load failed."""


def _ends(rates: Sequence[int]) -> str:
    return " to ".join(f"{each:,}" for each in dict.fromkeys((min(rates), max(rates))))


def _unsure(summary: KneeSummary) -> list[str]:
    lines = [
        f"{each.name}: not confirmed: {each.unconfirmed}" for each in summary.designs if each.unconfirmed
    ]
    one = [each for each in summary.designs if each.outcome == "one"]
    between = {each.name: each.between_rates for each in one if each.between_rates}
    if between:
        blocks = ", ".join(f"{name} in {count(blocks, 'block')}" for name, blocks in between.items())
        lines.append(
            f"{blocks}: the server did not keep up with the next rate, so the knee is only known to be "
            "between two rates (more rates: --points)"
        )
    confirmed = [each for each in summary.designs if each.stage == "confirmation"]
    if confirmed:
        searched = ", ".join(f"{each.name} {rate_in_words(each.searched_rate or 0)}" for each in confirmed)
        lines.append(f"confirmed by a second run at rates around the knees of the search: {searched}")
    return lines
