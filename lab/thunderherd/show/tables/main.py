"""The study's table and its comparisons.

Every printed figure is in `summary.json`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from thunderherd.metrics.table import CPU_PER_CONNECTION, metric
from thunderherd.records.summary import ContenderSummary, Summary
from thunderherd.show.sentences.answer import first_of_main
from thunderherd.show.sentences.compared import MetricAnswer, labels_of, metric_answers
from thunderherd.show.sentences.counting_cost import about_metrics
from thunderherd.show.sentences.source_figures import notes_by_mark
from thunderherd.show.sentences.tables import (
    legend,
    main_caption,
)
from thunderherd.show.tables.model import Cell, Column, Row, Table, estimate_cell
from thunderherd.show.tables.sweeps import (
    Reasons,
    main_papers,
    scaled_marks,
    why_none,
)
from thunderherd.text.figures import (
    ABSENT,
    capital,
    count,
    decimals,
    extrapolated,
    head_of_names,
    interval_span,
    interval_value,
    main_of,
    not_offered,
    number,
    percent,
    places,
    ratio_digits,
    shows_process_control,
    span,
    unit_of,
    words_of,
)
from thunderherd.text.shown import ShownEstimate, digits_for, shown_of, unit_for

BETTER = "better"
"""The kind of the figures that no other contender beats."""
MORE_IS_BETTER = "If more is better, the ratio is that of the times per item: below 1, a is better."

# The main table ---------------------------------------------------------------------------------------------


def main_table(summary: Summary) -> Table:
    """Shows the study's metric by contender, with the source's figures, worker use and ranks."""
    main = main_of(summary)
    figures, papers, marks = main_figures(summary), main_papers(summary), _marks_of_main(summary)
    bars = shares_of({each.name: shown_of(summary, each, summary.study.metric) for each in main})
    kinds = dict.fromkeys(first_of_main(summary), BETTER)
    unit, has_labels = _main_unit(summary), any(each.label != each.name for each in main)
    labels = "In the paper's words" if summary.paper else "Label"
    columns = [
        Column("Row"),
        Column(head_of_names(main), "name", note=labels if has_labels else ""),
        Column(heading_of(summary), unit="" if unit == "/s" else unit),
        Column("Process control", unit="s"),
        Column("Paper"),
        Column("Clients/worker", span="sd"),
        Column("Rank", "short"),
    ]
    rows = []
    for each in main:
        paper, workers = papers.get((each.name, None), ABSENT), each.clients_per_worker
        rank = ABSENT if each.rank is None else str(each.rank)
        cells = (
            Cell(ABSENT if each.row is None else str(each.row)),
            Cell(each.name, note=each.label),
            replace(
                figures[each.name],
                mark=marks.ours.get(each.name, ""),
                kind=kinds.get(each.name, ""),
                bar=bars.get(each.name),
            ),
            _control(each, summary),
            Cell(paper, mark=marks.papers.get(each.name, "")),
            Cell(
                span(workers.minimum, workers.maximum, 0),
                f"sd {number(workers.standard_deviation, 1)}",
            )
            if workers
            else Cell(),
            Cell(f"{rank:>2} {each.letters}".rstrip()),
        )
        rows.append(Row(cells, "control" if each.control_of is not None else ""))
    notes = (*legend(summary), *marks.notes)
    return Table(main_caption(summary), tuple(columns), tuple(rows), notes).without_empty()


def shares_of(figures: Mapping[str, ShownEstimate | None]) -> dict[str, float]:
    """Gives each estimate as a share of the largest one, for bars; empty unless several are above 0."""
    return shares({name: each.value for name, each in figures.items() if each is not None})


def shares(values: Mapping[str, float]) -> dict[str, float]:
    """Gives each value as a share of the largest one; empty unless there are several, all above 0."""
    largest = max(values.values(), default=0.0)
    if len(values) < 2 or min(values.values()) <= 0:
        return {}
    return {name: value / largest for name, value in values.items()}


def heading_of(summary: Summary) -> str:
    """Names the metric in the head of the main table."""
    return metric(summary.study.metric).heading or "Figure"


def _main_unit(summary: Summary) -> str:
    name = summary.study.metric
    unit = unit_for(summary, name, [shown_of(summary, each, name) for each in main_of(summary)]).name
    return unit.partition(" per ")[0] if name == CPU_PER_CONNECTION else unit


def _control(each: ContenderSummary, summary: Summary) -> Cell:
    """Gives the cost of process control; repeated runs have no interval."""
    if not shows_process_control(summary):
        return Cell()
    if each.name == summary.study.baseline:
        return Cell("baseline")
    control, digits = each.process_control_seconds, places(summary)
    around = "" if summary.study.repetitions is not None else interval_span(control, digits)
    return Cell(interval_value(control, digits), around)


def main_figures(summary: Summary) -> dict[str, Cell]:
    """Gives the study's metric by contender, with its interval or the deviation of repeated runs."""
    name, main = summary.study.metric, main_of(summary)
    if name == CPU_PER_CONNECTION and not summary.study.repetitions:
        digits = places(summary)
        known = {each.name: each.cpu_seconds for each in main}
        return {
            each: Cell(interval_value(found, digits), interval_span(found, digits))
            for each, found in known.items()
        }
    figures = {each.name: shown_of(summary, each, name) for each in main}
    unit = unit_for(summary, name, figures.values())
    digits = digits_for([unit.of(each.value) for each in figures.values() if each], name)
    return {each: estimate_cell(found, unit, digits) for each, found in figures.items()}


