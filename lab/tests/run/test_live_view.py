"""The live view of a run: its content, that it fits the terminal, and the lines that stay."""

from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest
from made.summaries.trials import made_trial
from rich.console import Console

from thunderherd.records.summary import TrialRecord
from thunderherd.run.live_view import (
    DRAWN_COLUMNS,
    NO_TRIAL,
    SO_FAR,
    LiveView,
    PlainView,
    choose,
    ranking_line,
)
from thunderherd.run.plan import next_in_block, plan
from thunderherd.run.progress import Clock, PlainProgress, invalid_line
from thunderherd.run.ranking_so_far import RankingSoFar
from thunderherd.statistics.comparisons import block_order
from thunderherd.study.loading import Study

COSTS = {"iterative": 20e-6, "fork_per_client": 100e-6, "prefork": 30e-6}


def terminal() -> io.StringIO:
    stream = io.StringIO()
    stream.isatty = lambda: True  # type: ignore[method-assign]
    return stream


def trial(study: Study, name: str, block: int, **how: bool) -> TrialRecord:
    cost = COSTS[name] * (1 + 0.01 * ((block * 7 + len(name)) % 5))
    return made_trial(study, name, block, cost=cost, **how)


def shown(view: LiveView, *, width: int = 130, height: int = 40) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, height=height, markup=False, highlight=False)
    console.print(view.rendered(console))
    return stream.getvalue()


def test_a_terminal_gets_the_view_and_keeps_what_matters(
    small_study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose(small_study, io.StringIO()), PlainProgress)
    stream = terminal()
    view = choose(small_study, stream)
    assert isinstance(view, LiveView)
    good, bad = trial(small_study, "prefork", 1), trial(small_study, "prefork", 1, valid=False)
    with view:
        view.begins([])
        view.plan(10, 30)
        view.trial_begins(1, "prefork", 1, 3)
        view.trial_ends(bad)
        view.block_ends(1, [good, bad], "noisy")
    text = stream.getvalue()
    assert invalid_line(bad) in text
    assert re.search(r"block 1/10: 1 .*valid, 1 invalid, noisy", text)
    assert text.rstrip().endswith("\x1b[2K") or text.count("\x1b[?25h") == 1  # the cursor is back


def test_view_ranks_trials_so_far_and_names_the_current_one(small_study: Study) -> None:
    view = LiveView(small_study, terminal())
    assert NO_TRIAL in shown(view)
    view.begins([trial(small_study, name, 1) for name in COSTS])
    view.plan(10, 27)
    view.trial_begins(2, "prefork", 2, 3)
    text = shown(view)
    rows = [line.split()[0] for line in text.splitlines() if line.split()[0] in COSTS]
    assert rows == sorted(COSTS, key=lambda name: COSTS[name])
    assert "block 2/10 · trial 2/3 · 3 trials" in text and ", 27 " in text
    assert re.search(r"prefork, .* s$", text, re.MULTILINE) and re.search(r"\d (s|min) left", text)
    assert SO_FAR in text and re.search(r"\d s .*CPU", text)


def test_intervals_narrow_with_more_trials(small_study: Study) -> None:
    view = LiveView(small_study, terminal())
    halves = []
    for block in range(1, 31):
        for name in COSTS:
            view.ranking.add(trial(small_study, name, block))
        if block in (8, 30):
            found = re.search(r"prefork .*±([\d.]+)%", shown(view))
            assert found
            halves.append(float(found[1]))
    assert halves[1] < halves[0]
    assert "no bounds" not in shown(view)


@pytest.mark.parametrize(("width", "height"), [(40, 8), (80, 10), (130, 12)])
def test_view_fits_its_terminal(small_study: Study, width: int, height: int) -> None:
    view = LiveView(small_study, terminal())
    view.begins([trial(small_study, name, block) for block in range(1, 9) for name in COSTS])
    view.plan(10, 6)
    view.trial_begins(9, "prefork", 1, 3)
    lines = shown(view, width=width, height=height).splitlines()
    assert len(lines) <= max(height, 3 + 6)
    assert max(map(len, lines)) <= width
    assert ("●" in "".join(lines)) == (width >= 100)


def test_intervals_are_drawn_on_one_scale(small_study: Study) -> None:
    view = LiveView(small_study, terminal())
    view.begins([trial(small_study, name, block) for block in range(1, 9) for name in COSTS])
    drawn = [line.rstrip() for line in shown(view).splitlines() if "●" in line]
    assert len(drawn) == 3
    places = [place for line in drawn for place, each in enumerate(line) if each in "├─┤●"]
    assert max(places) - min(places) < DRAWN_COLUMNS
    centres = [line.index("●") for line in drawn]
    assert centres == sorted(centres) and centres[0] < centres[-1]


