"""A run on one short page of Markdown, for a pull request, a chat or the results folder.

The page has at most `MOST_LINES` lines. It counts what it leaves out; `summary.json` has all.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from thunderherd.records.summary import Summary
from thunderherd.show.sentences.answer import Answer, answer, machine_in_short, weighty
from thunderherd.show.sentences.tables import claim_counts, run_line, trial_counts, verdict_counts, warnings
from thunderherd.show.tables.formats import markdown_line, markdown_table, markdown_text
from thunderherd.show.tables.model import plain_table
from thunderherd.study.file.names import typed
from thunderherd.text.figures import count

__all__ = ["MOST_LINES", "replay_words", "summary_page"]

MOST_LINES = 40
MOST_RANKED, MOST_TABLES, MOST_NOTES = 12, 4, 3
LONGEST_NOTE = 240
"""The most characters of a note; a longer one is cut."""


def summary_page(summary: Summary) -> str:
    """Writes question, answer, ranking, verdicts, warnings, machine, and the command to run it again."""
    found = answer(summary)
    parts = [
        f"## {markdown_text(summary.study.title)}",
        markdown_line(summary.study.question),
        f"**{markdown_text(found.sentence)}**",
        _listed([f"{title}. {sentence}" for title, sentence in found.further], MOST_TABLES, "table"),
        _ranking(found),
        "\n".join(f"- **{head}:** {text}" for head, text in _facts(summary)),
        f"Run it again: {_code(replay_words(summary))}",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def replay_words(summary: Summary) -> str:
    """Writes the command for the same trials in the same order."""
    study = summary.study
    words = typed(study.asked_for or study.name, study.size, study.overrides)
    return shlex.join([*words, "--seed", str(study.seed)])


def _ranking(found: Answer) -> str:
    """Writes the first rows of the ranking."""
    if found.over:
        heads = ["contender", *found.over.points]
        texts = [[name, *places] for name, places in found.over.rows[:MOST_RANKED]]
        what = "Places" if found.over.is_judged else "Ranks by the means"
        return (
            f"{what} over {markdown_text(found.over.corner)}:\n\n{markdown_table(plain_table(heads, texts))}"
        )
    if not found.ranking:
        return ""
    rows = [[each.place, each.name, each.value, each.span] for each in found.ranking]
    heads = ["place" if found.is_judged else "rank", "contender", found.heading, "interval"]
    left = len(rows) - MOST_RANKED
    more = f"\n\nand {count(left, 'contender')} more" if left > 0 else ""
    return markdown_table(plain_table(heads, rows[:MOST_RANKED], 2)) + more


def _facts(summary: Summary) -> Iterator[tuple[str, str]]:
    """Gives heads with their texts, as Markdown."""
    yield "Verdicts", markdown_text(verdict_counts(summary))
    if claims := claim_counts(summary.claims):
        yield "Claims of the source", markdown_text(claims)
    yield "Trials", markdown_text(f"{trial_counts(summary)}; {run_line(summary)}")
    grave = weighty(summary)
    if grave:
        yield "Warning", markdown_text(" ".join(grave))
    notes = [_shortened(note) for note in warnings(summary)]
    for note in notes[:MOST_NOTES]:
        yield "Note", markdown_text(note)
    if len(notes) > MOST_NOTES:
        yield "Notes", f"{len(notes) - MOST_NOTES} more in `summary.json`"
    if machine := machine_in_short(summary):
        yield "Machine", markdown_text("; ".join(machine))


def _listed(texts: Sequence[str], most: int, what: str) -> str:
    lines = [f"- {markdown_line(_shortened(text))}" for text in texts[:most]]
    if len(texts) > most:
        lines.append(f"- and {count(len(texts) - most, what)} more")
    return "\n".join(lines)


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST_NOTE else words[: LONGEST_NOTE - 1].rpartition(" ")[0] + " …"


def _code(text: str) -> str:
    """Writes a text as code, even if it contains back quotes."""
    fence = "`"
    while fence in text:
        fence += "`"
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{pad}{' '.join(text.split())}{pad}{fence}"