@dataclass(frozen=True)
class _Marks:
    """The marks of the main table by contender, on its figures and on the source's, and their notes."""

    ours: dict[str, str]
    papers: dict[str, str]
    notes: list[str]


def _marks_of_main(summary: Summary) -> _Marks:
    """Marks notes on the source's figures, then missing and extrapolated figures of this machine."""
    papers, name, main = notes_by_mark(summary), summary.study.metric, main_of(summary)
    reasons, figures = Reasons(papers.texts), main_figures(summary)
    ours = scaled_marks(main, name, reasons)
    for each in main:
        if figures[each.name].value == ABSENT:
            ours[each.name] = reasons.mark(why_none(summary, name, each))
    return _Marks(ours, papers.marks, reasons.notes)


def more_table(summary: Summary) -> Table | None:
    """Shows further CPU times, rates and switches of the main table's contenders; None without figures."""
    digits = places(summary)
    heads = (
        "CPU of the clients",
        "CPU of the machine",
        "Connections per second",
        "Voluntary switches per connection",
    )
    rows = []
    has_figures = False
    for each in main_of(summary):
        figures = (
            (each.client_cpu_seconds, digits),
            (each.machine_cpu_seconds, digits),
            (each.connections_per_second, 0),
            (each.voluntary_switches_per_connection, 2),
        )
        has_figures = has_figures or any(found is not None for found, _ in figures)
        cells = (Cell(interval_value(found, few), interval_span(found, few)) for found, few in figures)
        rows.append(Row((Cell(each.name), *cells)))
    if not has_figures:
        return None
    columns = (Column(head_of_names(main_of(summary)), "name"), *map(Column, heads))
    return Table("CPU of clients and machine, connections, switches", columns, tuple(rows))


# All compared metrics -------------------------------------------------------------------------------------

UNBEATEN = "*"
"""The mark of a contender that no other beats significantly, if it beats another."""

METRIC_HEADS = {
    "server_cpu_per_request": "CPU/req",
    "machine_cpu_per_request": "Machine CPU/req",
    "server_cpu_per_byte": "CPU/byte",
    "machine_cpu_per_byte": "Machine CPU/byte",
    "requests_per_second": "Requests/s",
    "server.memory": "Memory",
    "server.memory_per_connection": "Memory/conn",
    "latency_p99_seconds": "p99",
    "latency_p90_seconds": "p90",
    "latency_p50_seconds": "p50",
    "latency_mean_seconds": "Mean latency",
}
"""The heads of narrow columns."""


def metrics_table(summary: Summary) -> Table:
    """Shows each contender in a row and each compared metric in a column; the answers have the intervals.

    Sweeps with several points have tables of their own.
    """
    answers = metric_answers(summary)
    has_one_point = sum(len(sweep.points) for sweep in summary.sweeps) == 1
    if main_of(summary) and not has_one_point:
        answers = [each for each in answers if each.sweep is None]
    columns, cells = [Column("Contender", "name")], []
    for place, answer in enumerate(answers):
        head, of_bases = _metric_column(summary, answer, with_bars=not place)
        if head in {each.head for each in columns}:
            head = f"{head} at that rate"
        columns.append(Column(head))
        cells.append(of_bases)
    labels = labels_of(summary)
    # A contender of a sweep without a column here has its figures in the sweep's own table.
    of_main = {each.base for each in main_of(summary)}
    bases = [each for each in labels if not of_main or each in of_main or any(each in has for has in cells)]
    rows = tuple(Row((Cell(labels[base]), *(each.get(base, Cell()) for each in cells))) for base in bases)
    shown = [cell for each in cells for cell in each.values()]
    notes = []
    if any(cell.mark == UNBEATEN for cell in shown):
        notes.append(f"{UNBEATEN} not significantly worse than any other, and better than at least one")
    if any(cell.value.startswith("≥") for cell in shown):
        notes.append("≥ the clients were the limit: the server can do at least this")
    return Table(summary.study.title, tuple(columns), rows, tuple(notes))


