"""The answer of a run in a sentence, and its ranking, for the first screen of a report.

The sentence names the best contender, its lead in the metric, and the interval of the lead. Everything comes
from the summary. The places of a contender follow from the verdicts. The first is one more than the number of
contenders that are significantly better. The last leaves out those that are significantly worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thunderherd.records.summary import ContenderSummary, PairSummary, Summary, SweepSummary
from thunderherd.show.sentences import crossover
from thunderherd.show.sentences.compared import head_and_phrase, merged, metric_answers
from thunderherd.show.sentences.leads import Lead
from thunderherd.show.sentences.tables import claim_counts
from thunderherd.text.figures import (
    ABSENT,
    BETWEEN,
    capital,
    count,
    listed,
    main_of,
    number,
    percent,
    words_of,
)
from thunderherd.text.printable import printable
from thunderherd.text.shown import at_points, caption_of, digits_for, shown_of, unit_for

__all__ = [
    "PLACES",
    "Answer",
    "Places",
    "Ranked",
    "answer",
    "first_of_main",
    "machine_in_short",
    "places_of",
    "sweep_answer",
    "sweep_places",
    "weighty",
]


MOST_POINTS = 6
"""The most points of a sweep on the first screen."""
MOST_NAMED = 4
"""The most contenders that a sentence names; it counts the others."""

PLACES = (
    "A range of places, such as 2–4, means that the verdicts do not decide between these places. Contenders "
    "that share places are not shown to be equal."
)
BY_MEANS = "Ranks follow the means alone. Repeated runs have no verdicts."
BY_ESTIMATE = "Ranks follow the estimates alone. Not all contenders were compared with each other."


@dataclass(frozen=True)
class Ranked:
    """A contender of the main table with its place, as texts."""

    place: str
    """`3`, or `1–4` if the verdicts do not decide between these."""
    name: str
    value: str
    span: str


@dataclass(frozen=True)
class Places:
    """The places of contenders at each point of a sweep, as texts."""

    heading: str
    corner: str
    points: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    """Each contender with its places, the best at the first point first."""
    is_judged: bool
    """True if these are places; otherwise they are ranks by the means."""
    left_out: int
    """The number of further points."""


@dataclass(frozen=True)
class Answer:
    """The answer of a run. `further` has the headings and answers of its other tables."""

    sentence: str
    further: tuple[tuple[str, str], ...]
    heading: str
    """The heading of the ranking's figures; empty without a main table."""
    ranking: tuple[Ranked, ...]
    is_judged: bool
    """True if the ranking has places; otherwise it has ranks by the estimates."""
    about: str
    """The meaning of the places."""
    over: Places | None = None
    """The places over the first sweep, if there is no main table."""
    better: tuple[str, ...] = ()
    """The contenders of the sentence that no other beats, if at least one is beaten."""


def answer(summary: Summary) -> Answer:
    """Answers from the main table, or from the first sweep if there is no main table."""
    of_sweeps = [
        (printable(sweep.title), text) for sweep in summary.sweeps if (text := sweep_answer(summary, sweep))
    ]
    first, better = _of_main(summary), first_of_main(summary)
    if summary.further_pairs:
        in_metrics = merged(metric_answers(summary))
        first, of_sweeps = in_metrics[0].sentence, [(each.head, each.sentence) for each in in_metrics[1:]]
        better = in_metrics[0].better
    elif not first and of_sweeps:
        first = f"{of_sweeps[0][0]}. {of_sweeps[0][1]}"
        of_sweeps = of_sweeps[1:]
    if not first and summary.study.family_size == 0 and not summary.study.repetitions and summary.claims:
        first = f"{claim_counts(summary.claims)}."
    sentence = first or "No answer: no two contenders have valid trials in the same blocks."
    if not summary.study.complete and not summary.study.repetitions:
        sentence = f"Not all planned blocks were run. {sentence}"
    places = places_of(summary)
    over = None if main_of(summary) or not summary.sweeps else sweep_places(summary, summary.sweeps[0])
    return Answer(
        sentence=printable(sentence),
        further=tuple(of_sweeps),
        heading=_heading(summary),
        ranking=tuple(_ranking(summary, places)),
        is_judged=bool(places),
        about=_about(summary, bool(places) or (over is not None and over.is_judged), over),
        over=over,
        better=better,
    )


