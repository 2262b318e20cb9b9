"""Records: the kept figures of a run are its own, are small, and can be shown again."""

from __future__ import annotations

import json
import random
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made.refusals import refused
from typer.testing import CliRunner

import make_records
from handbook.pages import entries
from handbook.pages.entries import DESIGNS, PRIMITIVES
from handbook.pages.recorded_figures import NOT_RECORDED, recorded, system_calls
from handbook.records import recording
from handbook.records.kept import (
    ARCHIVE,
    ERRATA,
    FIGURES,
    TABLE,
    Kept,
    KeptPair,
    KeptRow,
    KeptTable,
    kept_calls,
    kept_studies,
)
from thunderherd.cli.main import app
from thunderherd.metrics.table import CPU_PER_CONNECTION
from thunderherd.records.directory import OtherVersionError

ROOT = Path(__file__).resolve().parents[3]
KEPT = kept_studies()
SMALLEST = min(KEPT, key=lambda each: (ROOT / each.folder / ARCHIVE).stat().st_size)
STUDIES = [each.figures.study for each in KEPT]


def unpacked(kept: Kept, folder: Path) -> Path:
    with tarfile.open(ROOT / kept.folder / ARCHIVE) as archive:
        # Of itself safe from Python 3.14 on; before 3.11.4 there is no filter.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder / "run"


def test_demo_has_a_record() -> None:
    assert "unp-ch30" in STUDIES


@pytest.mark.parametrize("kept", KEPT, ids=STUDIES)
def test_its_figures_are_those_of_its_summary(kept: Kept, tmp_path: Path) -> None:
    run = unpacked(kept, tmp_path)
    summary = json.loads((run / "summary.json").read_text())
    contenders = {each["name"]: each for each in summary["contenders"]}
    pairs = {(each["a"], each["b"]): each for each in summary["pairs"]}
    study = summary["study"]
    for shown in kept.figures.tables:
        for row in shown.rows:
            contender = contenders[row.contender]
            assert (row.design, row.primitive) == (contender["design"], contender["primitive"])
            estimates = [*contender["metrics"].values(), contender["cpu_seconds"], *_means(contender)]
            values = {each["value"] for each in estimates if each}
            if study["metric"] == CPU_PER_CONNECTION and contender["cpu_seconds"]:
                values.add(contender["cpu_seconds"]["value"] / study["normalise_connections"])
            assert row.value is None or any(abs(row.value - value) <= 1e-12 for value in values), row
        for pair in shown.pairs:
            there = pairs[pair.a, pair.b]
            assert (pair.verdict, pair.ratio, pair.low) == (there["verdict"], there["ratio"], there["low"])
    assert sum(len(each.pairs) for each in kept.figures.tables) == len(pairs)
    assert kept.figures.seed == study["seed"] and "--out" not in kept.figures.command


def _means(contender: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"value": each["mean"]} for each in contender["spread"].values()]


@pytest.mark.parametrize("kept", KEPT, ids=STUDIES)
def test_it_is_small_and_has_its_files(kept: Kept, tmp_path: Path) -> None:
    folder = ROOT / kept.folder
    assert (folder / ARCHIVE).stat().st_size <= recording.MOST_BYTES
    for chart in kept.figures.charts:
        assert (folder / chart.file).read_text().startswith("<svg"), chart
    readme = (folder / "README.md").read_text()
    assert (folder / TABLE).read_text().rstrip() in readme
    run = unpacked(kept, tmp_path)
    there = {path.name for path in run.iterdir()}
    assert {"run.json", "summary.json"} < there
    assert all(name in readme for name in there)
    naming_a_clone = [path.name for path in run.iterdir() if b"/.venv/" in path.read_bytes()]
    assert naming_a_clone == [], "a record names no directory of whoever made it"


@pytest.mark.parametrize("kept", KEPT, ids=STUDIES)
def test_its_readme_has_the_claims_command_only_if_there_are_claims(kept: Kept, tmp_path: Path) -> None:
    summary = json.loads((unpacked(kept, tmp_path) / "summary.json").read_text())
    claims = f"thunderherd claims {kept.figures.study} run" in (ROOT / kept.folder / "README.md").read_text()
    assert claims == bool(summary["claims"] or summary["questions"])


