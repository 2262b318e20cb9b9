"""The picture of a crossover."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.shown.drawings import rows, svg_texts
from made.summaries.crossed import A, B, asked, found_of, study_of, summary_of, sweep_of, trials
from made.summaries.searched_crossovers import TRUTHS, changed, line, searched
from made.summaries.swept import CATALOGUE

from thunderherd.search.crossover_study import coarse_study
from thunderherd.show.charts.crossover import about, crossover_chart, write_pictures
from thunderherd.show.sentences.crossover import sentences
from thunderherd.trial.caveats import NO_COMPLETION, ZERO_COPY_SENDS


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("what", TRUTHS)
def test_chart_shows_every_size(what: str, narrow: bool) -> None:
    summary = searched(what)[-1]
    chart = crossover_chart(summary, sweep_of(summary), narrow=narrow)
    found = found_of(summary)
    marks = [row for row in rows(chart) if "standing" in row]
    assert [(row["size"], row["ratio"], row["low"], row["high"]) for row in marks] == [
        (each.size, each.ratio, each.low, each.high) for each in found.points
    ]
    texts = svg_texts(chart)
    assert "64" in texts and "4 MiB" in texts
    # The heading has two lines if one is too narrow for it.
    assert f"cost of {A} / cost of {B}" in " ".join(texts)


def test_chart_has_the_line_and_its_interval() -> None:
    summary = searched("one")[-1]
    found, data = found_of(summary), rows(crossover_chart(summary, sweep_of(summary)))
    assert found.estimate is not None
    assert any(
        row.get("size") == found.estimate.low and row.get("end") == found.estimate.high for row in data
    )
    assert any(row.get("ratio") == found.estimate.ends[0] for row in data)
    level = searched("level")[-1]
    texts = [about(each, sweep_of(each)) for each in (summary, level)]
    assert len(set(texts)) == 2, "of an interval, and of one that is unbounded"


@pytest.mark.parametrize("what", ["one", "nowhere"])
def test_copied_share_is_in_the_chart_and_the_answer(what: str, tmp_path: Path) -> None:
    summary = searched(what)[-1]
    remark = f"{A}: 100 % of the clients' {ZERO_COPY_SENDS} were copied"
    sweep = sweep_of(summary).model_copy(update={"remarks": [remark]})
    assert sentences(summary, sweep)[1].endswith(f": {remark}.")
    for narrow in (False, True):
        assert remark in " ".join(svg_texts(crossover_chart(summary, sweep, narrow=narrow)))
    svg, _ = write_pictures(summary, sweep, tmp_path)
    assert ZERO_COPY_SENDS in svg.read_text()


def test_unknown_copied_share_is_in_the_chart_and_the_answer(tmp_path: Path) -> None:
    study = study_of(coarse_study(asked(), CATALOGUE), tmp_path / "coarse.toml")
    changed = tuple(each.model_copy(update={"completes": each.base == A}) for each in study.contenders)
    study = study.model_copy(update={"contenders": changed})
    summary = summary_of(study, trials(study, line()))
    remark = f"{A}: copied share of the server's sends unknown: {NO_COMPLETION}"
    assert sentences(summary, sweep_of(summary))[1].endswith(f": {remark}.")
    write_pictures(summary, sweep_of(summary), tmp_path)
    assert "unknown:" in (tmp_path / "crossover.svg").read_text()


def test_interval_beyond_the_range_is_cut_at_the_axis() -> None:
    summary = changed(found_of(searched("one")[-1]), high=1e200)
    sizes = [row["end"] for row in rows(crossover_chart(summary, sweep_of(summary))) if "end" in row]
    assert sizes and max(sizes) < 10 * 2**20


def test_charts_are_written_as_svg_and_png(tmp_path: Path) -> None:
    summary = searched("one")[-1]
    svg, png = write_pictures(summary, sweep_of(summary), tmp_path)
    assert svg.read_text().startswith("<svg") and png.read_bytes().startswith(b"\x89PNG")
    assert "#ffffff" in svg.read_text()
    empty = summary.model_copy(
        update={
            "sweeps": [
                sweep_of(summary).model_copy(
                    update={"crossover": found_of(summary).model_copy(update={"points": []})}
                )
            ]
        }
    )
    assert write_pictures(empty, sweep_of(empty), tmp_path) == []