def _about(summary: Summary, is_judged: bool, over: Places | None) -> str:
    """Explains the ranking; empty without one."""
    if is_judged:
        return PLACES
    if over is not None:
        return BY_MEANS
    return BY_ESTIMATE if _ranked(summary) else ""


# The main table ---------------------------------------------------------------------------------------------


def places_of(summary: Summary) -> dict[str, tuple[int, int]]:
    """Gives the first and the last place of each contender of the main table, without controls.

    Empty if nothing is judged, or if not all were compared with each other.
    """
    ranked = _ranked(summary)
    if summary.study.repetitions or not any(each.letters for each in ranked):
        return {}
    pairs = [pair for pair in summary.pairs if pair.sweep is None]
    return _places([each.name for each in ranked], pairs)


def _ranked(summary: Summary) -> list[ContenderSummary]:
    """Lists the contenders of the main table that have a rank, the best estimate first."""
    return sorted((each for each in main_of(summary) if each.rank), key=lambda each: each.rank or 0)


def _places(names: Sequence[str], pairs: Iterable[PairSummary]) -> dict[str, tuple[int, int]]:
    better, worse = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for pair in pairs:
        if pair.a in better and pair.b in better and pair.verdict in ("faster", "slower"):
            ahead, behind = (pair.a, pair.b) if pair.verdict == "faster" else (pair.b, pair.a)
            better[behind] += 1
            worse[ahead] += 1
    return {name: (better[name] + 1, len(names) - worse[name]) for name in names}


def first_of_main(summary: Summary) -> tuple[str, ...]:
    """Lists the contenders of the main table that share first place; empty if no other is worse."""
    places = places_of(summary)
    first = tuple(name for name, (place, _) in places.items() if place == 1)
    return first if len(first) < len(places) else ()


def _of_main(summary: Summary) -> str:
    """Answers from the main table; empty if it has no answer."""
    ranked, places = _ranked(summary), places_of(summary)
    words = words_of(summary.study.metric)
    if len(ranked) > 1 and summary.study.repetitions:
        return (
            f"{ranked[0].name} has the best mean of {words}. Size {summary.study.size} repeats every trial "
            "and gives no verdicts."
        )
    if not places:
        return _by_pairs(summary, words)
    first = [each.name for each in ranked if places[each.name][0] == 1]
    others = [each.name for each in ranked if places[each.name][0] > 1]
    if not others:
        return _none_ahead(summary, first, words)
    leads = (_lead(summary.pairs, name, others[0]) for name in first)
    lead = next((found for found in leads if found and found.is_shown), None)
    if len(first) == 1:
        by = f": {lead.lead.over_the_next(before=lead.confidence)}" if lead else ""
        return f"{first[0]} is the best of {len(ranked)} in {words}{by}."
    by = f"; {lead.lead.over_the_next(before=lead.confidence, named=True)}" if lead else ""
    return (
        f"{len(first)} of {len(ranked)} share first place in {words}, without a significant difference: "
        f"{_listed(first)}{by}."
    )


def _none_ahead(summary: Summary, names: Sequence[str], words: str) -> str:
    """Answers if no contender is significantly better than another."""
    if len(names) == 1:
        return f"Only {names[0]} has figures of {words}, so there is nothing to compare it with."
    extremes = _lead(summary.pairs, names[0], names[-1])
    if extremes is None:
        return f"{_listed(names)} do not differ significantly in {words}."
    lead = extremes.in_words()
    if len(names) == 2 and extremes.pair.verdict == "equivalent":
        band = f"{summary.study.equivalence_percent:g}"
        return f"{names[0]} and {names[1]} are equivalent within {band} % in {words}: {lead}."
    smallest = extremes.pair.smallest_detectable_percent
    detected = (
        f" For these two, a run like this detects {number(smallest, 1)} % in four of five runs."
        if smallest
        else ""
    )
    return (
        f"None of {count(len(names), 'contender')} is significantly better than another in {words}. Of the "
        f"best and the worst estimate, {lead}.{detected}"
    )


