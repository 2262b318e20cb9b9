"""The printed tables: every figure is one of summary.json, they fit their width, and texts stay texts."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made.shown.tables import by_name
from made.summaries.summary import document, summary
from rich.console import Console

from thunderherd.records.summary import PROCESS_CONTROL, Summary
from thunderherd.show.sentences import tables as sentences_tables
from thunderherd.show.tables import main
from thunderherd.show.terminal.claims import print_claims
from thunderherd.show.terminal.study import print_pairs, print_study
from thunderherd.text import figures
from thunderherd.text.layout import make_console

FIGURE = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?")
WIDTHS = (80, 100, 120, 200)


def printed(
    show: Callable[[Summary, Console], None], width: int, of: Summary | None = None, terminal: bool = False
) -> str:
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=terminal,
        color_system=None,
        markup=False,
        highlight=False,
    )
    show(of or summary(), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def changed(**paths: Any) -> Summary:
    """The summary with other values: `study__title="x"`, `contenders__0__label="y"`."""
    data = json.loads(document())
    for path, value in paths.items():
        *above, last = [int(part) if part.isdigit() else part for part in path.split("__")]
        place = data
        for part in above:
            place = place[part]
        place[last] = value
    return Summary.model_validate(data)


def leaves(data: Any) -> Iterator[Any]:
    if isinstance(data, dict):
        for value in data.values():
            yield from leaves(value)
    elif isinstance(data, list):
        for value in data:
            yield from leaves(value)
    else:
        yield data


class Recorded:
    """Looks figures up in a summary.json."""

    def __init__(self, text: str) -> None:
        data = json.loads(text)
        found = [leaf for leaf in leaves(data) if leaf is not None and not isinstance(leaf, bool)]
        self.numbers = [float(leaf) for leaf in found if isinstance(leaf, (int, float))]
        # The answer has a ratio from the side of the better contender.
        ends = [pair[name] for pair in data["pairs"] for name in ("ratio", "low", "high")]
        self.numbers += [1 / end for end in ends if end]
        self.texts = {
            each
            for leaf in found
            if isinstance(leaf, str)
            for each in FIGURE.findall(leaf.replace("..", " "))
        }
        self.percents = {
            f"{100 * interval['confidence']:.1f}".removesuffix(".0")
            for interval in (*(each["cpu_seconds"] for each in data["contenders"]), *data["pairs"])
        } | {each for claim in data["claims"] for each in FIGURE.findall(claim["our_figure"])}
        verdicts = Counter(pair["verdict"] for pair in data["pairs"])
        claims = Counter(claim["verdict"] for claim in data["claims"])
        ours = verdicts["faster"] + verdicts["slower"]
        self.counts = {0, ours, *verdicts.values(), *claims.values(), len(data["claims"]), len(data["pairs"])}

    def knows(self, figure: str) -> bool:
        digits = len(figure.partition(".")[2])
        plain = figure.replace(",", "")
        if figure in self.texts or figure in self.percents or (digits == 0 and int(plain) in self.counts):
            return True
        return any(abs(number - float(plain)) <= 0.5 * 10**-digits + 1e-12 for number in self.numbers)


@cache
def recorded() -> Recorded:
    return Recorded(document())


def study_figures(text: str) -> list[list[str]]:
    """The figures of the rows of the study's table, a list for each printed line."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if re.match(r"\s*Row\s+Design", line))
    end = next(index for index, line in enumerate(lines) if line.startswith("Contenders that share"))
    return [FIGURE.findall(line.replace("..", " ")) for line in lines[start + 1 : end]]


@pytest.mark.parametrize("width", WIDTHS)
def test_every_figure_of_the_table_is_in_the_summary(width: int) -> None:
    lines = study_figures(printed(print_study, width))
    found = [figure for line in lines for figure in line]
    assert [figure for figure in found if not recorded().knows(figure)] == []
    # All of them are there: 11 CPU figures with intervals, 10 differences with intervals, 9 of the paper, ...
    assert len(found) > 11 * 3 + 10 * 3 + 9 + 8 * 3 + 10


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("show", [print_study, print_pairs, print_claims])
def test_every_other_figure_is_in_the_summary_too(show: Callable[..., None], width: int) -> None:
    text = printed(show, width).replace("..", " ")
    assert [figure for figure in FIGURE.findall(text) if not recorded().knows(figure)] == []


