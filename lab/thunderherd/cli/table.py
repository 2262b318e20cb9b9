"""The command `table`: the tables of a run, printed, or one of them as Markdown, LaTeX or CSV."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from thunderherd.cli.options import ResultsDirectory, chosen_format, write_output
from thunderherd.errors import UserError

if TYPE_CHECKING:
    from thunderherd.show.tables.model import NamedTable

__all__ = ["table"]

FORMATS = {"txt": "text", "md": "markdown", "tex": "latex", "csv": "csv"}
"""By the endings of their files."""


def table(
    directory: ResultsDirectory,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One table; a format without a name: the first.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="text, markdown (GitHub's), latex (booktabs), or csv (unrounded)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="Not to stdout; its ending is a format (md, tex, csv)."
        ),
    ] = None,
    pairs: Annotated[bool, typer.Option("--pairs", help="The table of all comparisons, too.")] = False,
    counters: Annotated[bool, typer.Option("--counters", help="All that was counted of each side.")] = False,
) -> None:
    """Print the tables of a run again, or one of them by name, for a report: Markdown, LaTeX or CSV."""
    from thunderherd.cli.run import show_table, summary_of

    if name is None and form is None and output is None:
        show_table(directory, pairs=pairs, counters=counters)
        return
    for option, given in (("--pairs", pairs), ("--counters", counters)):
        if given:
            raise UserError(
                f"table: {option} belongs to the tables as printed; here its name does: {option[2:]}"
            )
    chosen = chosen_format("table", form, output, FORMATS, "text")

    from thunderherd.show.tables.by_name import all_tables

    summary = summary_of(directory)
    found = {each.name: each for each in all_tables(summary)}
    if not found:
        raise UserError(f"table: {directory} holds a run without any table")
    if name is None:
        name = next(iter(found))
        if len(found) > 1:
            print(f"table: {name}; others: {', '.join(list(found)[1:])}", file=sys.stderr)
    if name not in found:
        from thunderherd.toml.file import unknown

        raise UserError(f"table: {unknown('table', name, list(found))}")
    if output is not None:
        write_output("table", output, _text(found[name], chosen, summary.study.name).encode())
    elif chosen == "text":
        _print(found[name], sys.stdout)
    else:
        sys.stdout.write(_text(found[name], chosen, summary.study.name))


def _text(table: NamedTable, form: str, study: str) -> str:
    from thunderherd.show.tables import formats

    if form == "csv":
        return formats.as_csv(table.for_programs())
    if form == "markdown":
        return formats.as_markdown(table.title, table.tables())
    if form == "latex":
        return formats.as_latex(table.title, table.tables(), f"{study}-{table.name}")
    text = io.StringIO()
    _print(table, text)
    return text.getvalue()


def _print(table: NamedTable, stream: IO[str]) -> None:
    from thunderherd.show.tables.terminal import print_table
    from thunderherd.text.layout import make_console

    console = make_console(stream)
    for place, each in enumerate(table.tables()):
        if place:
            console.print()
        print_table(each, console)