def _by_pairs(summary: Summary, words: str) -> str:
    """Answers from the declared comparisons, if not all contenders were compared with each other."""
    pairs = [pair for pair in summary.pairs if pair.sweep is None]
    if not pairs:
        return ""
    shown = [pair for pair in pairs if pair.verdict in ("faster", "slower") and pair.ratio]
    leads = [_Lead(pair, pair.verdict == "faster") for pair in shown]
    decided = "; ".join(lead.in_words() for lead in leads[:MOST_NAMED])
    comparisons = count(len(pairs), "comparison")
    if not decided:
        return f"None of {comparisons} in {words} found a significant difference."
    more = f"; and {len(leads) - MOST_NAMED} more" if len(leads) > MOST_NAMED else ""
    return f"{len(leads)} of {comparisons} in {words} found a significant difference: {decided}{more}."


@dataclass(frozen=True)
class _Lead:
    """A comparison from the side of one contender: how much better that one is."""

    pair: PairSummary
    of_a: bool

    @property
    def ahead(self) -> str:
        return self.pair.a if self.of_a else self.pair.b

    @property
    def behind(self) -> str:
        return self.pair.b if self.of_a else self.pair.a

    @property
    def is_shown(self) -> bool:
        return self.pair.verdict == ("faster" if self.of_a else "slower")

    @property
    def lead(self) -> Lead:
        assert self.pair.ratio is not None, "a lead needs a comparison with a ratio"
        ends: tuple[float | None, ...] = (self.pair.low, self.pair.ratio, self.pair.high)
        if self.of_a:
            ends = tuple(end and 1 / end for end in reversed(ends))
        low, ratio, high = ends
        assert ratio is not None, "the inverse of a ratio is one"
        return Lead(self.pair.metric, _base(self.ahead), _base(self.behind), ratio, low, high)

    @property
    def confidence(self) -> str:
        return f"{percent(self.pair.confidence)} interval "

    def in_words(self) -> str:
        """Writes `a has 21 % less server CPU per connection than b (95.8 % interval 14 to 30 %)`."""
        phrase = head_and_phrase(self.pair.metric)[1]
        return self.lead.in_words(phrase, before=self.confidence)


def _base(name: str) -> str:
    """Removes the sweep and the point from a contender's name."""
    return name.partition("@")[0]


def _lead(pairs: Iterable[PairSummary], ahead: str, behind: str) -> _Lead | None:
    """Finds the comparison of these two; None if there is none, or if it has no ratio."""
    for pair in pairs:
        if {pair.a, pair.b} == {ahead, behind} and pair.ratio:
            return _Lead(pair, pair.a == ahead)
    return None


def _listed(names: Sequence[str]) -> str:
    """Writes `a, b and c`; of many the first ones, and the number of the others."""
    if len(names) <= MOST_NAMED:
        return listed(names)
    return listed([*names[: MOST_NAMED - 1], f"{len(names) - MOST_NAMED + 1} more"])


def _heading(summary: Summary) -> str:
    """Writes the metric of the ranking with its unit."""
    name = summary.study.metric
    figures = [shown_of(summary, each, name) for each in _ranked(summary)]
    if not figures:
        return ""
    return capital(caption_of(name, unit_for(summary, name, figures)))


def _ranking(summary: Summary, places: Mapping[str, tuple[int, int]]) -> Iterator[Ranked]:
    ranked, name = _ranked(summary), summary.study.metric
    figures = {each.name: shown_of(summary, each, name) for each in ranked}
    unit = unit_for(summary, name, figures.values())
    digits = digits_for([unit.of(figure.value) for figure in figures.values() if figure], name)
    # By the first possible place; contenders with the same one by their estimates.
    for each in sorted(ranked, key=lambda each: (places.get(each.name, (0, 0))[0], each.rank or 0)):
        figure, (first, last) = figures[each.name], places.get(each.name, (each.rank or 0,) * 2)
        yield Ranked(
            place=_ends(first, last),
            name=each.name,
            value=ABSENT if figure is None else number(unit.of(figure.value), digits),
            span="" if figure is None else figure.span(unit, digits, BETWEEN),
        )


# Sweeps -----------------------------------------------------------------------------------------------------


def sweep_answer(summary: Summary, sweep: SweepSummary) -> str:
    """Answers from a sweep, in a sentence; empty if it compares nothing."""
    if sweep.crossover is not None:
        return crossover.sentences(summary, sweep)[0]
    words = words_of(sweep.metric)
    if summary.study.repetitions:
        return _of_means(summary, sweep, words)
    firsts = {point.name: first for point in sweep.points if (first := _first_at(summary, sweep, point.name))}
    if not firsts:
        return ""
    groups: dict[tuple[str, ...], list[str]] = {}
    for point, (names, _) in firsts.items():
        groups.setdefault(names, []).append(point)
    parts = [_group(names, points, len(firsts), firsts) for names, points in groups.items()]
    return f"In {words}: {'; '.join(parts)}."