def test_record_can_be_rebuilt_from_its_archive(tmp_path: Path) -> None:
    kept = SMALLEST
    run = unpacked(kept, tmp_path)
    old = tmp_path / "records/2026-01-02" / kept.figures.study / "gone.svg"
    old.parent.mkdir(parents=True)
    old.write_text("of an older form")
    try:
        again = recording.keep(run, tmp_path, "2026-01-02")
    except OtherVersionError as error:
        pytest.skip(f"made by another version: {error}")
    # Older records lack fields.
    recorded = kept.figures.model_fields_set
    assert again.figures.model_dump(include=recorded) == kept.figures.model_dump(include=recorded)
    assert not old.exists()
    assert (tmp_path / again.folder / TABLE).read_text() == (ROOT / kept.folder / TABLE).read_text()
    charts = sorted((tmp_path / again.folder).glob("*.svg"))
    command = CliRunner().invoke(
        app, ["plot", str(run), charts[0].stem, "--output", str(tmp_path / "one.svg")]
    )
    assert command.exit_code == 0, command.output
    chart = charts[0].read_text()
    assert chart == (tmp_path / "one.svg").read_text(), "the README says that this command makes it"
    (newest,) = kept_studies(tmp_path)
    assert newest.date == "2026-01-02" and newest.figures == again.figures


def test_errata_stay_with_the_record_of_their_run(tmp_path: Path) -> None:
    run = unpacked(SMALLEST, tmp_path)
    recording.keep(run, tmp_path, "2026-01-02")
    errata = tmp_path / "records/2026-01-02" / SMALLEST.figures.study / ERRATA
    errata.write_text('[[errata]]\ncontender = "prefork"\nwhy = "?"\n')
    recording.keep(run, tmp_path, "2026-01-02")
    assert errata.is_file()
    about = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(about, indent=3))
    recording.keep(run, tmp_path, "2026-01-02")
    assert not errata.exists(), "they are of another run"


def test_an_incomplete_run_is_not_kept(tmp_path: Path) -> None:
    run = unpacked(KEPT[0], tmp_path)
    (run / "summary.json").unlink()
    (problem,) = refused(recording.keep, run, tmp_path, "2026-01-02")
    assert problem.code == "records.incomplete_run" and "--resume" in problem.hint
    (problem,) = refused(recording.keep, tmp_path, tmp_path, "2026-01-02")
    assert problem.code == "results.no_run"


