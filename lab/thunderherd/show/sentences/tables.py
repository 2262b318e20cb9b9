"""The captions, legends and counts of a run's tables, for the terminal and the report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import get_args

from thunderherd.metrics.table import CPU_PER_CONNECTION, UNITS_OF_TIME
from thunderherd.records.summary import ClaimSummary, ClaimVerdict, Summary
from thunderherd.show.sentences.counting_cost import about_metrics, cost_in_short, cost_lines
from thunderherd.show.sentences.cpu_source import cpu_cost_lines, main_substitute
from thunderherd.text.figures import capital, count, estimator, main_of, percent, shows_process_control
from thunderherd.text.shown import caption_of, shown_of, unit_for

CLAIM_VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)

MOST_NAMED = 4
"""The most contenders that a line about invalid trials names."""

SHARED_LETTERS = (
    "Contenders that share a letter do not differ significantly in these blocks. That does not mean they are "
    "equal."
)
OF_PAPER = "Paper: the source's figure, on its own machine."


def main_caption(summary: Summary) -> str:
    """Names the study's metric and its unit."""
    name = summary.study.metric
    if name == CPU_PER_CONNECTION:
        return per_connections(summary)
    figures = [shown_of(summary, each, name) for each in main_of(summary)]
    caption = caption_of(name, unit_for(summary, name, figures))
    return f"{capital(caption)}; {summary.study.better} is better"


def per_connections(summary: Summary) -> str:
    """Writes the number of connections that CPU figures are shown for, and measured on if that differs."""
    shown, measured = summary.study.normalise_connections, summary.study.connections_per_trial
    text = f"CPU seconds per {shown:,} connections"
    if measured is None or shown == measured:
        return text
    return f"{text} (measured on {measured:,} connections, shown per {shown:,})"


def legend(summary: Summary) -> list[str]:
    """Explains the study's table."""
    study = summary.study
    main = main_of(summary)
    figures = [
        each.cpu_seconds if study.metric == CPU_PER_CONNECTION else each.metrics.get(study.metric)
        for each in main
    ]
    confidences = {each.confidence for each in figures if each and each.confidence and each.low is not None}
    lines = [SHARED_LETTERS] if any(each.letters for each in main) else []
    has_paper = any(each.sweep is None and each.value is not None for each in summary.paper)
    paper = OF_PAPER if main and has_paper else ""
    if shows_process_control(summary):
        lines.append(
            f"Process control: CPU time minus that of {study.baseline} in the same block. {paper}".rstrip()
        )
    elif paper:
        lines.append(paper)
    controls = [each.process_control_seconds for each in main] if shows_process_control(summary) else []
    if any(control.value < 0 for control in controls if control):
        lines.append(f"Below zero: less CPU time than {study.baseline} for the same connections.")
    intervals = f"; intervals: {percent(min(confidences))}, each for its own figure" if confidences else ""
    lines += [f"{estimator(summary)}{intervals}."] if main else []
    shown = [study.metric, main_substitute(summary)]
    lines += cpu_cost_lines(summary, (name for name in shown if name)) if main else []
    lines += about_metrics(summary, [study.metric]) if main else []
    if any(each.clients_per_worker for each in main):
        measured = study.connections_per_trial
        of_all = "" if measured is None else f", of {measured:,} in a trial"
        lines.append(
            f"Clients per worker: fewest and most connections of a worker{of_all}, and standard deviation "
            "(sd); means over trials."
        )
    return lines


def verdict_counts(summary: Summary) -> str:
    """Counts the comparisons by verdict, or says why there are none."""
    if summary.study.repetitions:
        return f"none: size {summary.study.size} repeats every trial and gives no verdicts"
    if not summary.family:
        return "none: no contenders are compared"
    counts = Counter(pair.verdict for pair in summary.family)
    band = f"{summary.study.equivalence_percent:g}"
    parts = [
        f"{counts['faster'] + counts['slower']} faster or slower",
        f"{counts['equivalent']} equivalent within {band} %",
        f"{counts['undecided']} undecided",
    ]
    return f"{count(len(summary.family), 'comparison')}: {', '.join(parts)}"


def claim_counts(claims: Sequence[ClaimSummary]) -> str:
    """Counts claims by verdict; empty if there are none."""
    counts = Counter(claim.verdict for claim in claims)
    found = ", ".join(f"{counts[verdict]} {verdict}" for verdict in CLAIM_VERDICTS if counts[verdict])
    return f"{count(len(claims), 'claim')}: {found}" if found else ""


def trial_counts(summary: Summary) -> str:
    """Counts the valid, invalid and rejected trials."""
    trials = summary.trials
    text = (
        f"{trials.valid:,} valid, {trials.invalid:,} invalid, {trials.rejected:,} rejected for outside noise"
    )
    if trials.rejected_blocks:
        blocks = ", ".join(map(str, trials.rejected_blocks))
        text += f" ({'block' if len(trials.rejected_blocks) == 1 else 'blocks'} {blocks})"
    if trials.repeated:
        text += f", {trials.repeated:,} of them since they were repeated"
    return text