def test_each_figure_is_in_its_column() -> None:
    text = printed(print_study, 130)
    data = json.loads(document())
    papers = {each["base"]: each["value"] for each in reversed(data["paper"])}
    for each in data["contenders"]:
        line = next(line for line in text.splitlines() if f"  {each['name']} " in line)
        cpu, control, workers = (
            each["cpu_seconds"],
            each["process_control_seconds"],
            each["clients_per_worker"],
        )
        expected = [f"{cpu['value']:.3f}", f"{cpu['low']:.3f}..{cpu['high']:.3f}"]
        if each["name"] == "iterative":
            expected += ["baseline"]
        else:
            expected += [f"{control['value']:.3f}", f"{control['low']:.3f}..{control['high']:.3f}"]
        paper = papers.get(each["name"])
        expected += ["-" if paper is None else f"{paper:.2f}"]
        if workers:
            expected += [f"{workers['minimum']:.0f}..{workers['maximum']:.0f}"]
            expected += [f"{workers['standard_deviation']:.1f}"]
        else:
            expected += ["-"]
        expected += [f"{each['rank'] or '-'} {each['letters']}".strip()]
        cells = re.split(r"\s{2,}", line.strip())
        assert [cell.rstrip("¹²³") for cell in cells[2:]] == expected


def test_the_lookup_itself_finds_an_invented_figure() -> None:
    assert not recorded().knows("0.4321")


@pytest.mark.parametrize("width", [60, *WIDTHS])
@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("show", [print_study, print_pairs, print_claims])
def test_nothing_is_wider_than_the_console_or_cut(
    show: Callable[..., None], terminal: bool, width: int
) -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed(show, width, terminal=terminal))
    assert max(map(len, text.splitlines())) <= max(width, 80)
    if width >= 80:
        assert "…" not in text


def test_a_row_has_one_line_where_there_is_room() -> None:
    rows = [line for line in study_figures(printed(print_study, 120)) if line]
    assert len(rows) == len(summary().contenders)
    assert len([line for line in study_figures(printed(print_study, 80)) if line]) == 2 * len(rows)


def test_rows_of_the_main_table_have_the_expected_cells() -> None:
    table = main.main_table(summary())
    row = {
        name: {head: cell.value for head, cell in own.items()} | {"sd": own["Clients/worker"].span}
        for name, own in by_name(table).items()
    }
    for name, expected in (
        ("iterative", {"Row": "0", "Process control": "baseline", "Paper": "0.00"}),
        ("prefork", {"Row": "2", "Paper": "1.80"}),
        ("prethread", {"Row": figures.ABSENT, "Paper": figures.ABSENT}),
        ("fork_per_client", {"Clients/worker": figures.ABSENT}),
        ("prefork_modern", {"Rank": f" {figures.ABSENT}"}),
    ):
        assert row[name] | expected == row[name]
    assert row["prefork"]["sd"].startswith("sd 1")
    (control,) = [each for each in table.rows if each.kind == "control"]
    assert control.cells[1].value == "prefork_modern"
    letters = {name: {*own["Rank"]} - {*" 0123456789"} for name, own in row.items()}
    assert letters["prefork"] & letters["prefork_mutex"], "not separated, so they share one"
    assert not letters["prefork"] & letters["fork_per_client"]


def test_printed_study_has_units_notes_trial_counts_and_warnings() -> None:
    text = " ".join(printed(print_study, 100).split())
    assert sentences_tables.per_connections(summary()) in text
    assert "4,000" in sentences_tables.per_connections(summary())
    assert sentences_tables.SHARED_LETTERS in text
    assert re.search(r"1\.93[¹²³]", text), "a figure that the source flags carries its mark"
    shown = [each.note for each in summary().paper if each.note and each.metric == PROCESS_CONTROL]
    assert shown and all(" ".join(note.split()) in text for note in shown)
    assert sentences_tables.trial_counts(summary()) in text
    assert all(warning in text for warning in sentences_tables.warnings(summary()))
    assert "seed 30" in text and "11 blocks" in text


def test_labels_are_the_papers_words_only_if_there_are_its_figures() -> None:
    names = {f"contenders__{place}__label": each.name for place, each in enumerate(summary().contenders)}
    without = changed(paper=())
    notes = [main.main_table(each).columns for each in (summary(), without, changed(**names))]
    labels = [next(column.note for column in columns if column.head == "Design") for columns in notes]
    assert labels == ["In the paper's words", "Label", ""]


