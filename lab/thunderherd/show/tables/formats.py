"""Tables as Markdown (GitHub's), LaTeX (booktabs) or CSV (RFC 4180).

Texts come from studies, servers and machines. They are escaped, so that they never become markup.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Sequence

from thunderherd.files import no_formula
from thunderherd.show.tables.model import Table, for_readers
from thunderherd.text.printable import printable

__all__ = [
    "as_csv",
    "as_latex",
    "as_markdown",
    "latex_text",
    "markdown_line",
    "markdown_table",
    "markdown_text",
]


# Markdown ---------------------------------------------------------------------------------------------------

_MARKDOWN = re.compile(r"[\\`*\[\]<>|~$#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
"""Characters that may begin markup in Markdown or in GitHub's additions; not an underscore in a word."""
_LINK = re.compile(r"(?i)(?<=\bhttp)(?=:)|(?<=\bhttps)(?=:)|(?<=\bftp)(?=:)|(?<=\bwww)(?=\.)")
_ITEM = re.compile(r"^(\d*)([-+.)])(?=\s|$)")


def markdown_text(text: str) -> str:
    """Escapes a text for Markdown: one line, and never markup, link, mention or HTML."""
    plain = " ".join(printable(text).split()).replace("&", "&amp;").replace("@", "&#64;")
    escaped = _MARKDOWN.sub(r"\\\g<0>", plain.replace("&#64;", "\0")).replace("\0", "&#64;")
    # GitHub makes links of bare addresses, unless they contain an empty comment.
    return _LINK.sub("<!-- -->", escaped)


def markdown_line(text: str) -> str:
    """Escapes a text at the beginning of a line, where it might begin a list."""
    return _ITEM.sub(r"\1\\\2", markdown_text(text))


def as_markdown(title: str, tables: Sequence[Table]) -> str:
    """Writes the tables below each other, each with its caption above and its notes below."""
    parts = []
    for table in tables:
        caption = table.caption or title
        parts.append(f"**{markdown_text(caption)}**" if caption else "")
        parts.append(markdown_table(table))
        parts.append("\n".join(f"- {markdown_line(note)}" for note in table.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_table(table: Table) -> str:
    """Writes the table without caption and notes; figures are aligned to the right."""
    shown = for_readers(table)
    lines = [[markdown_text(column.head) or " " for column in shown.columns]]
    lines.append(["---:" if column.is_figure else ":---" for column in shown.columns])
    lines += [[markdown_text(f"{cell.value}{cell.mark}") for cell in row.cells] for row in shown.rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# LaTeX ------------------------------------------------------------------------------------------------------

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": "'",
    "µ": r"\textmu{}",
    "μ": r"\textmu{}",
    "×": r"\ensuremath{\times}",
    "≤": r"\ensuremath{\leq}",
    "≥": r"\ensuremath{\geq}",
    "±": r"\ensuremath{\pm}",
    "·": r"\textperiodcentered{}",
    "→": r"\ensuremath{\rightarrow}",
    "–": "--",
    "—": "---",
    "…": r"\ldots{}",
    "\ufffd": "?",
    "[": "{[}",
    "]": "{]}",
    "*": r"\textasteriskcentered{}",
    "`": r"\textasciigrave{}",
    "-": "-",
}
"""LaTeX's special characters, and signs that its fonts have only by name.

A bracket at the beginning of a row would be an option of the line break before it.
"""
LIGATURES = re.compile(r"-(?=-)|'(?=')|,(?=,)|\?(?=`)|!(?=`)")
"""Pairs of signs that LaTeX would join."""


def latex_text(text: str) -> str:
    """Escapes a text for any LaTeX engine; letters beyond ASCII stay as they are (UTF-8)."""
    plain = " ".join(printable(text).split())
    split = LIGATURES.sub(lambda found: f"{found[0]}\0", plain)
    return "".join(_latex_character(each) for each in split).replace("\0", "{}")


def _latex_character(each: str) -> str:
    if each in _LATEX:
        return _LATEX[each]
    # Marks of notes, such as ¹.
    if unicodedata.decomposition(each).startswith("<super>"):
        return rf"\textsuperscript{{{unicodedata.normalize('NFKC', each)}}}"
    return each


def as_latex(title: str, tables: Sequence[Table], label: str) -> str:
    """Writes a `table` environment for each, with caption, label, booktabs rules, and notes."""
    text = "% needs \\usepackage{booktabs}\n"
    for number, table in enumerate(tables, start=1):
        own = label if len(tables) == 1 else f"{label}-{number}"
        text += "\n".join(_latex_table(table.caption or title, table, own)) + "\n"
    return text


def _latex_table(caption: str, table: Table, label: str) -> list[str]:
    shown = for_readers(table)
    columns = "".join("r" if column.is_figure else "l" for column in shown.columns)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex_text(caption)}}}\label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        f"    {_latex_row([column.head for column in shown.columns])}",
        r"    \midrule",
        *(f"    {_latex_row([f'{cell.value}{cell.mark}' for cell in row.cells])}" for row in shown.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
    ]
    if table.notes:
        notes = r" \\ ".join(map(latex_text, table.notes))
        lines.append(
            rf"  \par\smallskip\begin{{minipage}}{{\linewidth}}\footnotesize {notes}\end{{minipage}}"
        )
    return [*lines, r"\end{table}"]


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(map(latex_text, texts)) + r" \\"


# CSV --------------------------------------------------------------------------------------------------------


def as_csv(table: Table) -> str:
    """Writes a line of heads, then a line for each row; figures are unrounded, missing ones empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    # Metrics and axes are heads, and a summary names them.
    writer.writerow([no_formula(head) for column in table.columns for head in column.csv or (column.head,)])
    for row in table.rows:
        fields = [each for cell in row.cells for each in cell.data or (cell.value,)]
        writer.writerow(no_formula(each) if isinstance(each, str) else each for each in fields)
    return text.getvalue()
