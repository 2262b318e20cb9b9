"""The command `summary`: a run on one short page of Markdown."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from thunderherd.cli.options import ResultsDirectory

__all__ = ["summary"]


def summary(
    directory: ResultsDirectory,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="Also write anew what makes DIR tell what it is: summary.md, README.md, tables."
        ),
    ] = False,
) -> None:
    """Print a run's answer on one short page of Markdown, for a pull request."""
    from thunderherd.cli.run import summary_of
    from thunderherd.show.report.summary_page import summary_page

    found = summary_of(directory)
    if write:
        from thunderherd.records.directory import load
        from thunderherd.run.results_folder import write_folder

        write_folder(load(directory))
    sys.stdout.write(summary_page(found))