def _first_at(
    summary: Summary, sweep: SweepSummary, point: str
) -> tuple[tuple[str, ...], _Lead | None] | None:
    """Gives the contenders that are not beaten at a point, and their smallest lead; None without pairs.

    If there are several, only a significant lead counts.
    """
    pairs = [pair for pair in summary.pairs if (pair.sweep, pair.point) == (sweep.name, point) and pair.ratio]
    names = list(dict.fromkeys(each for pair in pairs for each in (pair.a, pair.b)))
    first = [name for name, (place, _) in _places(names, pairs).items() if place == 1]
    if not names or not first:
        return None
    leads = [_Lead(pair, pair.a in first) for pair in pairs if (pair.a in first) != (pair.b in first)]
    counted = leads if len(first) == 1 else [lead for lead in leads if lead.is_shown]
    return tuple(map(_base, first)), min(counted, key=lambda each: each.lead.ratio, default=None)


def _group(
    names: tuple[str, ...],
    points: Sequence[str],
    of: int,
    firsts: Mapping[str, tuple[tuple[str, ...], _Lead | None]],
) -> str:
    every = "at both points" if of == 2 else f"at all {of} points"
    where = every if len(points) == of > 1 else _at(points)
    leads = [lead for point in points if (lead := firsts[point][1])]
    if not leads:
        return f"{_listed(names)} do not differ significantly {where}"
    least = min(leads, key=lambda each: each.lead.ratio)
    place = next(point for point in points if firsts[point][1] is least)
    of_point = f", at {place}" if len(points) > 1 else ""
    least_of = "at least " if len(points) > 1 else ""
    amount = f"{least_of}{least.lead.amount}"
    around = f"{least.confidence}{least.lead.interval}{of_point}"
    than = "as good as" if least.lead.is_factor else "than"
    if len(names) > 1:
        by = f"{amount}{' as good' if least.lead.is_factor else ''}: {around}"
        best = f"{_base(least.ahead)} is better than {_base(least.behind)} ({by})"
        return f"{_listed(names)} do not differ significantly {where}, and {best}"
    return f"{names[0]} is the best {where} ({amount} {than} {_base(least.behind)}: {around})"


def sweep_places(summary: Summary, sweep: SweepSummary) -> Places | None:
    """Gives the places at each point; for repeated runs, the ranks by their means.

    None if no point has figures of two contenders.
    """
    contenders, sign = at_points(summary, sweep), -1 if sweep.better == "more" else 1
    columns: dict[str, dict[str, str]] = {}
    for point in sweep.points:
        figures = {
            base: sign * figure.value
            for base in sweep.contenders
            if (figure := shown_of(summary, contenders.get((base, point.name)), sweep.metric))
        }
        ordered = sorted(figures, key=lambda base: figures[base])
        if len(ordered) < 2:
            continue
        pairs = [pair for pair in summary.pairs if (pair.sweep, pair.point) == (sweep.name, point.name)]
        names = {each: _base(each) for pair in pairs for each in (pair.a, pair.b) if _base(each) in figures}
        ends = _places([*names], pairs)
        columns[point.name] = (
            {base: str(place) for place, base in enumerate(ordered, start=1)}
            if summary.study.repetitions
            else {names[each]: _ends(*ends[each]) for each in sorted(names, key=lambda each: ends[each])}
        )
    shown = [name for name, places in columns.items() if places][:MOST_POINTS]
    if not shown:
        return None
    bases = list(dict.fromkeys(base for name in shown for base in columns[name]))
    if summary.study.repetitions:
        bases.sort(key=lambda base: int(columns[shown[0]].get(base, len(bases) + 1)))
    return Places(
        heading=capital(words_of(sweep.metric)),
        corner=sweep.x_label,
        points=tuple(map(printable, shown)),
        rows=tuple((base, tuple(columns[name].get(base, ABSENT) for name in shown)) for base in bases),
        is_judged=not summary.study.repetitions,
        left_out=sum(map(bool, columns.values())) - len(shown),
    )


