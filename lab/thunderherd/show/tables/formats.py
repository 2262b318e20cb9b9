"""A table as Markdown (GitHub's), LaTeX (booktabs) or CSV (RFC 4180).

What a table holds comes from studies, servers and machines: in each of the forms it stays the text that it
is.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Sequence

from thunderherd.show.tables.model import Field, Grid, Section
from thunderherd.text.figures import ABSENT, printable

__all__ = [
    "as_csv",
    "as_latex",
    "as_markdown",
    "latex_text",
    "markdown_grid",
    "markdown_line",
    "markdown_text",
]


# Markdown ---------------------------------------------------------------------------------------------------

_MARKDOWN = re.compile(r"[\\`*\[\]<>|~$#]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
"""What may begin something in Markdown, or in GitHub's additions to it; an underscore within a word does
not."""
_LINK = re.compile(r"(?i)(?<=\bhttp)(?=:)|(?<=\bhttps)(?=:)|(?<=\bftp)(?=:)|(?<=\bwww)(?=\.)")
_ITEM = re.compile(r"^(\d*)([-+.)])(?=\s|$)")


def markdown_text(text: str) -> str:
    """A text as Markdown shows it: on one line, and never as markup, link, mention or HTML."""
    plain = " ".join(printable(text).split()).replace("&", "&amp;").replace("@", "&#64;")
    escaped = _MARKDOWN.sub(r"\\\g<0>", plain.replace("&#64;", "\0")).replace("\0", "&#64;")
    # GitHub makes links of bare addresses, unless an empty comment stands in them.
    return _LINK.sub("<!-- -->", escaped)


def markdown_line(text: str) -> str:
    """The same at the beginning of a line, where it might begin a list."""
    return _ITEM.sub(r"\1\\\2", markdown_text(text))


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """The sections below each other, each with its caption above and its notes below."""
    parts = []
    for section in sections:
        caption = section.caption or title
        parts.append(f"**{markdown_text(caption)}**" if caption else "")
        parts.append(markdown_grid(section.grid))
        parts.append("\n".join(f"- {markdown_line(note)}" for note in section.notes))
    return "\n\n".join(part for part in parts if part) + "\n"


def markdown_grid(grid: Grid) -> str:
    """The table alone; figures stand to the right."""
    lines = [[markdown_text(head) or " " for head in grid.heads]]
    lines.append(["---:" if figure else ":---" for figure in grid.figures])
    lines += [[markdown_text(_text(field)) for field in row] for row in grid.rows]
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
"""What means something to LaTeX, and the signs that its usual fonts have under a name alone. A bracket at the
beginning of a row would be an option of the line break before it."""
LIGATURES = re.compile(r"-(?=-)|'(?=')|,(?=,)|\?(?=`)|!(?=`)")
"""Two signs of which LaTeX would make one."""


def latex_text(text: str) -> str:
    """A text as LaTeX shows it, in any of its engines; letters beyond ASCII stay as they are (UTF-8)."""
    plain = " ".join(printable(text).split())
    split = LIGATURES.sub(lambda found: f"{found[0]}\0", plain)
    return "".join(_latex_character(each) for each in split).replace("\0", "{}")


def _latex_character(each: str) -> str:
    if each in _LATEX:
        return _LATEX[each]
    # Marks of notes: ¹² and their like.
    if unicodedata.decomposition(each).startswith("<super>"):
        return rf"\textsuperscript{{{unicodedata.normalize('NFKC', each)}}}"
    return each


def as_latex(title: str, sections: Sequence[Section], label: str) -> str:
    """A `table` for each section, with caption, label, the rules of booktabs, and its notes below."""
    text = "% needs \\usepackage{booktabs}\n"
    for number, section in enumerate(sections, start=1):
        own = label if len(sections) == 1 else f"{label}-{number}"
        text += "\n".join(_latex_table(section.caption or title, section, own)) + "\n"
    return text


def _latex_table(caption: str, section: Section, label: str) -> list[str]:
    grid = section.grid
    columns = "".join("r" if figure else "l" for figure in grid.figures)
    lines = [
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{latex_text(caption)}}}\label{{tab:{label}}}",
        rf"  \begin{{tabular}}{{{columns}}}",
        r"    \toprule",
        f"    {_latex_row(grid.heads)}",
        r"    \midrule",
        *(f"    {_latex_row([_text(field) for field in row])}" for row in grid.rows),
        r"    \bottomrule",
        r"  \end{tabular}",
    ]
    if section.notes:
        notes = r" \\ ".join(map(latex_text, section.notes))
        lines.append(
            rf"  \par\smallskip\begin{{minipage}}{{\linewidth}}\footnotesize {notes}\end{{minipage}}"
        )
    return [*lines, r"\end{table}"]


def _latex_row(texts: Sequence[str]) -> str:
    return " & ".join(map(latex_text, texts)) + r" \\"


# CSV --------------------------------------------------------------------------------------------------------


def as_csv(grid: Grid) -> str:
    """One line of heads, then one a row; figures with all their digits, what is missing empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(grid.heads)
    writer.writerows(["" if field is None else field for field in row] for row in grid.rows)
    return text.getvalue()


def _text(field: Field) -> str:
    return ABSENT if field is None else str(field)
