"""The claims and questions of a source on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from thunderherd.judge.summary.summarise import TIME_WAS_UP
from thunderherd.records.summary import Summary
from thunderherd.show.sentences.tables import claim_counts, run_line
from thunderherd.show.tables.claims import claims_legend, questions_legend
from thunderherd.show.terminal.tables import VERDICT_STYLES
from thunderherd.text.figures import ABSENT
from thunderherd.text.layout import print_facts, prose, wrapped

CLAIM_INDENT = 5


def print_claims(summary: Summary, console: Console) -> None:
    """Prints each claim of the source: its figure, this machine's, the verdict and the reason."""
    if not summary.claims and not summary.questions:
        prose(console, f"{summary.study.name} has no claims of a source", style="")
        return
    for claim in summary.claims:
        head = f"{claim.id}  {claim.verdict}  "
        lines = wrapped(claim.statement, console, head=head)
        if len(lines) > 1:
            lines = [head.rstrip(), *wrapped(claim.statement, console, head=" " * CLAIM_INDENT)]
        title = Text("\n".join(lines), style="bold")
        title.stylize(VERDICT_STYLES[claim.verdict], len(claim.id) + 2, len(head) - 2)
        console.print(title)
        facts = [
            *([("paper", claim.paper_figure)] if claim.paper_figure else []),
            *(("here", figure) for figure in claim.our_figure.splitlines() or [ABSENT]),
            ("why", claim.why),
            *(("note", note) for note in (claim.source_note or "").splitlines()),
        ]
        print_facts(console, facts, indent=CLAIM_INDENT)
        console.print()
    for question in summary.questions:
        lines = wrapped(question.text, console, head=f"{question.id}  ")
        console.print(Text("\n".join(lines), style="bold"))
        facts = [*(("here", sentence) for sentence in question.answer)]
        facts += [("note", note) for note in (question.note or "").splitlines()]
        print_facts(console, facts, indent=CLAIM_INDENT)
        console.print()
    counts = f"{claim_counts(summary.claims)}; " if summary.claims else ""
    prose(console, f"{counts}{run_line(summary)}", style="")
    for note in summary.study.notes:
        if note.startswith(TIME_WAS_UP.partition("{")[0]):
            prose(console, note, style="")
    if summary.claims:
        prose(console, claims_legend())
    if summary.questions:
        prose(console, questions_legend())