def _ends(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def _at(points: Sequence[str]) -> str:
    return f"at {_listed(points)}"


def _of_means(summary: Summary, sweep: SweepSummary, words: str) -> str:
    """Writes, for repeated runs, which contender has the best mean at which points."""
    contenders, sign = at_points(summary, sweep), -1 if sweep.better == "more" else 1
    best: dict[str, list[str]] = {}
    for point in sweep.points:
        figures = {
            base: figure.value
            for base in sweep.contenders
            if (figure := shown_of(summary, contenders.get((base, point.name)), sweep.metric))
        }
        if len(figures) > 1:
            best.setdefault(min(figures, key=lambda base: sign * figures[base]), []).append(point.name)
    if not best:
        return ""
    every = [shown_of(summary, each, sweep.metric) for each in contenders.values()]
    unit = unit_for(summary, sweep.metric, every)
    digits = digits_for([unit.of(each.value) for each in every if each], sweep.metric)
    texts = []
    for base, points in best.items():
        figure = shown_of(summary, contenders[(base, points[0])], sweep.metric)
        assert figure is not None, "it was the best there"
        parts = (f"{number(unit.of(figure.value), digits)} {unit.name}", figure.span(unit, digits, BETWEEN))
        best_figure = f"at {points[0]} {parts[0]}" if len(points) > 1 else parts[0]
        texts.append(f"{base} {_at(points)} ({', '.join(filter(None, (best_figure, parts[1])))})")
    return f"Best mean of {words}: {'; '.join(texts)}. Repeated runs have no verdicts."


def machine_in_short(summary: Summary) -> list[str]:
    """Describes the machine in two lines: what it is, and how it was used."""
    machine = summary.machine
    cpu, lab = _part(machine, "cpu"), _part(summary.study.settings, "lab")
    memory = machine.get("memory_bytes")
    usable = cpu.get("usable")
    what = [
        cpu.get("model"),
        cpu.get("count") and f"{count(int(cpu['count']), 'CPU')}",
        usable and cpu.get("count") and len(usable) < cpu["count"] and f"{len(usable)} of them usable",
        memory and f"{number(memory / 2**30, 1)} GiB of memory",
        machine.get("distribution"),
        _kernel(machine.get("kernel")),
        machine.get("container") and f"in {machine['container']}",
    ]
    cpus = [
        f"{side} on {_cpus(lab[key])}"
        for side, key in (("server", "server_cpus"), ("clients", "client_cpus"))
        if lab.get(key)
    ]
    how = [
        lab.get("kind") and f"over {lab['kind']}",
        *cpus,
        machine.get("congestion_control") and f"congestion control {machine['congestion_control']}",
        cpu.get("governor") and f"governor {cpu['governor']}",
        " ".join(str(_part(machine, "compiler").get("rustc") or "").split()[:2]),
    ]
    lines = [", ".join(str(each) for each in line if each) for line in (what, how)]
    return [printable(line) for line in lines if line]


def _part(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def _kernel(text: object) -> str:
    """Writes `Linux 6.1.0`, without its build."""
    return " ".join(str(text).split()[:2]) if text else ""


def _cpus(cpus: Sequence[int]) -> str:
    return f"CPU{'s' if len(cpus) > 1 else ''} {', '.join(map(str, cpus))}"


def weighty(summary: Summary) -> list[str]:
    """Lists what a reader must know before any figure, the most serious first.

    These are contenders given up, noisy blocks and invalid trials. The run's notes have the rest.
    """
    trials = summary.trials
    texts = []
    if trials.given_up:
        texts.append(f"Given up, without figures: {', '.join(trials.given_up)}. The notes say why.")
    if kept := trials.noisy_blocks_kept:
        every = count(summary.study.blocks, "block")
        texts.append(f"{len(kept)} of {every} count although noisier than the study allows.")
    if trials.rejected_blocks:
        texts.append(f"{count(len(trials.rejected_blocks), 'block')} rejected for outside noise.")
    if trials.incomplete_blocks:
        texts.append(f"{count(len(trials.incomplete_blocks), 'block')} incomplete: a trial stayed invalid.")
    if trials.invalid:
        of_all = trials.valid + trials.invalid + trials.rejected
        texts.append(f"{trials.invalid:,} of {count(of_all, 'trial')} invalid.")
    return [printable(each) for each in texts]
