"""Tables of sweeps and of repeated runs: every figure is the summary's, in its place, in every width."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from made.shown.printed import printed
from made.shown.tables import cells, heads, rows, runs
from made.summaries import sweeps as synthetic_sweeps
from rich.console import Console

from thunderherd.records.summary import Summary, SweepSummary
from thunderherd.show.sentences.tables import main_caption, verdict_counts
from thunderherd.show.tables.main import MORE_IS_BETTER
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.show.tables.runs import NO_DEVIATION, main_runs, sweep_runs
from thunderherd.show.tables.sweeps import BEST, LEVEL, sweep_tables
from thunderherd.show.terminal.tables import print_table
from thunderherd.study.loading import Study
from thunderherd.text.figures import estimator, words_of

WIDTHS = (80, 120, 200)


NOTE = "two switches are one worker's own"


def table(of: Summary, sweep: str, place: int = 0) -> Table:
    return sweep_tables(of, next(each for each in of.sweeps if each.name == sweep))[place]


def judged() -> Summary:
    return synthetic_sweeps.summary()


def repeated() -> Summary:
    return synthetic_sweeps.summary(repetitions=3)


def test_each_cell_has_the_figure_of_its_contender_and_the_papers() -> None:
    found = table(judged(), "pool_size")
    assert found.caption == "server CPU (s per 5,000 connections)"
    contenders = {each.name: each for each in judged().contenders}
    paper = {(each.base, each.point): each.value for each in judged().paper if each.sweep == "pool_size"}
    for head, own_cells in rows(found).items():
        for base, cell in zip(heads(found), own_cells, strict=True):
            name = f"{base}@pool_size={head}"
            if name == synthetic_sweeps.LACKING:
                assert (cell.value, cell.mark, cell.span) == ("-", "¹", "")
                continue
            own = contenders[name].metrics["server_cpu_per_connection"]
            low, high = own.low or 0.0, own.high or 0.0
            assert cell.value == f"{own.value * 5000:.3f}"
            assert cell.span == f"{low * 5000:.3f} to {high * 5000:.3f}"
            source = paper.get((base, head))
            assert cell.paper == ("-" if source is None else f"{source:g}")
    assert found.notes == (f"¹ {synthetic_sweeps.WHY_LACKING}", "paper: BSD/OS")


@pytest.mark.parametrize("sweep", ["pool_size", "delay", "whole_life"])
def test_best_and_inseparable_contenders_of_each_point_are_marked(sweep: str) -> None:
    found = table(judged(), sweep)
    own = next(each for each in judged().sweeps if each.name == sweep)
    for head, own_cells in rows(found).items():
        value = {
            base: float(cell.value.replace(",", ""))
            for base, cell in zip(heads(found), own_cells, strict=True)
            if cell.value != "-"
        }
        marks = {base: cell.mark for base, cell in zip(heads(found), own_cells, strict=True)}
        best = (
            max(value, key=value.__getitem__) if own.better == "more" else min(value, key=value.__getitem__)
        )
        assert marks[best] == BEST
        for pair in judged().pairs:
            if (pair.sweep, pair.point) == (sweep, head) and best in (
                pair.a.partition("@")[0],
                pair.b.partition("@")[0],
            ):
                other = next(
                    each.partition("@")[0] for each in (pair.a, pair.b) if each.partition("@")[0] != best
                )
                assert (marks[other] == LEVEL) == (pair.verdict in ("undecided", "equivalent"))


def test_sweep_without_comparisons_has_no_marks() -> None:
    data = json.loads(judged().model_dump_json(by_alias=True)) | {"pairs": []}
    marks = {cell.mark for cell in cells(table(Summary.model_validate(data), "delay"))}
    assert marks == {""}


@pytest.mark.parametrize("repetitions", [None, 3])
def test_note_of_a_sweep_is_below_its_table(repetitions: int | None) -> None:
    of = synthetic_sweeps.study(repetitions=repetitions)
    pools = of.sweeps[0].model_copy(update={"note": NOTE})
    told = synthetic_sweeps.summary_of(of.model_copy(update={"sweeps": (pools, *of.sweeps[1:])}))
    assert table(told, "pool_size").notes[-1] == f"note: {NOTE}"
    assert printed(told, 100).count(NOTE) == 1


def test_further_metrics_have_tables_in_their_own_unit() -> None:
    assert table(judged(), "whole_life").caption == f"{words_of('client.elapsed_seconds')} (ms)"
    found = table(judged(), "whole_life", 2)
    assert found.caption == f"{words_of('latency_p99_seconds')} (µs)"
    assert [cell.value for cell in cells(found)[:3]] == ["-"] * 3
    why = "too few requests: the 99th percentile of latency needs 1,000 in each trial"
    assert found.notes == (f"¹ {why}",)
    told = sweep_runs(repeated(), next(each for each in repeated().sweeps if each.name == "whole_life"))
    assert told is not None and told.notes == (f"¹ {why}",)
    assert {cell for row in runs(told) for cell in row.figures if "-" in cell} == {"-¹"}


def test_missing_figures_and_missing_deviations_have_different_notes() -> None:
    """One sign for both would be ambiguous; a reader of one cell must find its reason."""
    once = synthetic_sweeps.summary(repetitions=1)
    told = sweep_runs(once, next(each for each in once.sweeps if each.name == "whole_life"))
    assert told is not None
    bare = {row.run for row in runs(told) for cell in row.figures if cell == "-"}
    assert bare == {"sd"} and NO_DEVIATION in told.notes
    marked = {row.run for row in runs(told) for cell in row.figures if cell == "-¹"}
    assert marked == {"1", "mean", "sd"}, "what no run has, has no mean, and no deviation either"
    several = sweep_runs(repeated(), next(each for each in repeated().sweeps if each.name == "pool_size"))
    assert several is not None
    base, _, point = synthetic_sweeps.LACKING.partition("@pool_size=")
    (row,) = runs(several, base, point)
    texts = {note[0]: note[2:] for note in several.notes}
    ours = [cell for cell, head in zip(row.figures, heads(several), strict=True) if "Paper" not in head]
    assert {texts[cell[1]] for cell in ours} == {synthetic_sweeps.WHY_LACKING}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("repetitions", [None, 3])
@pytest.mark.parametrize("main", [True, False])
def test_nothing_is_wider_than_the_console_or_cut(
    width: int, terminal: bool, repetitions: int | None, main: bool
) -> None:
    text = printed(synthetic_sweeps.summary(main=main, repetitions=repetitions), width, terminal=terminal)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    if not terminal:
        assert [line for line in text.splitlines() if line != line.rstrip()] == []


@pytest.mark.parametrize("width", [80, 100, 200])
def test_names_are_repeated_in_every_part_of_a_wide_runs_table(width: int) -> None:
    """A report may have thirteen columns; they leave room for the names."""
    names = ("single_unpinned", "prefork_epoll_exclusive")
    headings = tuple(f"context switches of the clients, {place}" for place in range(12))
    figures = [[f"{1000 * place + run}.25" for place in range(12)] for run in (1, 2)]
    own = tuple(
        Row((Cell("1600"), Cell(name), Cell(str(run)), *map(Cell, figures[run - 1])))
        for name in names
        for run in (1, 2)
    )
    columns = (
        Column("connections", "name", repeats=False),
        Column("Contender", "name", repeats=False),
        Column("Run"),
        *map(Column, headings),
    )
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, markup=False, highlight=False)
    print_table(Table("Every run", columns, own, kind="runs", fixed=3), console)
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= width
    parts = text.count("Contender")
    assert parts >= 1
    for name in names:
        assert len(re.findall(rf"\b{name}\b", text)) == parts
    assert all(figure in text for each in figures for figure in each)


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("repetitions", [None, 3])
def test_names_are_whole_in_every_table(width: int, repetitions: int | None) -> None:
    of = synthetic_sweeps.summary(repetitions=repetitions)
    text = printed(of, width)
    for name in {each.base for each in of.contenders}:
        assert re.search(rf"(?m)^.*\b{name}\b", text), name


def test_a_run_decades_below_the_others_of_its_column_is_not_zero() -> None:
    """A column has one unit and the decimals of its largest figures; 2 digits of each are there all the
    same."""
    of = repeated()
    sweep = next(each for each in of.sweeps if each.name == "whole_life")
    name = sweep.metric

    def smaller(runs: list[dict[str, float | None]]) -> list[dict[str, float | None]]:
        return [{key: value and value / 123_456 for key, value in run.items()} for run in runs]

    small = next(each for each in of.contenders if each.sweep == sweep.name and each.runs[0].get(name))
    contenders = [
        each.model_copy(update={"runs": smaller(each.runs)}) if each is small else each
        for each in of.contenders
    ]
    told = sweep_runs(of.model_copy(update={"contenders": contenders}), sweep)
    assert told is not None
    own = runs(told, small.base, small.point or "")
    singles = [row.figures[-1] for row in own if row.run.isdigit()]
    assert len(singles) == 3
    assert all(len(cell.strip("0.")) >= 2 for cell in singles), singles


def test_columns_that_do_not_fit_are_printed_below() -> None:
    text = printed(judged(), 48)
    assert max(len(line) for line in text.splitlines()) <= 80
    heads = [line.split()[1:] for line in text.splitlines() if line.startswith("children ")]
    assert heads[0] == ["prefork", "prefork_file_lock"] and heads[1][0] == "prefork_mutex"


def test_a_study_without_a_main_table_prints_its_sweeps() -> None:
    text = printed(synthetic_sweeps.summary(main=False), 100)
    assert "Row" not in text and "Process control" not in text and "Rank" not in text
    assert all(each.title in text for each in judged().sweeps)


def test_main_table_of_another_metric_shows_that_metric() -> None:
    of = judged()
    rate = of.study.model_copy(update={"metric": "requests_per_second", "better": "more"})
    text = printed(of.model_copy(update={"study": rate}), 80)
    assert main_caption(of.model_copy(update={"study": rate})) in text and "Process control" not in text
    own = next(each for each in of.contenders if each.name == "prefork").metrics["requests_per_second"]
    assert re.search(rf"prefork +{own.value:,.0f}\b", text)


# Repeated runs


def test_every_run_is_printed_and_in_the_summary() -> None:
    of = repeated()
    data = json.loads(of.model_dump_json(by_alias=True))
    text = printed(of, 80)
    for sweep in of.sweeps:
        told = sweep_runs(of, sweep)
        assert told is not None
        for each in data["contenders"]:
            if each["sweep"] != sweep.name:
                continue
            assert len(each["runs"]) == 3
            own = runs(told, each["base"], each["point"])
            assert [row.run for row in own] == ["1", "2", "3", "mean", "sd"]
            # The source's own runs may follow ours.
            ours = -2 if heads(told)[-1] == "Paper" else -1
            for row, run in zip(own, each["runs"], strict=False):
                shown = float(row.figures[ours].replace(",", "") if row.figures[ours] != "-" else "nan")
                scale = {"pool_size": 5000, "delay": 1, "whole_life": 1000}[sweep.name]
                assert shown == pytest.approx(run[sweep.metric] * scale, rel=0.02)
                assert row.figures[ours] in text


def test_columns_are_those_of_the_report() -> None:
    of = repeated()
    told = sweep_runs(of, next(each for each in of.sweeps if each.name == "delay"))
    assert told is not None and heads(told) == ["Req#", "Time (s)", "Throughput (/s)", "Paper"]
    assert all("." not in row.figures[0] for row in runs(told) if not row.is_summary), "requests are counted"


def test_mean_and_deviation_are_the_summarys() -> None:
    of = repeated()
    found = table(of, "delay")
    contenders = {(each.point, each.base): each for each in of.contenders if each.sweep == "delay"}
    for head, own_cells in rows(found).items():
        for base, cell in zip(heads(found), own_cells, strict=True):
            spread = contenders[(head, base)].spread["requests_per_second"]
            runs = [float(run["requests_per_second"] or 0) for run in contenders[(head, base)].runs]
            assert spread.mean == pytest.approx(sum(runs) / 3)
            assert (cell.value, cell.span) == (f"{spread.mean:.1f}", f"sd {spread.standard_deviation:.1f}")
            assert cell.mark == "", "nothing is judged"
    assert main_runs(of) is not None and main_runs(judged()) is None
    assert all(not each.spread and not each.runs for each in judged().contenders)


@pytest.mark.parametrize("width", [80, 100, 200])
def test_judged_blocks_may_show_their_first_runs(width: int) -> None:
    """Like the three runs of the source: next to the estimates, without a mean of only three runs."""
    study = synthetic_sweeps.study()
    of = synthetic_sweeps.summary_of(
        study.model_copy(update={"measure": study.measure.model_copy(update={"single_runs": 3})})
    )
    told = sweep_runs(of, next(each for each in of.sweeps if each.name == "delay"))
    assert told is not None
    assert re.findall(r"\d+", told.caption) == ["3", "14"]
    assert heads(told) == ["Req#", "Time (s)", "Throughput (/s)", "Paper"]
    own = runs(told, "prethread_queue", "small")
    assert [row.run for row in own] == ["1", "2", "3"]
    first = synthetic_sweeps.trials(study, 5)
    for row, block in zip(own, (1, 2, 3), strict=True):
        (trial,) = [
            each for each in first if (each.block, each.contender) == (block, "prethread_queue@delay=small")
        ]
        assert row.figures[0].replace(",", "") == str((trial.metrics or {})["requests"])
    text = printed(of, width)
    assert "no bounds" not in text and told.caption[:40] in text
    assert all(cell in text for row in own for cell in row.figures)
    assert all(not each.spread for each in of.contenders)
    assert table(of, "delay").rows == table(judged(), "delay").rows, "what is judged stays as it was"


def test_one_repetition_has_no_deviation() -> None:
    of = synthetic_sweeps.summary(repetitions=1)
    assert printed(of, 80)
    assert cells(table(of, "delay"))[0].span == ""


def test_repeated_runs_have_no_verdicts() -> None:
    text = printed(repeated(), 100)
    assert estimator(repeated()) in text and "3 runs" in estimator(repeated())
    assert verdict_counts(repeated()) in text and verdict_counts(repeated()).startswith("none: ")
    assert "no bounds" not in text


# Faults


def test_contender_without_valid_trials_has_a_note() -> None:
    data = json.loads(judged().model_dump_json(by_alias=True))
    each = next(each for each in data["contenders"] if each["name"] == "prefork@pool_size=30")
    each |= {"metrics": {}, "blocks": 0}
    of = Summary.model_validate(data)
    cell = rows(table(of, "pool_size"))["30"][0]
    assert (cell.value, cell.mark) == ("-", "¹")
    assert table(of, "pool_size").notes[0].startswith("¹ ")
    assert printed(of, 80)


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    data = json.loads(judged().model_dump_json(by_alias=True))
    data["sweeps"][0] |= {"title": "[bold]\x1b[31m", "x_label": "[/]\x07"}
    text = printed(Summary.model_validate(data), 100)
    assert "\x1b" not in text and "\x07" not in text and "[bold]" in text


def test_pairs_explain_the_ratio_if_more_is_better() -> None:
    text = " ".join(printed(judged(), 100).split())
    assert MORE_IS_BETTER in text
    assert re.search(r"delay=small thread_per_client slower prethread_queue 1\.8", text)


def with_counts(of: Study) -> Study:
    """Its sweep of whole lives shows counts of both sides, too."""
    life = next(each for each in of.sweeps if each.name == "whole_life")
    counts = ("client.context_switches", "client.context_switches_per_request", "client.elapsed_seconds")
    shown = life.model_copy(update={"metrics": (life.metric, *counts)})
    return of.model_copy(update={"sweeps": tuple(shown if each is life else each for each in of.sweeps)})


@pytest.mark.parametrize("width", WIDTHS)
def test_caption_of_counts_has_the_counted_time(width: int) -> None:
    """The source counted over another time."""
    told = synthetic_sweeps.summary_of(with_counts(synthetic_sweeps.study()))
    lives = [each for each in told.contenders if each.sweep == "whole_life"]
    times = [each.metrics["client.elapsed_seconds"].value for each in lives]
    captions = [each.caption for each in sweep_tables(told, sweep_of(told, "whole_life"))]
    (counted,) = [each for each in captions if "counted over" in each]
    found = re.fullmatch(
        rf"{words_of('client.context_switches')}, counted over ([\d.]+) to ([\d.]+) s", counted
    )
    assert found, captions
    assert [float(each) for each in found.groups()] == pytest.approx([min(times), max(times)], rel=0.05)
    assert counted in " ".join(printed(told, width).split())


def test_caption_of_repeated_counts_has_the_counted_time() -> None:
    of = synthetic_sweeps.summary_of(with_counts(synthetic_sweeps.study(repetitions=3)))
    told, other = (sweep_runs(of, sweep_of(of, name)) for name in ("whole_life", "delay"))
    assert told is not None and other is not None
    assert re.search(r"; counts .* [\d.]+ to [\d.]+ s$", told.caption), told.caption
    assert "counts" not in other.caption


def sweep_of(of: Summary, name: str) -> SweepSummary:
    return next(each for each in of.sweeps if each.name == name)
