"""The command `report`: the report of one run, or of several in one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="The directories that runs have written.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="The HTML file; DIR/report.html if not given, of several runs report.html here.",
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> int:
    """Write the report of a run, or of several in one: an HTML file that works offline."""
    from thunderherd.cli.run import summary_of
    from thunderherd.show.report.page import write_report

    for each in directories:
        summary_of(each)
    path = write_report(directories, output)
    print(path)
    return _open(path) if show else 0


def _open(path: Path) -> int:
    """Shows a file in the browser; 1 and a line on stderr where none can be started."""
    import webbrowser

    if webbrowser.open(path.resolve().as_uri()):
        return 0
    print(
        f"thunderherd: no browser could be started here; $BROWSER names one, or open {path} in yours",
        file=sys.stderr,
    )
    return 1
