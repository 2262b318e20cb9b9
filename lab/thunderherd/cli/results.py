"""The commands that show a run's results: `table`, `claims`, `plot`, `report` and `summary`."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from thunderherd.cli.options import (
    PROGRAM,
    AllowCommands,
    Out,
    Overrides,
    ResultsDirectory,
    Resume,
    Seed,
    StudyName,
    chosen_format,
    ended,
    status_of_run,
    summary_of,
    write_output,
)
from thunderherd.errors import UserError

if TYPE_CHECKING:
    from thunderherd.records.summary import Summary
    from thunderherd.show.tables.model import NamedTable

__all__ = ["claims", "open_page", "plot", "report", "summary", "table"]

TABLE_FORMATS = {"txt": "text", "md": "markdown", "tex": "latex", "csv": "csv"}
"""Formats by the endings of their files."""


def table(
    directory: ResultsDirectory,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name of a table (default: all, or the first with a format)."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Format: text, markdown (GitHub's), latex (booktabs) or csv (unrounded) (default text).",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="File; its ending (md, tex, csv) is a format (default: stdout)."
        ),
    ] = None,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also print the table of all comparisons (default: off).")
    ] = False,
    counters: Annotated[
        bool, typer.Option("--counters", help="Also print all counters of each side (default: off).")
    ] = False,
) -> None:
    """Print the tables of a run, or write one of them."""
    if name is None and form is None and output is None:
        show_table(directory, pairs=pairs, counters=counters)
        return
    for option, given in (("--pairs", pairs), ("--counters", counters)):
        if given:
            raise UserError(
                f"{option} belongs to the printed tables, not to one table in a format",
                code="table.option_without_effect",
                hint=f"name that table: `{PROGRAM} table {directory} {option[2:]}`",
                where="table",
            )
    chosen = chosen_format("table", form, output, TABLE_FORMATS, "text")

    from thunderherd.show.tables.by_name import all_tables

    summary = summary_of(directory)
    found = {each.name: each for each in all_tables(summary)}
    if not found:
        raise UserError("the run has no table", code="table.none", where=str(directory))
    if name is None:
        name = next(iter(found))
        if len(found) > 1:
            print(f"table: {name}; others: {', '.join(list(found)[1:])}", file=sys.stderr)
    if name not in found:
        from thunderherd.toml.file import unknown

        raise UserError(unknown("table", name, list(found), "table").at("table"))
    if output is not None:
        write_output("table", output, _text(found[name], chosen, summary.study.name).encode())
    elif chosen == "text":
        _print(found[name], sys.stdout)
    else:
        sys.stdout.write(_text(found[name], chosen, summary.study.name))


def show_table(directory: Path, *, pairs: bool, counters: bool = False) -> None:
    """Print the main table of a run, and the tables of its comparisons and of its counters if wanted."""
    from thunderherd.show.tables.counters import asks_for_counters
    from thunderherd.show.terminal.study import print_counters, print_pairs, print_study
    from thunderherd.text.layout import make_console

    summary = summary_of(directory)
    if counters and not asks_for_counters(summary):
        raise UserError(
            "the run has no counters",
            code="table.no_counters",
            hint=f"request some in another run: `{PROGRAM} run {summary.study.name} "
            f"--set 'measure.counters=[\"task_clock\"]'` ({PROGRAM} list counters)",
            where=str(directory),
        )
    console = make_console()
    print_study(summary, console, directory)
    if pairs:
        print_pairs(summary, console)
    if counters:
        print_counters(summary, console)


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
    from thunderherd.show.terminal.tables import print_table
    from thunderherd.text.layout import make_console

    console = make_console(stream)
    for place, each in enumerate(table.tables()):
        if place:
            console.print()
        print_table(each, console)


def claims(
    study: StudyName,
    directory: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR", help="Directory of a run; with --decide, its spread gives the expected blocks."
        ),
    ] = None,
    decide: Annotated[
        bool,
        typer.Option(
            "--decide",
            help="Run the size `claims` of the study until each claim has a verdict (default: judge DIR).",
        ),
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="TIME",
            help="With --decide, time budget for all trials, such as 2h (default: that of the size, if any).",
        ),
    ] = None,
    overrides: Overrides = None,
    seed: Seed = None,
    out: Out = None,
    resume: Resume = False,
    allow_commands: AllowCommands = False,
) -> int:
    """Judge the claims of a study's source by a run.

    With --decide, run the study until each claim has a verdict.
    """
    from thunderherd.show.terminal.claims import print_claims
    from thunderherd.text.layout import make_console

    if decide:
        from thunderherd.cli.run import run_claims

        earlier = None if directory is None else _of_study(directory, study)[0]
        summary = run_claims(
            study, budget, overrides or [], seed, out, resume, earlier, allow_commands=allow_commands
        )
        print_claims(summary, make_console())
        return status_of_run(summary, "claims")
    options = {
        "--budget": budget, "--set": overrides, "--seed": seed, "--out": out, "--resume": resume,
        "--allow-commands": allow_commands,
    }  # fmt: skip
    if given := [name for name, value in options.items() if value not in (None, False)]:
        raise UserError(
            f"{given[0]} is an option of a run",
            code="claims.option_without_decide",
            hint="add --decide",
            where="claims",
        )
    if directory is None:
        raise UserError(
            "no run to judge",
            code="claims.no_directory",
            hint="name the directory of a run; with --decide, the command runs the study's size claims",
            where="claims",
        )
    print_claims(_of_study(directory, study)[1], make_console())
    return 0


def _of_study(directory: Path, study: str) -> tuple[Path, Summary]:
    """Return the directory and its summary; raise `UserError` if its run is not one of that study."""
    from thunderherd.study.file.names import find_study
    from thunderherd.toml.file import TomlFile

    summary = summary_of(directory)
    name = TomlFile(find_study(study)).data.get("name") if study.endswith(".toml") else study
    if name != summary.study.name:
        raise UserError(
            f"holds a run of {summary.study.name}, not of {name}",
            code="claims.other_study",
            hint=f"type `{PROGRAM} claims {summary.study.name} {directory}`",
            where=str(directory),
        )
    return directory, summary


# Charts and pages -------------------------------------------------------------------------------------------


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
    # The name of a sweep in somebody's summary may have slashes.
    file = output or directory / Path(f"{name}.{form}").name
    write_output("plot", file, as_file(charts[name].specification(), form), typed=output is not None)


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