def test_names_of_a_study_do_not_steer_the_terminal(small_study: Study) -> None:
    hostile = "evil\x1b[2J"
    contenders = tuple(
        each.model_copy(update={"name": hostile, "base": hostile}) if each.name == "prefork" else each
        for each in small_study.contenders
    )
    study = small_study.model_copy(update={"contenders": contenders})
    view = LiveView(study, terminal())
    view.begins([trial(small_study, "prefork", 1).model_copy(update={"contender": hostile})])
    view.plan(10, 3)
    view.trial_begins(1, hostile, 1, 3)
    text = shown(view)
    assert "evil\ufffd[2J" in text and "\x1b[2J" not in text
    assert "\x1b" not in ranking_line(view.ranking)


def test_plain_view_prints_the_ranking_after_each_block(small_study: Study) -> None:
    said = io.StringIO()
    view = PlainView(small_study, said)
    view.plan(10, 30)
    block = [trial(small_study, name, 1) for name in COSTS]
    for each in block:
        view.trial_begins(1, each.contender, 1, 3)
        view.trial_ends(each)
    view.block_ends(1, block, "")
    first, second = said.getvalue().splitlines()
    assert first.startswith("block 1/10: 3 ")
    assert second.startswith("so far") and "iterative" in second.split(": ", 1)[1]


def test_views_match_the_golden_file(small_study: Study, golden: Callable[[str, str], None]) -> None:
    """What `watch` draws on a terminal and prints in a pipe; a run draws the same view."""
    of_terminal, said = LiveView(small_study, terminal()), io.StringIO()
    in_pipe = PlainView(small_study, said)
    before = [trial(small_study, name, block) for block in range(1, 9) for name in COSTS]
    block = [trial(small_study, name, 9, valid=name != "prefork") for name in COSTS]
    for view in (of_terminal, in_pipe):
        view.begins(before)
        view.plan(10, 6)
        for each in block:
            view.trial_begins(9, each.contender, 1, 3)
            view.trial_ends(each)
        view.block_ends(9, block, "noisy")
        view.trial_begins(10, "iterative", 1, 3)
    page = f"{shown(LiveView(small_study, terminal()))}\n{shown(of_terminal)}\n{said.getvalue()}"
    golden("run/live_view.txt", re.sub(r"[0-9.]+ s( of CPU| left|$)", r"N s\1", page, flags=re.MULTILINE))


def test_ranking_ignores_invalid_trials(small_study: Study) -> None:
    ranking = RankingSoFar(small_study)
    ranking.add(trial(small_study, "prefork", 1, valid=False))
    assert ranking.invalid == ranking.trials == 1
    assert ranking.groups()[0].ranked == ()
    assert ranking_line(ranking) == ""


def test_time_left_uses_the_duration_of_past_trials() -> None:
    clock = Clock()
    clock.trials_left = 11
    clock.begin()
    clock.end("a", 7.0)
    assert clock.usual("a") == pytest.approx(7.0, abs=0.1) and clock.left() == "70 s left"


def test_the_plan_is_the_order_of_the_seed(small_study: Study) -> None:
    """The plan, called repeatedly, gives the whole run; an invalid trial is repeated at the end of its
    block."""
    trials: list[TrialRecord] = []
    ran = []
    while (number := plan(small_study, trials).number) is not None:
        following = next_in_block(small_study, 5, number, trials)
        assert following is not None and len(ran) < 40
        ran.append((number, following.contender, following.attempt))
        valid = (number, following.contender, following.attempt) != (2, "prefork", 1)
        made = trial(small_study, following.contender, number, valid=valid)
        trials.append(made.model_copy(update={"attempt": following.attempt}))
    names = [each.name for each in small_study.contenders]
    expected = [(block, name, 1) for block in range(1, 11) for name in block_order(names, 5, block)]
    expected.insert(6, (2, "prefork", 2))
    assert ran == expected


def test_a_contender_that_is_left_out_is_not_waited_for(small_study: Study) -> None:
    view = LiveView(small_study, io.StringIO())
    view.begins([], {"prefork": "no program"})
    waiting = [name for group in view.ranking.groups() for name in group.waiting]
    assert waiting and "prefork" not in waiting
