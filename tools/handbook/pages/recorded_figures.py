"""The recorded figures of an entry, as parts of its page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from handbook.markdown import plain, table
from handbook.records.kept import Kept, KeptPair, KeptRow, KeptTable

NOT_RECORDED = "No record has it."

WORDS = {
    "faster": "better",
    "slower": "worse",
    "equivalent": "equivalent",
    "undecided": "no significant difference",
}
"""A verdict on the first contender of a pair, in the words of a page."""

OTHER_WAY = {"faster": "slower", "slower": "faster"}

Belongs = Callable[[KeptRow], bool]

Kind = Callable[[KeptRow], str | None]
"""The entry of some kind that a contender uses; None if the comparison is about something else."""


def recorded(kept: Sequence[Kept], name: str, ends: Mapping[str, Kind], page: Path) -> str:
    """Write the figures of an entry from all recorded tables that compare entries of its kind.

    `ends` has a remark on which side uses the entry, and the function that reads the entry from a row. If
    both sides use it in the same rows, these are shown once. Links are relative to `page`.
    """
    parts = []
    for record in kept:
        for each in record.tables:
            already: list[list[KeptRow]] = []
            for remark, of in ends.items():
                rows = [row for row in each.rows if of(row) == name]
                if rows and rows not in already and len({of(row) for row in each.rows} - {None}) > 1:
                    already.append(rows)
                    parts.append(_part(record, each, remark, _told_of(of, name), page))
    return "\n\n".join(parts) if parts else NOT_RECORDED


def _told_of(of: Kind, name: str) -> Belongs:
    return lambda row: of(row) == name


def _part(record: Kept, shown: KeptTable, whose: str, belongs: Belongs, page: Path) -> str:
    figures = record.figures
    where = f"[{figures.study}, {record.date}]({link(record.folder / 'README.md', page)})"
    remarks = "".join(f"Note: {plain(each)}. " for each in shown.remarks)
    remarks = f"{whose} {remarks}" if whose else remarks
    title = figures.title if shown.sweep is None else f"{figures.title}: {shown.title}"
    head = (
        f"### {plain(title)}\n\n{plain(shown.caption)}; {shown.better} is better. {remarks}"
        f"From the record {where}, {plain(figures.machine)}."
    )
    points = shown.sweep is not None
    rows = [
        [
            *([plain(row.point or "")] if points else []),
            f"`{row.base}`" + (" (a control)" if row.is_control else ""),
            row.shown,
            row.span,
            _place(row, shown),
            _against(row, shown),
        ]
        for row in shown.rows
        if belongs(row)
    ]
    heads = [
        *(["at"] if points else []),
        "contender",
        "figure",
        "interval",
        "place",
        "against the others",
    ]
    return f"{head}\n\n{table(heads, rows)}"


def _place(row: KeptRow, shown: KeptTable) -> str:
    """Return the rank of an estimate among those at the same point."""
    peers = [
        each.value
        for each in shown.rows
        if each.point == row.point and each.value is not None and not each.is_control
    ]
    if row.value is None or row.is_control or len(peers) < 2:
        return "-"
    better = sum(1 for value in peers if (value < row.value if shown.better == "less" else value > row.value))
    return f"{better + 1} of {len(peers)}"


def _against(row: KeptRow, shown: KeptTable) -> str:
    """Write the run's verdicts, as `better than A; no significant difference from B`, or why it has none."""
    measured = {each.contender for each in shown.rows if each.value is not None}
    groups: dict[str, list[str]] = {}
    for verdict, other in _verdicts(row, shown.pairs):
        if not {row.contender, other} <= measured:
            continue
        groups.setdefault(verdict, []).append(f"`{other.partition('@')[0]}`")
    joined = {"better": "better than", "worse": "worse than", "equivalent": "equivalent to"}
    texts = [
        f"{joined.get(word, 'no significant difference from')} {', '.join(groups[verdict])}"
        for verdict, word in WORDS.items()
        if verdict in groups
    ]
    return "; ".join(texts) or plain(row.why or "not compared")


def _verdicts(row: KeptRow, pairs: Sequence[KeptPair]) -> Iterator[tuple[str, str]]:
    for pair in pairs:
        if pair.point == row.point and pair.a == row.contender:
            yield pair.verdict, pair.b
        elif pair.point == row.point and pair.b == row.contender:
            yield OTHER_WAY.get(pair.verdict, pair.verdict), pair.a


# What strace counted ---------------------------------------------------------------------------------------


def system_calls(kept: tuple[Path, dict[str, Any]] | None, kind: str, name: str, page: Path) -> str:
    """Write the system calls of an entry for one request, as strace counted them."""
    if kept is None or name not in kept[1][kind]:
        return NOT_RECORDED
    file, counts = kept
    entry = counts[kind][name]
    if why := entry.get("absent"):
        return f"The machine of [the record]({link(file, page)}) could not run it: {plain(why)}."
    per = entry["per"]
    rows = [[f"`{call}`", f"{number:.2f}"] for call, number in entry["calls"].items()]
    about = (
        f"strace counted the calls of all processes of the server, for one {per}. Each figure is the "
        f"difference between the counts of {entry['many']} and of {entry['few']}, divided by "
        f"{entry['many'] - entry['few']}. The server was `{entry['server']}`, the load `{entry['load']}`. "
        f"Tracing slows calls down, so the number of needless wake-ups may differ without it. "
        f"The figures are from [the record]({link(file, page)})."
    )
    return f"{about}\n\n{table(['system call', f'for one {per}'], rows)}"


def link(target: Path, page: Path) -> str:
    """Return the link from a page to a file; both are paths relative to the root."""
    return Path(os.path.relpath(target, page.parent)).as_posix()