# What an archive takes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("most", "in_it", "left_out"),
    [
        (1 << 20, {"trials.jsonl", "counted.jsonl"}, set()),
        (20_000, {"trials.jsonl"}, {"counted.jsonl"}),
        (9_000, {"trials.parquet"}, {"trials.jsonl", "counted.jsonl"}),
    ],
)
def test_files_that_are_too_large_are_left_out_of_the_archive_and_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, in_it: set[str], left_out: set[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    drawn = random.Random(7)
    sizes = {"run.json": 100, "summary.json": 2_000, "limits.jsonl": 100, "trials.parquet": 4_000}
    for name, size in {**sizes, "trials.jsonl": 14_000, "counted.jsonl": 14_000}.items():
        (run / name).write_bytes(drawn.randbytes(size))
    monkeypatch.setattr(recording, "MOST_BYTES", most)
    kept, absent = recording.archived(run, tmp_path / ARCHIVE)
    assert set(kept) == {"run.json", "summary.json", "limits.jsonl"} | in_it
    assert set(absent) == left_out
    with tarfile.open(tmp_path / ARCHIVE) as archive:
        assert {Path(name).name for name in archive.getnames()} == set(kept)
    first = (tmp_path / ARCHIVE).read_bytes()
    recording.archived(run, tmp_path / ARCHIVE)
    assert (tmp_path / ARCHIVE).read_bytes() == first
    (run / "trials.jsonl").unlink()  # as in a record that was unpacked
    again, _ = recording.archived(run, tmp_path / ARCHIVE)
    assert "trials.parquet" in again
    monkeypatch.setattr(recording, "MOST_BYTES", 500)
    (problem,) = refused(recording.archived, run, tmp_path / ARCHIVE)
    assert problem.code == "records.archive_too_large"


# On pages ---------------------------------------------------------------------------------------------------


def row(name: str, value: float | None, point: str | None = None, **changes: Any) -> KeptRow:
    given = {
        "contender": name, "base": name.partition("@")[0], "point": point, "design": name.partition("@")[0],
        "primitive": "send_each", "receive": "recv", "is_control": False, "value": value, "low": None,
        "high": None, "shown": f"{value}", "span": "1..2", "rank": None, "letters": "",
    }  # fmt: skip
    return KeptRow(**{**given, **changes})


def pair(a: str, b: str, verdict: str, point: str | None = None) -> KeptPair:
    return KeptPair(a=a, b=b, point=point, verdict=verdict, ratio=1.0, low=None, high=None)


def on_page(shown: KeptTable, design: str) -> str:
    kept = Kept(Path("records/2026-01-02/x"), KEPT[0].figures.model_copy(update={"tables": (shown,)}))
    return recorded([kept], design, {"": lambda each: each.design}, DESIGNS / "x.md")


def kept_table(*rows: KeptRow, pairs: tuple[KeptPair, ...] = (), **changes: Any) -> KeptTable:
    given = {"sweep": None, "title": "", "caption": "CPU", "better": "less", "remarks": ()}
    return KeptTable(**{**given, **changes}, rows=rows, pairs=pairs)


def four_rows(**changes: Any) -> KeptTable:
    """With a verdict of each kind, and a control."""
    rows = (row("a", 1.0), row("b", 2.0), row("c", 3.0), row("d", 1.5, is_control=True))
    pairs = (pair("a", "b", "faster"), pair("c", "b", "slower"), pair("b", "d", "undecided"))
    return kept_table(*rows, pairs=pairs, **changes)


def two_points() -> KeptTable:
    rows = [row(f"{name}@s={at}", value, at) for at in ("1", "2") for name, value in (("a", 1.0), ("b", 2.0))]
    pairs = (pair("a@s=1", "b@s=1", "equivalent", "1"), pair("a@s=2", "b@s=2", "faster", "2"))
    return kept_table(*rows, pairs=pairs, sweep="s", title="over s")


def test_a_contender_without_a_figure_is_compared_with_no_other() -> None:
    """Two that could not be compared are not said to differ by nothing significant."""
    rows = (row("a", 1.0), row("b", 2.0), row("c", None, shown="-", span="", why="no valid trials"))
    shown = kept_table(*rows, pairs=(pair("a", "b", "faster"), pair("a", "c", "undecided")))
    assert "better than `b` |" in on_page(shown, "a") and "`c`" not in on_page(shown, "a")
    assert "no valid trials" in on_page(shown, "c")


def of_clients() -> KeptTable:
    return kept_table(*(row(name, 1.0, client_primitive=name) for name in ("writev", "write_each")))


def test_golden_page_of_kept_tables(golden: Callable[[str, str], None]) -> None:
    absent = kept_table(row("a", 1.0), row("b", None, shown="-", span="", why="unavailable"), row("c", 2.0))
    kept = Kept(Path("records/2026-01-02/x"), KEPT[0].figures.model_copy(update={"tables": (of_clients(),)}))
    pages = {
        "verdicts from the side of the entry": on_page(four_rows(), "b"),
        "a control": on_page(four_rows(), "d"),
        "more is better": on_page(four_rows(better="more", remarks=("all was copied",)), "a"),
        "no figure": on_page(absent, "b"),
        "no pair": on_page(absent, "c"),
        "points of a sweep": on_page(two_points(), "b"),
        "a primitive of the clients": recorded([kept], "writev", entries.SENDING, PRIMITIVES / "writev.md"),
    }
    # The rest of a page is about the record.
    parts = [
        "\n".join([f"# {title}", *(line.partition(" From the record")[0] for line in page.splitlines()
                                   if line.startswith(("|", "CPU")))])
        for title, page in pages.items()
    ]  # fmt: skip
    golden("repository/kept_tables.txt", "\n\n".join(parts) + "\n")


def test_figures_with_an_erratum_are_on_no_page(tmp_path: Path) -> None:
    record = next(each for each in KEPT if each.figures.study == "unp-ch30")
    shown = kept_table(row("a", 1.0), row("b", 2.0), row("c", 3.0), pairs=(pair("a", "b", "faster"),))
    figures = record.figures.model_copy(update={"tables": (shown,)})
    folder = tmp_path / record.folder
    folder.mkdir(parents=True)
    (folder / FIGURES).write_text(figures.model_dump_json())
    assert kept_studies(tmp_path)[0].tables == (shown,)

    (folder / ERRATA).write_text('[[errata]]\ncontender = "b"\nwhy = "it busy-polls"\n')
    (kept,) = kept_studies(tmp_path)
    pages = {name: recorded([kept], name, {"": lambda each: each.design}, DESIGNS / "x.md") for name in "abc"}
    (wrong,) = [line for line in pages["b"].splitlines() if line.startswith("| `b` | - |  | - | ")]
    assert wrong.endswith(": it busy-polls |")
    assert "| 1 of 2 |" in pages["a"] and "| 2 of 2 |" in pages["c"] and "`b`" not in pages["a"]
    assert kept.figures == figures, "the record itself stays as it is"

    (folder / ERRATA).write_text('[[errata]]\ncontender = "d"\nwhy = "?"\n')
    (problem,) = refused(kept_studies, tmp_path)
    assert problem.code == "records.unknown_contender"
    assert problem.message.endswith(" d") and problem.hint.endswith(" a, b, c")
    (folder / ERRATA).write_text("[[errata]]\n")
    (problem,) = refused(kept_studies, tmp_path)
    assert problem.code == "records.invalid_errata" and "contender" in problem.message


def test_the_list_of_records_has_each_erratum() -> None:
    told = make_records.contents()
    assert told == (ROOT / "records/README.md").read_text()
    wrong = [each for kept in KEPT for each in kept.errata]
    assert [told.count(each.why) for each in wrong] == [1] * len(wrong)


def test_a_table_that_compares_something_else_is_not_shown() -> None:
    assert on_page(kept_table(row("a", 1.0), row("b", 2.0, design="a")), "a") == NOT_RECORDED


def test_a_table_of_client_primitives_is_on_their_pages_only() -> None:
    """css503-p4 compares ways in which the clients send: the server's are all the same."""
    kept = Kept(Path("records/2026-01-02/x"), KEPT[0].figures.model_copy(update={"tables": (of_clients(),)}))
    page = recorded([kept], "writev", entries.SENDING, PRIMITIVES / "writev.md")
    assert "| `writev` |" in page and "`write_each`" not in page
    assert recorded([kept], "send_each", entries.SENDING, PRIMITIVES / "x.md") == NOT_RECORDED


def test_rows_in_which_both_sides_use_an_entry_are_shown_once() -> None:
    rows = (row(name, 1.0, receive=name, client_receive=name) for name in ("recv", "readv"))
    figures = KEPT[0].figures.model_copy(update={"tables": (kept_table(*rows),)})
    kept = Kept(Path("records/2026-01-02/x"), figures)
    page = recorded([kept], "recv", entries.RECEIVING, PRIMITIVES / "recv.md")
    assert page.count("| `recv` |") == 1


def test_failed_record_leaves_the_existing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = SMALLEST
    there = tmp_path / kept.folder
    shutil.copytree(ROOT / kept.folder, there)
    before = sorted(each.name for each in there.iterdir())
    monkeypatch.setattr(recording, "MOST_BYTES", 500)
    (problem,) = refused(recording.keep, unpacked(kept, tmp_path / "taken"), tmp_path, kept.date)
    assert problem.code == "records.archive_too_large"
    assert sorted(each.name for each in there.iterdir()) == before
    assert [each.name for each in there.parent.iterdir()] == [there.name]


def test_an_entry_without_a_run_is_marked_as_not_recorded() -> None:
    assert recorded(KEPT, "nobody", {"": lambda each: each.design}, DESIGNS / "x.md") == NOT_RECORDED
    assert system_calls(None, "designs", "epoll", DESIGNS / "epoll.md") == NOT_RECORDED
    assert system_calls(kept_calls(), "designs", "nobody", DESIGNS / "x.md") == NOT_RECORDED


def test_record_of_another_form_is_refused_with_the_command_to_rebuild_it(tmp_path: Path) -> None:
    file = tmp_path / "records/2026-01-02/x" / FIGURES
    file.parent.mkdir(parents=True)
    file.write_text('{"form": 1}')
    (problem,) = refused(kept_studies, tmp_path)
    assert (problem.code, problem.where) == ("records.invalid_figures", str(file))
    assert "make records PARTS=x" in problem.hint


@pytest.mark.thorough
def test_a_record_that_is_judged_again_says_so_and_keeps_its_verdicts(tmp_path: Path) -> None:
    kept = next(each for each in KEPT if each.figures.study == "erss-hw4")
    with tarfile.open(ROOT / kept.folder / ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    (run,) = [path.parent for path in tmp_path.rglob("run.json")]
    make_records.judge_again(run, "2026-01-02")
    summary = json.loads((run / "summary.json").read_text())
    assert {each["id"]: each["verdict"] for each in summary["claims"]} == {
        each.id: each.verdict for each in kept.figures.claims
    }
    assert "judged again on 2026-01-02" in summary["study"]["notes"][-1]
