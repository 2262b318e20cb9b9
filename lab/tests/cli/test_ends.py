"""The last pages of commands at 80 columns, printed from made and kept summaries."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from made.paths import TESTS
from made.shown.engine_loads import made_load
from made.summaries import summary as synthetic
from made.summaries.knees import KNEES, made_knees
from made.summaries.searched_crossovers import TRUTHS, searched
from rich.console import Console

from thunderherd.engine.merged_loads import merged_loads
from thunderherd.show.terminal.crossover import print_crossover
from thunderherd.show.terminal.knee import print_knees
from thunderherd.show.terminal.merged import print_merged
from thunderherd.show.terminal.study import print_pairs, print_study
from thunderherd.text.layout import make_console

Golden = Callable[[str, str], None]

WIDTH = 80
RESULTS = "results/2026-11-25-12-00-00-a-search-whose-directory-has-a-long-name/last-stage/report.html"
FOLLOWING = (("Report", RESULTS), ("Next", f"thunderherd table {RESULTS}"))


def printed(show: Callable[[Console], Any], *, terminal: bool = False, width: int = WIDTH) -> str:
    stream = io.StringIO()
    show(
        Console(
            file=stream, width=width, force_terminal=terminal, markup=False, highlight=False,
            color_system="standard" if terminal else "auto",
        )
    )  # fmt: skip
    return "".join(f"{line.rstrip()}\n" for line in stream.getvalue().splitlines())


PAGES: dict[str, Callable[[Console], Any]] = {
    "knee": lambda console: print_knees(made_knees(*KNEES), console, FOLLOWING),
    "knee-of-one": lambda console: print_knees(made_knees("epoll"), console, FOLLOWING),
    "knee-of-late-loads": lambda console: print_knees(made_knees("epoll", "prefork", late=True), console),
    **{
        f"crossover-{what}": partial(
            lambda console, what: print_crossover(searched(what), console, FOLLOWING), what=what
        )
        for what in TRUTHS
    },
    "merge": lambda console: print_merged(merged_loads([made_load(1), made_load(2)]), console),
    "merge-invalid": lambda console: print_merged(
        merged_loads([made_load(each, late=True) for each in (1, 2, 3)]), console
    ),
    "run": lambda console: print_study(
        synthetic.summary(), console, Path("results/unp-ch30"), Path("results/unp-ch30/report.html")
    ),
    "run-pairs": lambda console: print_pairs(synthetic.summary(), console),
}


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, golden: Golden) -> None:
    golden(f"pages/{name}.txt", printed(PAGES[name]))


# Colours and bars ------------------------------------------------------------------------------------------

ESCAPE = re.compile(r"\x1b\[([\d;]*)m")
GREEN, YELLOW, BOLD = "32", "33", "1"
BLOCKS = re.compile("[▏▎▍▌▋▊▉█]+")


def codes(text: str) -> set[str]:
    """The codes of styles in a text."""
    return {code for found in ESCAPE.findall(text) for code in found.split(";")}


@pytest.fixture
def coloured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("coloured")
def test_better_ones_are_green_and_undecided_ones_yellow_on_a_terminal() -> None:
    first, *_ = printed(PAGES["knee"], terminal=True).strip().splitlines()
    assert ESCAPE.findall(first)[0] == f"{BOLD};{GREEN}" and ESCAPE.split(first)[2] == "epoll"
    found = printed(PAGES["crossover-one"], terminal=True)
    (undecided, *_) = [line for line in found.splitlines() if "undecided" in line]
    assert YELLOW in codes(undecided) and GREEN not in codes(undecided)
    nowhere = printed(PAGES["crossover-nowhere"], terminal=True).strip().splitlines()
    assert ESCAPE.findall(nowhere[0])[0] == f"{BOLD};{YELLOW}"


@pytest.mark.parametrize("name", PAGES)
def test_a_pipe_gets_neither_colours_nor_bars(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A console as commands make it, on a file."""
    for variable in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(variable, raising=False)
    stream = io.StringIO()
    PAGES[name](make_console(stream))
    assert "\x1b" not in stream.getvalue() and not BLOCKS.search(stream.getvalue())


@pytest.mark.parametrize("name", PAGES)
def test_without_colours_a_terminal_shows_the_same_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    plain = printed(PAGES[name], terminal=True)
    assert not codes(plain) & {*map(str, range(30, 50))}
    monkeypatch.delenv("NO_COLOR")
    assert ESCAPE.sub("", printed(PAGES[name], terminal=True)) == ESCAPE.sub("", plain)
    assert all(len(line) <= WIDTH or line.startswith(WHOLE) for line in ESCAPE.sub("", plain).splitlines())


@pytest.mark.usefixtures("coloured")
@pytest.mark.parametrize(("width", "longest"), [(140, 16), (80, 10)])
def test_bars_are_as_long_as_their_figures(width: int, longest: int) -> None:
    found = ESCAPE.sub("", printed(PAGES["knee"], terminal=True, width=width))
    bars = {
        name: len(bar[0]) for name in KNEES for line in found.splitlines()
        if line.startswith(name) and (bar := BLOCKS.search(line))
    }  # fmt: skip
    shares = {name: rate / max(KNEES.values()) for name, rate in KNEES.items()}
    assert bars == {name: pytest.approx(longest * share, abs=1) for name, share in shares.items()}
    assert max(bars.values()) == longest


# Widths -----------------------------------------------------------------------------------------------------

WHOLE = (
    "Report",
    "Picture",
    "Answer",
    "Results",
    "Next",
    "Count",
    "Noise",
    "Why",
    "Counters",
    "Study",
    "Graph",
)
"""The heads of paths and commands, which are never folded."""

AT_80 = [
    *(TESTS / "golden/pages").glob("*.txt"),
    *(TESTS / "golden/cli").glob("help*.txt"),
    *(TESTS / f"golden/cli/list{part}.txt" for part in ("", "-kind", "-entry")),
    *(TESTS / "golden").glob("*/table.txt"),
    *(TESTS / "golden").glob("*/explain*.txt"),
    *(TESTS / "golden").glob("*/claims.txt"),
    TESTS / "golden/unp-ch30/counters.txt",
    TESTS / "golden/compare/answer.txt",
    TESTS / "golden/search/knee.txt",
    TESTS / "golden/doctor/page.txt",
]


@pytest.mark.parametrize("path", sorted(AT_80), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_line_is_longer_than_the_terminal(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 1
    long = [line for line in lines if len(line) > WIDTH and not line.startswith(WHOLE)]
    assert long == []


@pytest.mark.parametrize("path", sorted((TESTS / "golden/pages").glob("*.txt")), ids=lambda path: path.stem)
def test_no_page_has_two_empty_lines_or_a_blank_at_an_end(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "\n\n\n" not in text and not text.endswith("\n\n")
    assert all(line == line.rstrip() for line in text.splitlines())