def test_a_run_without_costs_of_connections_has_no_table_of_them() -> None:
    assert main.more_table(summary()) is not None
    figures = (
        "client_cpu_seconds",
        "machine_cpu_seconds",
        "connections_per_second",
        "voluntary_switches_per_connection",
    )
    nothing = {
        f"contenders__{place}__{name}": None for place in range(len(summary().contenders)) for name in figures
    }
    assert main.more_table(changed(**nothing)) is None


def test_full_length_runs_do_not_speak_of_scaling() -> None:
    whole = changed(study__connections_per_trial=5000)
    assert re.findall(r"[\d,]+", sentences_tables.per_connections(whole)) == ["5,000"]


def test_the_next_command_can_be_pasted() -> None:
    def show(of: Summary, console: Console) -> None:
        print_study(of, console, Path("my results/it's"))

    assert """thunderherd claims unp-ch30 'my results/it'"'"'s'""" in printed(show, 100)


def test_claims_are_shown_whole() -> None:
    text = " ".join(printed(print_claims, 100).split())
    for claim in summary().claims:
        assert f"{claim.id} {claim.verdict}" in text
        for part in (
            claim.statement,
            claim.paper_figure or "",
            claim.our_figure,
            claim.why,
            claim.source_note or "",
        ):
            assert all(" ".join(line.split()) in text for line in part.splitlines())


def test_pairs_show_both_names_ratio_interval_and_verdict() -> None:
    row = dict(
        zip(["a", "is", "b", "ratio", "blocks"], main.pairs_table(summary()).rows[0].cells, strict=False)
    )
    values = {name: cell.value for name, cell in row.items()}
    expected = {"a": "iterative", "is": "faster", "b": "fork_per_client", "blocks": "11"}
    assert values | expected == values
    text = printed(print_pairs, 120)
    line = next(
        line for line in text.splitlines() if line.startswith("iterative") and "fork_per_client" in line
    )
    assert line.split()[:5] == [
        "iterative",
        "faster",
        "fork_per_client",
        values["ratio"],
        row["ratio"].span.replace(" to ", ".."),
    ]


def test_run_without_figures_can_be_shown() -> None:
    nothing = {"cpu_seconds": None, "process_control_seconds": None, "clients_per_worker": None, "rank": None}
    data = json.loads(document())
    for contender in data["contenders"]:
        contender |= nothing | {"letters": "", "worker_connections": None}
    for pair in data["pairs"]:
        pair |= dict.fromkeys(["ratio", "low", "high", "p", "p_adjusted", "smallest_detectable_percent"])
    empty = Summary.model_validate(data | {"claims": [], "questions": []})
    for show in (print_study, print_pairs, print_claims):
        assert printed(show, 80, empty)
    assert "no claims" in printed(print_claims, 80, empty)


def test_names_stay_text() -> None:
    hostile = changed(
        study__title="[bold]x[/bold] \x1b[31mred",
        contenders__0__label="[/]",
        study__notes=["[link=file:///etc/passwd]click[/link]"],
        claims__0__statement="\x1b]0;title\x07 [red]",
    )
    text = printed(print_study, 200, hostile) + printed(print_claims, 200, hostile)
    assert "\x1b" not in text and "\x07" not in text
    assert "[bold]x[/bold]" in text and "[link=file:///etc/passwd]click[/link]" in text and "[red]" in text


def test_plain_output_has_no_colours_and_no_blanks_at_line_ends() -> None:
    stream = io.StringIO()
    console = make_console(stream)
    for show in (print_study, print_pairs, print_claims):
        show(summary(), console)
    assert "\x1b" not in stream.getvalue()
    assert [line for line in stream.getvalue().splitlines() if line != line.rstrip()] == []


def test_an_encoding_that_lacks_a_character_ends_nothing() -> None:
    buffer = io.BytesIO()
    stream = io.TextIOWrapper(buffer, encoding="ascii")
    print_study(summary(), make_console(stream))
    stream.flush()
    assert b"0.212" in buffer.getvalue() or b"fork_per_client" in buffer.getvalue()


@given(st.floats(-1e6, 1e6), st.integers(0, 6))
def test_a_number_is_rounded_and_never_minus_zero(value: float, digits: int) -> None:
    text = figures.number(value, digits)
    assert abs(float(text.replace(",", "")) - value) <= 0.5 * 10**-digits + 1e-9
    assert not re.fullmatch(r"-0(\.0*)?", text)


def test_decimals_keep_three_digits_of_the_smallest() -> None:
    assert figures.decimals([1.2, 0.0441]) == 4
    assert figures.decimals([20.9]) == 1
    assert figures.decimals([]) == 2
    assert figures.decimals([0.0]) == 2