def _metric_column(summary: Summary, answer: MetricAnswer, *, with_bars: bool) -> tuple[str, dict[str, Cell]]:
    own = [each for each in summary.contenders if each.sweep == answer.sweep]
    values = {each.base: _value_or_bound(each, answer.metric) for each in own}
    known = [value for value, _ in values.values() if value is not None]
    unit = unit_of(answer.metric, summary.study.normalise_connections, known, summary.study.counters)
    digits = decimals([unit.of(value) for value in known]) if known else 0
    labels = labels_of(summary)
    bars = shares({base: value for base, (value, _) in values.items() if value}) if with_bars else {}
    is_split = 0 < len(answer.best) < len(own)
    cells = {
        base: Cell(
            ABSENT if value is None else f"{'≥ ' if is_bound else ''}{number(unit.of(value), digits)}",
            mark=UNBEATEN if is_split and labels[base] in answer.best else "",
            bar=bars.get(base),
        )
        for base, (value, is_bound) in values.items()
    }
    head = METRIC_HEADS.get(answer.metric, answer.head)
    return (f"{head} ({unit.name})" if known and unit.name and unit.name not in head else head), cells


def _value_or_bound(contender: ContenderSummary, name: str) -> tuple[float | None, bool]:
    """Gives the estimate, or the lower bound and True."""
    if name in contender.at_least:
        return contender.at_least[name].value, True
    found = contender.metrics.get(name)
    return (found.value if found else None), False


# Comparisons ------------------------------------------------------------------------------------------------


def pairs_table(summary: Summary) -> Table:
    """Shows every comparison of the declared family, in its order."""
    bases = {each.name: each.base for each in summary.contenders}
    rows = []
    for pair in summary.family:
        digits, smallest = ratio_digits(pair.ratio, pair.high), pair.smallest_detectable_percent
        a, b = (bases.get(each, each) if pair.sweep else each for each in (pair.a, pair.b))
        cells = (
            Cell(f"{pair.sweep}={pair.point}" if pair.sweep else ""),
            Cell(words_of(pair.metric) if summary.further_pairs else ""),
            Cell(a),
            Cell(pair.verdict, kind=pair.verdict),
            Cell(b),
            Cell(
                number(pair.ratio, digits),
                ABSENT if pair.ratio is None else span(pair.low, pair.high, digits),
            ),
            Cell(str(pair.blocks)),
            Cell(ABSENT if smallest is None else f"{number(smallest, 1)} %"),
        )
        rows.append(Row(cells))
    columns = (
        Column("At", "name"),
        Column("Metric", "name"),
        Column("a", "name"),
        Column("is", "short"),
        Column("b", "name"),
        Column("a / b"),
        Column("Blocks"),
        Column("Smallest detectable"),
    )
    return Table("Comparisons", columns, tuple(rows), tuple(pairs_legend(summary))).without_empty()


def _about_counts(summary: Summary) -> Iterator[str]:
    """Says which compared metrics are unavailable, extrapolated or unknown."""
    for name in dict.fromkeys(pair.metric for pair in summary.family):
        compared = {each for pair in summary.family if pair.metric == name for each in (pair.a, pair.b)}
        if why := not_offered(summary, name):
            yield f"Unavailable on this machine: {words_of(name)}: {why}."
        if how := extrapolated(each.scaled.get(name) for each in summary.contenders if each.name in compared):
            yield f"Ratios of {words_of(name)} are {how}."
        unknown = {
            each.name: each.unknown[name]
            for each in summary.contenders
            if each.name in compared and name in each.unknown
        }
        for why in dict.fromkeys(unknown.values()):
            names = ", ".join(each for each in unknown if unknown[each] == why)
            yield f"{capital(words_of(name))} of {names} is unknown: {why}."


def pairs_legend(summary: Summary) -> list[str]:
    """Explains the table of comparisons."""
    study = summary.study
    confidences = {pair.confidence for pair in summary.family if pair.low is not None}
    metrics = ", ".join(words_of(name) for name in dict.fromkeys(pair.metric for pair in summary.family))
    lines = [
        f"Ratios of {metrics or words_of(study.metric)}; faster: a is better. Verdicts are corrected "
        f"(Holm) for all {count(study.family_size, 'comparison')}, alpha {study.alpha:g}. Undecided does not "
        "mean equal."
    ]
    if any(metric(name).better == "more" for name in {pair.metric for pair in summary.family}):
        lines.append(MORE_IS_BETTER)
    if confidences:
        lines.append(f"Intervals: {percent(min(confidences))}, each for its own pair.")
    lines += _about_counts(summary)
    lines += about_metrics(summary, (pair.metric for pair in summary.family))
    lines.append("Smallest detectable: the difference that a run like this detects in four of five runs.")
    return lines
