"""The source's figures next to ours: from the summary alone, in place, with unit and note."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest
from made.shown.drawings import rows, svg_texts
from made.shown.tables import by_name, cells, heads, runs
from made.shown.tables import rows as table_rows
from made.summaries import summary as synthetic_summary
from made.summaries import sweeps as synthetic_sweeps
from rich.console import Console

from thunderherd.engine.catalogue import Catalogue
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.summary import PaperFigure, Summary
from thunderherd.show.charts.sweeps import sweep_chart
from thunderherd.show.report.page import render
from thunderherd.show.sentences.source_figures import as_printed, notes_by_mark, paper_texts
from thunderherd.show.tables import main
from thunderherd.show.tables.runs import sweep_runs
from thunderherd.show.tables.sweeps import main_further, sweep_tables
from thunderherd.show.terminal.study import print_study
from thunderherd.study import loading as studies
from thunderherd.study.loading import load_study
from thunderherd.text.figures import words_of

RING = "A ring is a worker in the source"
FIG_30_2 = "the figure has columns for rows 2, 3, 5, 7 only"


def with_papers(of: Summary, *figures: PaperFigure) -> Summary:
    return of.model_copy(update={"paper": [*of.paper, *figures]})


def paper(name: str, base: str, value: float, **more: Any) -> PaperFigure:
    return PaperFigure(metric=name, base=base, value=value, **({"runs": [value]} | more))


def printed(of: Summary, width: int = 100) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, color_system=None, markup=False, highlight=False)
    print_study(of, console)
    assert max(map(len, stream.getvalue().splitlines())) <= width
    return stream.getvalue()


# From the summary alone


def test_the_bundled_study_shows_its_figures_from_its_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Summary.model_validate_json(synthetic_summary.document())
    monkeypatch.setattr(studies, "bundled_studies", lambda: pytest.fail("a report looks up no study"))
    text = render(read)
    assert RING in text and FIG_30_2 in text
    assert "on Digital UNIX" in text and "20.90" in text


def test_users_study_with_a_bundled_name_has_no_paper_figures(tmp_path: Path) -> None:
    bundled = studies.bundled_studies()["unp-ch30"].read_text(encoding="utf-8")
    text = re.sub(r"(?ms)^\[\[paper\]\].*?(?=^\[\[contenders)", "", bundled)
    text = re.sub(r"(?ms)^\[\[sweeps\.paper\]\].*?(?=^# )", "", text)
    text = re.sub(r"(?m)^(inconsistencies|claims) = .*\n", "", text)
    own = tmp_path / "unp-ch30.toml"
    own.write_text(text)
    catalogue = Catalogue.model_validate_json(synthetic_summary.CATALOGUE.read_text(encoding="utf-8"))
    study = load_study(str(own), "quick", [], catalogue)
    assert study.name == "unp-ch30" and study.paper == ()
    of = summarise(study, synthetic_summary.trials(30), {}, seed=30, command=[], started="", notes=[])
    shown = render(of)
    assert 'id="clients-per-worker"' in shown
    assert RING not in shown and FIG_30_2 not in shown and "20.90" not in shown
    assert "Paper" not in printed(of)


# A sweep


def test_every_metric_of_a_sweep_has_its_figures_and_their_notes() -> None:
    figure = paper(
        "latency_p99_seconds",
        "prefork",
        431,
        sweep="whole_life",
        point="4",
        unit="ms",
        note="off a chart",
    )
    of = with_papers(synthetic_sweeps.summary(), figure)
    sweep = next(each for each in of.sweeps if each.name == "whole_life")
    first, _, latency = sweep_tables(of, sweep)
    notes = [[note for note in each.notes if note.endswith("off a chart")] for each in (latency, first)]
    assert list(map(len, notes)) == [1, 0]
    found = dict(zip(heads(latency), table_rows(latency)["4"], strict=True))
    assert (found["prefork"].paper, found["iterative"].paper) == ("431 ms", "-"), "ours is in µs"
    assert all(not cell.paper or cell.paper == "-" for cell in cells(first))
    assert "paper 431 ms" in render(of) and "431 ms" in printed(of)


def test_a_further_metrics_figures_are_drawn_too() -> None:
    clock = ("server.task_clock", "prefork")
    of = synthetic_sweeps.summary()
    own = next(each for each in of.contenders if each.name == "prefork@whole_life=256")
    seconds = own.metrics["server.task_clock"].value
    sweep = next(each for each in of.sweeps if each.name == "whole_life")

    def panels(figure: PaperFigure) -> tuple[list[dict[str, Any]], Any]:
        chart = sweep_chart(with_papers(of, figure), sweep, clock[0])
        return [row for row in rows(chart) if row.get("whose") == "the paper"], chart

    near, chart = panels(paper(*clock, seconds * 1e9, sweep="whole_life", point="256", unit="ns"))
    ours = next(
        row
        for row in rows(chart)
        if (row["base"], row["point"], row["whose"]) == ("prefork", "256", "this machine")
    )
    assert near[0]["value"] == pytest.approx(ours["value"]), "told in our unit, in our panel"
    assert "furlongs" not in " ".join(svg_texts(chart))
    far, chart = panels(paper(*clock, 7.5, sweep="whole_life", point="4", unit="furlongs"))
    assert far[0]["value"] == 7.5
    assert "(furlongs)" in " ".join(svg_texts(chart)), "in a panel of its own"


def test_repeated_runs_are_shown_with_the_sources_runs_for_every_metric() -> None:
    of = with_papers(
        synthetic_sweeps.summary(repetitions=3),
        paper("requests", "prethread_queue", 9500, sweep="delay", point="small", runs=[9000.0, 10000.0]),
        paper(
            "elapsed_seconds", "prethread_queue", 30, sweep="delay", point="small", unit="min", note="by hand"
        ),
        paper("elapsed_seconds", "prethread_queue", 31, sweep="delay", point="small", system="VAX"),
    )
    told = sweep_runs(of, next(each for each in of.sweeps if each.name == "delay"))
    assert told is not None
    assert heads(told)[3:] == ["Paper: Req#", "Paper: Time (min)", "Paper: Time, VAX", "Paper"]
    found = [(row.run, *row.figures[3:]) for row in runs(told, "prethread_queue", "small")]
    assert found[:4] == [
        ("1", "9000", "-", "-", "319.33"),
        ("2", "10,000", "-", "-", "328.33"),
        ("3", "-", "-", "-", "337.33"),
        ("mean", "9500", "30", "31", "328.33"),
    ]
    assert "paper: by hand" in told.notes
    assert "paper: by hand" in printed(of) and "<li>paper: by hand</li>" in render(of)


def test_unrun_contender_is_shown_with_the_figures_of_the_source() -> None:
    of = with_papers(
        synthetic_sweeps.summary(repetitions=3),
        paper("elapsed_seconds", "prethread_queue", 30, sweep="delay", point="small"),
    )
    left = [each for each in of.contenders if each.name != "prethread_queue@delay=small"]
    of = of.model_copy(update={"contenders": left})
    told = sweep_runs(of, next(each for each in of.sweeps if each.name == "delay"))
    assert told is not None
    assert [(row.run, *row.figures[3:]) for row in runs(told, "prethread_queue", "small")] == [
        ("1", "-", "319.33"),
        ("2", "-", "328.33"),
        ("3", "-", "337.33"),
        ("mean", "30", "328.33"),
        ("sd", "-", "9"),
    ]


# The main table


def test_the_main_table_has_the_figures_of_its_own_metric() -> None:
    of = synthetic_sweeps.summary()
    rate = of.study.model_copy(update={"metric": "requests_per_second", "better": "more"})
    figures = [
        paper("requests_per_second", "prefork", 8000.5, note="one run"),
        paper("requests_per_second", "iterative", 700),
    ]
    of = of.model_copy(update={"study": rate, "paper": figures})
    row = {name: cells["Paper"] for name, cells in by_name(main.main_table(of)).items()}
    assert (row["prefork"].value, row["prefork"].mark) == ("8000.5", "¹")
    assert (row["iterative"].value, row["iterative"].mark) == ("700.0", "")
    assert notes_by_mark(of).texts == {"¹": "one run"}
    assert main_further(of) is None


def test_seconds_of_process_control_are_not_shown_beside_another_metric() -> None:
    of = synthetic_summary.summary()
    rate = of.study.model_copy(update={"metric": "connections_per_second", "better": "more"})
    of = of.model_copy(update={"study": rate})
    assert "Paper" not in heads(main.main_table(of))
    assert "20.90" not in printed(of)


def test_further_metrics_have_a_table_below_the_main_one() -> None:
    of = with_papers(
        synthetic_summary.summary(),
        paper("connections_per_second", "prefork", 812, note="without its clients"),
        paper("latency_p99_seconds", "iterative", 431, unit="µs"),
        paper("connections_per_second", "prethread", 9, system="Linux"),
    )
    found = main_further(of)
    assert found is not None
    assert [head.partition(" (")[0] for head in heads(found)] == [
        words_of(name) for name in ("connections_per_second", "latency_p99_seconds")
    ]
    own_cells = table_rows(found)
    own = next(each for each in of.contenders if each.name == "prefork").metrics["connections_per_second"]
    assert own_cells["prefork"][0].value == f"{own.value:,.0f}"
    assert (own_cells["prefork"][0].paper, own_cells["iterative"][0].paper) == ("812", "-")
    assert (own_cells["iterative"][1].value, own_cells["iterative"][1].paper) == ("-", "431 µs")
    too_few, of_linux, noted = found.notes
    assert too_few.startswith("¹ ") and " 1,000 " in too_few
    assert of_linux.endswith("prethread on Linux") and noted.endswith("without its clients")
    for width in (80, 120, 200):
        assert "431 µs" in printed(of, width)
    assert "paper 431 µs" in render(of)
    row = {name: cells["Paper"] for name, cells in by_name(main.main_table(of)).items()}
    assert row["prefork"].value == "1.80", "the table itself is as it was"


# Digits


def test_figures_are_written_as_the_source_has_them() -> None:
    assert [as_printed(value) for value in (0.0, 1.8, 812.0, 9548.0, 10092.0, 0.00184, None)] == [
        "0", "1.8", "812", "9548", "10,092", "0.00184", "-"
    ]  # fmt: skip
    column = [paper("requests", "a", 1.75), paper("requests", "b", 20.9, unit="k")]
    assert paper_texts(column, "") == {("a", None): "1.75", ("b", None): "20.9 k"}
    assert paper_texts(column, "k", aligned=True) == {("a", None): "1.75", ("b", None): "20.90"}
