"""The answer of a search for knees, in sentences."""

from __future__ import annotations

from thunderherd.metrics.table import METRICS
from thunderherd.records.knee import DesignKnee, KneePair, KneeSummary
from thunderherd.text.figures import count, percent, seconds_in_words

__all__ = ["goal_in_words", "interval_in_words", "rate_in_words", "sentences"]


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
    """Answers for each design, then for each pair."""
    return [*(_of_design(each) for each in summary.designs), *(_of_pair(each) for each in summary.pairs)]


def _of_design(design: DesignKnee) -> str:
    name, rates = design.name, [point.rate for point in design.points]
    if design.outcome is None:
        return f"{name}: unknown: {design.why}"
    within = f"{rates[0]:,} to {rates[-1]:,} requests a second"
    if design.outcome == "none":
        return f"{name}: no rate of this range meets the goal: {within}"
    if design.outcome == "all":
        beyond = (
            f"; above that the load did not measure its server: {design.left_out[min(design.left_out)]}"
            if design.left_out
            else ""
        )
        return f"{name}: every rate of this range meets the goal: {within}{beyond}"
    if design.outcome == "unclear":
        return f"{name}: the blocks disagree: in some all rates of {within} meet the goal, in others none"
    text = (
        f"{name}: up to {rate_in_words(design.rate or 0)} requests a second "
        f"({percent(design.confidence or 0)} interval: {interval_in_words(design)}; "
        f"{count(design.blocks, 'block')}"
    )
    if design.stage == "confirmation":
        text += f" at rates around it, after a search that found {rate_in_words(design.searched_rate or 0)}"
    text += ")"
    if design.unconfirmed:
        text += f"; not confirmed: {design.unconfirmed}"
    if design.between_rates:
        text += (
            f"; in {design.between_rates} of them it did not keep up with the next rate, so the knee is only "
            "known to be between two rates (more rates: --points)"
        )
    return text


VERDICTS = {
    "higher": "has the higher knee than",
    "lower": "has the lower knee than",
    "equivalent": "has a knee equivalent to that of",
    "undecided": "does not differ significantly from",
}


def _of_pair(pair: KneePair) -> str:
    text = f"{pair.a} {VERDICTS[pair.verdict]} {pair.b}"
    if pair.ratio is not None:
        ends = [f"{end:.3g}" if end is not None else "no bound" for end in (pair.low, pair.high)]
        text += f": {pair.ratio:.3g} times ({percent(pair.confidence)} interval: {ends[0]} to {ends[1]})"
    of_equivalence = pair.p_equivalent_adjusted if pair.verdict == "equivalent" else None
    p = pair.p_adjusted if of_equivalence is None else of_equivalence
    return f"{text}; p {p:.2g}, adjusted for all pairs"
