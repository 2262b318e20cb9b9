"""The last pages of commands at 80 columns, printed from made and kept summaries."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from made.engine_loads import made_load
from made.paths import TESTS
from made.summaries import summary as synthetic
from made.summaries.knees import KNEES, made_knees
from made.summaries.searched_crossovers import TRUTHS, searched
from rich.console import Console

from thunderherd.engine.merged_loads import merged_loads
from thunderherd.show.terminal.crossover import print_crossover
from thunderherd.show.terminal.knee import print_knees
from thunderherd.show.terminal.merged import print_merged
from thunderherd.show.terminal.study import print_pairs, print_study

Golden = Callable[[str, str], None]

WIDTH = 80
RESULTS = "results/2026-11-25-12-00-00-a-search-whose-directory-has-a-long-name/last-stage/report.html"
FOLLOWING = (("Report", RESULTS), ("Next", f"thunderherd table {RESULTS}"))


def printed(show: Callable[[Console], Any], *, terminal: bool = False) -> str:
    stream = io.StringIO()
    show(Console(file=stream, width=WIDTH, force_terminal=terminal, markup=False, highlight=False))
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
    "run": lambda console: print_study(synthetic.summary(), console, Path("results/unp-ch30")),
    "run-pairs": lambda console: print_pairs(synthetic.summary(), console),
}


@pytest.mark.parametrize("name", PAGES)
def test_page(name: str, golden: Golden) -> None:
    golden(f"pages/{name}.txt", printed(PAGES[name]))


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
