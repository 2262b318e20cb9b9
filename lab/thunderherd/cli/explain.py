"""The command `explain`: why one contender of a run needs more CPU time than another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from thunderherd.cli.options import AsJson, ResultsDirectory, summary_of
from thunderherd.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

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
    from thunderherd.judge.why.pairs import EXPLAINED_SIDES, is_first
    from thunderherd.records.directory import load
    from thunderherd.show.sentences.counting_cost import about_cpu_time
    from thunderherd.show.sentences.explanation import (
        elsewhere,
        legend,
        reasons,
        remarks,
        sentence,
    )
    from thunderherd.show.sentences.left_out import not_counted, not_sampled
    from thunderherd.show.tables.noise import noise_table
    from thunderherd.show.terminal.explanation import print_explanation
    from thunderherd.show.terminal.tables import print_table
    from thunderherd.text.figures import printable
    from thunderherd.text.layout import make_console, prose

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
    profiles = _profiles(results, summary, a, b)
    try:
        found, missing = _explanations(results, summary, a, b, chosen)
    except UserError as error:
        # Profiles need no counted trials.
        if as_json or not profiles:
            raise
        console = make_console()
        console.print()
        prose(console, f"Not by cause: {_reason(error)}", style="")
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
    """Return sentences on copying, and the files of differential flame graphs, of two contenders or of all.

    Empty if one of the two was not sampled.
    """
    from thunderherd.judge.why.profiles import sampled
    from thunderherd.show.report.profiles import copying_sentences

    known = sampled(summary)
    if summary.profiles is None or (a is not None and a == b) or not {a, b} - {None} <= {*known}:
        return []
    if a is None or b is None:
        return copying_sentences(summary.profiles, known)
    pairs = ((a, b), (b, a))
    graphs = [_differential(results, one, other) for one, other in pairs]
    return [*copying_sentences(summary.profiles, [a, b]), *graphs]


def _differential(results: SavedRun, a: str, b: str) -> str:
    """Return a sentence with the file of the flame graph of a against b, which is drawn if needed."""
    from thunderherd.engine.client import EngineError
    from thunderherd.judge.why.profile_files import differential, differential_file

    file = results.path / differential_file(a, b)
    if not file.exists():
        try:
            differential(results.profiled(), a, b, results.path)
        except (UserError, EngineError, OSError) as error:
            return f"No flame graph of {a} against {b}: {error}"
    return f"Where {a} spends more time than {b}, and where less: {file}"


def _print_profiles(sentences: Sequence[str], console: Console) -> None:
    from thunderherd.text.layout import prose

    for line in sentences:
        prose(console, line, style="")
    if sentences:
        console.print()


def _reason(error: UserError) -> str:
    """Return why there is no explanation, without the name of the command."""
    return "; ".join(str(each.at("")) for each in error.problems).removeprefix("explain: ")


def _per(text: str | None) -> Per | None:
    from thunderherd.records.explanation import Per
    from thunderherd.toml.file import unknown

    if text is None:
        return None
    measures: tuple[Per, ...] = get_args(Per)
    for each in measures:
        if text == each:
            return each
    raise UserError(unknown("measure", text, measures, "explain").at(f"explain: --per {text}"))


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
