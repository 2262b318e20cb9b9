"""`thunderherd explain`: why one contender of a run needs more CPU time than another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import get_args

from thunderherd.errors import UserError
from thunderherd.explained import SIDES, counts_of, explained, limits_of, pairs_of
from thunderherd.explanation_form import Explanation, Per
from thunderherd.explanation_words import legend, print_explanation, reasons, sentence
from thunderherd.layout import make_console, prose
from thunderherd.records import Summary
from thunderherd.results import Results
from thunderherd.study_file import unknown


def show_explanation(
    results: Results,
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
    found = _asked(results, summary, a, b, chosen)
    if as_json:
        print(json.dumps([each.model_dump() for each in found], indent=2, ensure_ascii=False))
        return
    console = make_console()
    console.print()
    for each in found:
        if a is not None or each.side == SIDES[0]:
            print_explanation(each, console)
        else:
            prose(console, sentence(each), style="")
            console.print()
    for line in [*reasons(found), *legend(found[0])]:
        prose(console, line)


def _per(text: str | None) -> Per | None:
    if text is None:
        return None
    measures: tuple[Per, ...] = get_args(Per)
    for each in measures:
        if text == each:
            return each
    raise UserError(f"explain: --per: {unknown('measure', text, measures)}")


def _asked(
    results: Results, summary: Summary, a: str | None, b: str | None, per: Per | None
) -> Sequence[Explanation]:
    where, sides = str(results.path), SIDES
    if a is not None and b is not None:
        return [explained(summary, results.trials, a, b, side=side, per=per, where=where) for side in sides]
    limits_of(summary, where)
    pairs = pairs_of(summary)
    if not pairs:
        for each in summary.contenders[:1]:
            counts_of(summary, each.name, where)
        raise UserError(
            f"explain: {where} has fewer than two contenders with counted trials: nothing to compare"
        )
    return [
        explained(summary, results.trials, one, other, side=side, per=per, where=where)
        for one, other in pairs
        for side in sides
    ]
