"""The command `explain`: why one contender of a run needs more CPU time than another."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from thunderherd.cli.options import PROGRAM, AsJson, ResultsDirectory, summary_of
from thunderherd.errors import UserError

if TYPE_CHECKING:
    from thunderherd.records.directory import SavedRun
    from thunderherd.records.explanation import Explanation, Per
    from thunderherd.records.summary import Summary

__all__ = ["explain"]


def explain(
    directory: ResultsDirectory,
    a: Annotated[
        str | None,
        typer.Argument(metavar="[A]", help="Contender to explain (default: the best of each table)."),
    ] = None,
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="Contender to compare with (default: each other).")
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(
            "--per",
            metavar="request|byte|connection",
            help="Unit to which CPU time refers (default: byte if the study compares bytes, else request).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain why one contender needs more CPU time than another.

    An explanation lists what happens more often, each at its price.
    """
    from thunderherd.records.directory import load
    from thunderherd.show.terminal.explanation import Explained, print_explained, print_not_explained
    from thunderherd.text.layout import make_console

    results, summary = load(directory), summary_of(directory)
    if a is not None and b is None:
        names = [each.name for each in summary.contenders if each.name != a]
        raise UserError(
            f"{a} has nothing to be compared with",
            code="explain.one_contender",
            hint=f"give two contenders, such as {a} {names[0] if names else 'B'}, or none",
            where="explain",
        )
    chosen = _per(per)
    samples, graphs = _profiles(results, summary, a, b)
    try:
        found, missing = _explanations(results, summary, a, b, chosen)
    except UserError as error:
        # Profiles need no counted trials.
        if as_json or not samples:
            raise
        print_not_explained(_reason(error), samples, [*graphs, *_following(results)], make_console())
        return
    if as_json:
        print(json.dumps([each.model_dump() for each in found], indent=2, ensure_ascii=False))
        return
    pairs: dict[tuple[str, str], list[Explanation]] = {}
    for each in found:
        pairs.setdefault((each.a, each.b), []).append(each)
    uncounted, commands = _uncounted(summary) if a is None else ([], [])
    explained = Explained(
        [*pairs.values()],
        [*missing, *uncounted, *samples],
        [*graphs, *commands, *_following(results, [of_pair[0] for of_pair in pairs.values()])],
    )
    print_explained(explained, summary, make_console())


def _following(results: SavedRun, pairs: Sequence[Explanation] = ()) -> list[tuple[str, str]]:
    """Return where the report is, and the next command: for the pair that differs most, or for its counts."""
    from thunderherd.show.report.page import FILE_NAME
    from thunderherd.show.sentences.explanation import largest_of

    report = results.path / FILE_NAME
    largest = largest_of(pairs) or next(iter(pairs), None)
    counts = [PROGRAM, "table", str(results.path), "--counters"]
    of_pair = (
        [PROGRAM, "explain", str(results.path), largest.a, largest.b] if largest and pairs[1:] else counts
    )
    return [
        ("Report", str(report) if report.exists() else f"{PROGRAM} report {shlex.quote(str(results.path))}"),
        ("Noise", shlex.join([PROGRAM, "table", str(results.path), "noise"])),
        ("Next", shlex.join(of_pair)),
    ]


def _uncounted(summary: Summary) -> tuple[list[str], list[tuple[str, str]]]:
    """Return notes on what was not counted, and the command that counts at the first such point."""
    from thunderherd.show.sentences.explanation import command_to_count
    from thunderherd.show.sentences.left_out import not_counted, not_sampled

    sweeps = [each for each in summary.sweeps if each.uncounted_points]
    places = [f"{each.name} at {', '.join(each.uncounted_points)}" for each in sweeps]
    notes = [f"not counted: sweep {'; '.join(places)}"] if places else []
    commands = [("Count", command_to_count(summary, each)) for each in sweeps[:1]]
    return [*not_counted(summary), *not_sampled(summary), *notes], commands


def _profiles(
    results: SavedRun, summary: Summary, a: str | None, b: str | None
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return sentences on copying, and the files of differential flame graphs, of two contenders or of all.

    Empty if one of the two was not sampled.
    """
    from thunderherd.judge.why.profiles import sampled
    from thunderherd.show.report.profiles import copying_sentences

    known = sampled(summary)
    if summary.profiles is None or (a is not None and a == b) or not {a, b} - {None} <= {*known}:
        return [], []
    if a is None or b is None:
        return copying_sentences(summary.profiles, known), []
    graphs = [_differential(results, one, other) for one, other in ((a, b), (b, a))]
    reasons = [each for each in graphs if isinstance(each, str)]
    files = [("Graph", str(each)) for each in graphs if not isinstance(each, str)]
    return [*copying_sentences(summary.profiles, [a, b]), *reasons], files


def _differential(results: SavedRun, a: str, b: str) -> Path | str:
    """Return the file of the flame graph of a against b, which is drawn if needed, or why there is none."""
    from thunderherd.engine.client import EngineError
    from thunderherd.judge.why.profile_files import differential, differential_file

    file = results.path / differential_file(a, b)
    if not file.exists():
        try:
            differential(results.profiled(), a, b, results.path)
        except (UserError, EngineError, OSError) as error:
            return f"no flame graph of {a} against {b}: {error}"
    return file


def _reason(error: UserError) -> str:
    """Return why there is no explanation, without the name of the command."""
    return "; ".join(str(each.at("")) for each in error.problems).removeprefix("explain: ")


def _per(text: str | None) -> Per | None:
    from thunderherd.records.explanation import Per
    from thunderherd.toml.file import unknown

    if text is None:
        return None
    units: tuple[Per, ...] = get_args(Per)
    for each in units:
        if text == each:
            return each
    raise UserError(unknown("unit", text, units, "explain").at(f"explain: --per {text}"))


def _explanations(
    results: SavedRun, summary: Summary, a: str | None, b: str | None, per: Per | None
) -> tuple[Sequence[Explanation], list[str]]:
    """Return the explanations, and a line for each pair that has none.

    Raises `UserError` if there is no explanation at all.
    """
    from thunderherd.judge.why.pairs import (
        EXPLAINED_SIDES,
        command_to_run_again,
        counts_of,
        explained,
        limits_of,
        pairs_of,
    )

    where, sides = str(results.path), EXPLAINED_SIDES
    if a is not None and b is not None:
        of_both = [
            explained(summary, results.trials, a, b, side=side, per=per, where=where) for side in sides
        ]
        return of_both, []
    limits_of(summary, where)
    pairs = pairs_of(summary)
    if not pairs:
        for each in summary.contenders[:1]:
            counts_of(summary, each.name, where)
        raise UserError(
            "fewer than two contenders have counted trials",
            code="explain.nothing_to_compare",
            hint=f"run the study again: {command_to_run_again(summary)}",
            where=f"explain: {where}",
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
            missing.append(f"{one} against {other}: {_reason(error)}")
    if not found:
        raise failed[0]
    return found, missing