def run_line(summary: Summary) -> str:
    """Writes size, blocks and seed, which a rerun needs."""
    study = summary.study
    unfinished = "" if study.complete else ", not finished"
    overrides = "".join(f", {override}" for override in study.overrides)
    return f"size {study.size}, {count(study.blocks, 'block')}, seed {study.seed}{overrides}{unfinished}"


def warnings(summary: Summary, *, in_short: bool = False) -> list[str]:
    """Lists the warnings for every figure: reasons of invalid trials, cost of counting, notes of the run.

    With `in_short`, reasons and the cost are shortened; the report has all of them.
    """
    notes = map(of_all_trials, summary.study.notes)
    if in_short:
        shown = [*invalid_trials(summary), *cost_in_short(summary), *notes]
        return [without_meaning(each) for each in shown]
    return [*invalid_trials(summary), *cost_lines(summary), *notes]


def of_all_trials(note: str) -> str:
    """Writes `all 121 trials: ...` for a note of `121 of 121 trials: ...`."""
    return OF_ALL.sub(r"all \1 trials:", note)


OF_ALL = re.compile(r"^(\d+) of \1 trials:")


NUMBER = re.compile(r"(?<![\w@=./])\d[\d,]*(?:\.\d+)?(?: (?:ns|µs|ms|s)\b)?")
"""A number in a reason, with its unit if it is a time, but not one in a name such as ssh://10.0.1.5."""


CHECK = re.compile(
    r"load: (?P<name>\w+) = (?P<value>.*?), allowed: at most (?P<limit>[^:]*)(?P<meaning>:.*)?"
)
"""A failed check of a load; what follows its limit is in the report."""

SHARES = re.compile(r"[\d.]+(?: to [\d.]+)?")

CHECKS = {
    "cut_window": "all clients gave up before the window ended",
    "gave_up": "clients gave up before the end of the load: see the errors",
    "throttled": "a CPU quota stopped the clients: raise it",
    "no_reply": "no reply came in the window: make it longer",
    "empty_window": "no request was due in the window: make it longer",
    "generator_cpu": "the clients had no idle time ({value} of a CPU): give them more CPUs, or a lower rate",
    "send_lag": "requests were sent {value} late (at most {limit} is allowed): give a lower rate, or the "
    "clients more CPUs",
    "achieved_rate": "the load fell {value} behind its rate (at most {limit} is allowed): give a lower rate",
    "never_sent": "{value} of the requests were never sent (at most {limit} is allowed): give a lower rate",
    "little": "the load was not steady (off by {value}, at most {limit} is allowed): give it more warm-up",
}
"""What a failed check of a load means, and what to change."""


def _in_percent(text: str) -> str:
    """Writes shares in percent: `0.012 to 0.85` as `1.2 to 85 %`. Times stay."""
    if not SHARES.fullmatch(text):
        return text
    return " to ".join(f"{100 * float(share):.3g}" for share in text.split(" to ")) + " %"


def without_meaning(reason: str) -> str:
    """Says in short what the failed check of a load means that made a trial invalid."""

    def short(found: re.Match[str]) -> str:
        words = CHECKS.get(found["name"])
        figures = {name: _in_percent(found[name]) for name in ("value", "limit")}
        return words.format(**figures) if words else found[0].removesuffix(found["meaning"] or "")

    return CHECK.sub(short, reason)


def invalid_trials(summary: Summary, name_of: Callable[[str], str] = str) -> list[str]:
    """Counts the invalid trials by reason, the most frequent first.

    Reasons that differ in their numbers alone are one, with ranges. `name_of` names a contender.
    """
    groups: dict[str, list[tuple[str, str, int]]] = {}
    for text, times in summary.trials.invalid_reasons.items():
        name, _, reason = text.partition(": ")
        groups.setdefault(without_numbers(reason), []).append((name, reason, times))
    lines = []
    for found in sorted(groups.values(), key=lambda each: -sum(times for _, _, times in each)):
        times = sum(each for _, _, each in found)
        names = list(dict.fromkeys(name_of(name) for name, _, _ in found))
        of = ", ".join(names[:MOST_NAMED]) + (" and others" if len(names) > MOST_NAMED else "")
        lines.append(f"{count(times, 'trial')} invalid ({of}): {with_ranges([each for _, each, _ in found])}")
    return lines


def without_numbers(reason: str) -> str:
    """Gives what reasons that differ in their numbers alone have in common."""
    return NUMBER.sub("#", reason)


def _size(text: str) -> float:
    """Reads a number, or a time as seconds."""
    number, _, unit = text.partition(" ")
    return float(number.replace(",", "")) / UNITS_OF_TIME.get(unit, 1.0)


def with_ranges(reasons: Sequence[str]) -> str:
    """Joins reasons that differ in their numbers: `send_lag = 1.85 to 12.4 ms`."""
    columns = zip(*(NUMBER.findall(each) for each in reasons), strict=True)
    spans = []
    for column in columns:
        low, high = (choose(column, key=_size) for choose in (min, max))
        _, _, unit = high.partition(" ")
        spans.append(low if low == high else f"{low.removesuffix(f' {unit}')} to {high}")
    left = iter(spans)
    return NUMBER.sub(lambda _: next(left), reasons[0])
