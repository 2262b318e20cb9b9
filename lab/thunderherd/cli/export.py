"""The commands `plot`, `report` and `summary`: a run as a chart, an HTML page, a page of Markdown."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from thunderherd.cli.options import PROGRAM, ResultsDirectory, chosen_format, ended, summary_of, write_output
from thunderherd.errors import UserError

__all__ = ["open_page", "plot", "report", "summary"]


def plot(
    directory: ResultsDirectory,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of a chart (default: list all charts).")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", help="Format: svg, png, pdf, or json for Vega-Lite (default svg)."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="File; its ending chooses the format (default DIR/NAME.FORMAT)."
        ),
    ] = None,
) -> None:
    """Write a chart of a run, or list its charts."""
    from thunderherd.show.charts.by_name import all_charts
    from thunderherd.show.charts.files import FORMATS, as_file

    charts = {chart.name: chart for chart in all_charts(*ended(directory))}
    if name is None:
        width = max(map(len, charts), default=0)
        for each in charts.values():
            print(f"{each.name:{width}}  {each.title}")
        if not charts:
            print("this run has no charts")
        return
    if name not in charts:
        from thunderherd.toml.file import unknown

        raise UserError(unknown("chart", name, list(charts), "plot").at("plot"))
    form = chosen_format("plot", form, output, {each: each for each in FORMATS}, "svg")
    file = output or directory / f"{name}.{form}"
    write_output("plot", file, as_file(charts[name].specification(), form))


def report(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Directories of runs' results.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="HTML file (default DIR/report.html, or ./report.html for several runs).",
        ),
    ] = None,
    show: Annotated[
        bool, typer.Option("--open", help="Open the report in a browser (default: off).")
    ] = False,
) -> int:
    """Write an HTML report of one or several runs.

    The file works offline.
    """
    from thunderherd.show.report.page import write_report

    for each in directories:
        summary_of(each)
    path = write_report(directories, output)
    print(path)
    return open_page(path) if show else 0


def open_page(path: Path) -> int:
    """Show a file in the browser. If no browser starts, print a line on stderr and return 1."""
    import webbrowser

    if webbrowser.open(path.resolve().as_uri()):
        return 0
    print(
        f"{PROGRAM}: no browser could be started here; set $BROWSER, or open {path} yourself", file=sys.stderr
    )
    return 1


def summary(
    directory: ResultsDirectory,
    write: Annotated[
        bool, typer.Option("--write", help="Rewrite summary.md, README.md and tables in DIR (default: off).")
    ] = False,
) -> None:
    """Print a run's answer as a short page of Markdown."""
    from thunderherd.show.report.summary_page import summary_page

    found = summary_of(directory)
    if write:
        from thunderherd.records.directory import load
        from thunderherd.run.results_folder import write_folder

        write_folder(load(directory))
    sys.stdout.write(summary_page(found))
