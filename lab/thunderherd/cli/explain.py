"""`thunderherd explain`: why one contender of a run needs more CPU time than another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import get_args

from rich.console import Console

from thunderherd.engine.client import EngineError
from thunderherd.errors import UserError
from thunderherd.judge.why.flame_graphs import differential, differential_file
from thunderherd.judge.why.pairs import EXPLAINED_SIDES, counts_of, explained, is_first, limits_of, pairs_of
from thunderherd.judge.why.profiles import sampled
from thunderherd.records.directory import SavedRun
from thunderherd.records.explanation import Explanation, Per
from thunderherd.records.summary import Summary
from thunderherd.show.report.profiles import copying_sentences
from thunderherd.show.sentences.counting_cost import about_cpu_time
from thunderherd.show.sentences.explanation import (
    elsewhere,
    legend,
    reasons,
    remarks,
    sentence,
)
from thunderherd.show.sentences.left_out import not_counted, not_sampled
from thunderherd.show.tables.explanation import print_explanation
from thunderherd.show.tables.noise import noise_table
from thunderherd.show.tables.terminal import print_table
from thunderherd.text.figures import printable
from thunderherd.text.layout import make_console, prose
from thunderherd.toml.file import unknown


def show_explanation(
    results: SavedRun,
    summary: Summary,
    a: str | None,
    b: str | None,
    *,
    per: str | None,
    as_json: bool,
) -> None:
    """Prints why `a` needs more than `b`, or less; without both, why the best of each table beats the others.

    Raises `UserError` where it cannot be told, with what to type.
    """
    if a is not None and b is None:
        names = [each.name for each in summary.contenders if each.name != a]
        other = names[0] if names else "B"
        raise UserError(f"explain: {a} against whom? Give two contenders, such as {a} {other}, or none")
    chosen = _per(per)
    profiles = _profiles(results, summary, a, b)
    try:
        found, missing = _asked(results, summary, a, b, chosen)
    except UserError as error:
        # What was sampled can be told without what was counted.
        if as_json or not profiles:
            raise
        console = make_console()
        console.print()
        prose(console, f"Not by cause: {str(error).removeprefix('explain: ')}", style="")
        console.print()
        _print_profiles(profiles, console)
        return
    if as_json:
        print(json.dumps([each.model_dump() for each in found], indent=2, ensure_ascii=False))
        return
    console = make_console()
    console.print()
    for each in found:
        if a is not None or (each.side == EXPLAINED_SIDES[0] and is_first(summary, each.a)):
            print_explanation(each, console)
        else:
            prose(console, sentence(each), style="")
            console.print()
    for sweep in summary.sweeps if a is None else ():
        if (others := elsewhere(summary, sweep)) is not None:
            prose(console, printable(f"Sweep {sweep.name}: {others}."))
    for line in missing:
        prose(console, printable(line))
    for line in [*not_counted(summary), *not_sampled(summary)] if a is None else ():
        prose(console, line)
    _print_profiles(profiles, console)
    names = [*dict.fromkeys(name for each in found for name in (each.a, each.b))]
    if (noise := noise_table(summary, names)) is not None:
        print_table(noise, console)
        console.print()
    disturbed = summary.limits.disturbed if summary.limits else ""
    for line in [
        *([f"{disturbed}."] if disturbed else []),
        *about_cpu_time(summary),
        *remarks(found),
        *reasons(found),
        *legend(found[0]),
    ]:
        prose(console, line)


def _profiles(results: SavedRun, summary: Summary, a: str | None, b: str | None) -> list[str]:
    """How much of two contenders' time is copying, and where the flame graphs of the difference are; of
    all, where none is named. Nothing where one of both was not sampled."""
    known = sampled(summary)
    if summary.profiles is None or (a is not None and a == b) or not {a, b} - {None} <= {*known}:
        return []
    if a is None or b is None:
        return copying_sentences(summary.profiles, known)
    pairs = ((a, b), (b, a))
    graphs = [_differential(results, one, other) for one, other in pairs]
    return [*copying_sentences(summary.profiles, [a, b]), *graphs]


def _differential(results: SavedRun, a: str, b: str) -> str:
    """Where the flame graph of a against b is, which is drawn if the run has not; or why there is none."""
    file = results.path / differential_file(a, b)
    if not file.exists():
        try:
            differential(results.profiled(), a, b, results.path)
        except (UserError, EngineError, OSError) as error:
            return f"No flame graph of {a} against {b}: {error}"
    return f"Where {a} spends more time than {b}, and where less: {file}"


def _print_profiles(said: Sequence[str], console: Console) -> None:
    for line in said:
        prose(console, line, style="")
    if said:
        console.print()


def _per(text: str | None) -> Per | None:
    if text is None:
        return None
    measures: tuple[Per, ...] = get_args(Per)
    for each in measures:
        if text == each:
            return each
    raise UserError(f"explain: --per: {unknown('measure', text, measures)}")


def _asked(
    results: SavedRun, summary: Summary, a: str | None, b: str | None, per: Per | None
) -> tuple[Sequence[Explanation], list[str]]:
    """The explanations, and of which pairs there are none, and why. Raises `UserError` where there is none at
    all."""
    where, sides = str(results.path), EXPLAINED_SIDES
    if a is not None and b is not None:
        told = [explained(summary, results.trials, a, b, side=side, per=per, where=where) for side in sides]
        return told, []
    limits_of(summary, where)
    pairs = pairs_of(summary)
    if not pairs:
        for each in summary.contenders[:1]:
            counts_of(summary, each.name, where)
        raise UserError(
            f"explain: {where} has fewer than two contenders with counted trials: nothing to compare"
        )
    found: list[Explanation] = []
    failed: list[UserError] = []
    missing = []
    for one, other in pairs:
        try:
            found += [
                explained(summary, results.trials, one, other, side=side, per=per, where=where)
                for side in sides
            ]
        except UserError as error:
            failed.append(error)
            missing.append(f"{one} against {other}: {str(error).removeprefix('explain: ')}")
    if not found:
        raise failed[0]
    return found, missing
