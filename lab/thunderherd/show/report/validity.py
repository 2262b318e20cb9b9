"""Invalid trials and rejected blocks, their reasons, and whether rejection changed a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunderherd.judge.summary.block_order import BlockSeen, blocks_seen
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.show.sentences.tables import trial_counts
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.text.figures import count, share_in_percent
from thunderherd.text.printable import printable

__all__ = ["ValiditySection", "validity_section"]


CAPTION = (
    "Every block: whether it counts, the most noise during one of its trials, and the order of its contenders"
)
COLUMNS = (
    Column("Block"),
    Column("Counts?", "short"),
    Column("Invalid trials"),
    Column("Stolen CPU, at most"),
    Column("Other processes, at most"),
    Column("Order", "words"),
)


@dataclass(frozen=True)
class ValiditySection:
    """The valid parts of a run, and why others do not count."""

    lines: tuple[str, ...]
    reasons: tuple[tuple[str, str], ...]
    """Abandoned contenders and invalid trials, with the reason."""
    blocks: Table


def validity_section(summary: Summary, trials: Sequence[TrialRecord]) -> ValiditySection:
    """Describes the validity of a run; the table of blocks needs the trials."""
    counts = summary.trials
    lines = [f"Trials: {trial_counts(summary)}."]
    lines.append(
        f"Blocks: {len(counts.accepted_blocks)} count; rejected for outside noise, never for their outcome: "
        f"{_listed(counts.rejected_blocks)}; kept although noisy, since no more may be rejected: "
        f"{_listed(counts.noisy_blocks_kept)}; incomplete: {_listed(counts.incomplete_blocks)}."
    )
    if counts.rejected_blocks:
        lines.append(_both_analyses(summary))
    given_up = [(f"{name}, given up", why) for name, why in counts.given_up.items()]
    invalid = [(count(times, "invalid trial"), why) for why, times in counts.invalid_reasons.items()]
    return ValiditySection(
        tuple(lines),
        tuple((printable(what), printable(why)) for what, why in [*given_up, *invalid]),
        Table(CAPTION, COLUMNS, tuple(map(_row, blocks_seen(summary, trials)))),
    )


def _both_analyses(summary: Summary) -> str:
    """Says whether rejecting blocks changed a verdict, by the analysis of all blocks."""
    kept = {(pair.a, pair.b, pair.metric): pair.verdict for pair in summary.pairs_all_blocks}
    changed = [
        f"{pair.a} against {pair.b}: {pair.verdict} without them, {with_them} with them"
        for pair in summary.family
        if (with_them := kept.get((pair.a, pair.b, pair.metric), pair.verdict)) != pair.verdict
    ]
    if not changed:
        return f"With the rejected blocks kept, all of {count(len(kept), 'verdict')} are the same."
    return f"With the rejected blocks kept, {len(changed)} of {count(len(kept), 'verdict')} differ: " + (
        f"{'; '.join(changed)}."
    )


def _listed(blocks: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(blocks))) or "none"


def _row(block: BlockSeen) -> Row:
    repeated = f" ({block.repeated} repeated)" if block.repeated else ""
    texts = (
        str(block.number),
        block.state,
        f"{block.invalid}{repeated}",
        share_in_percent(block.steal_share),
        share_in_percent(block.foreign_share),
        printable(", ".join(block.order)),
    )
    return Row(tuple(map(Cell, texts)))
