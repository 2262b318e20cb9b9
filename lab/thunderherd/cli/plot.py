"""The command `plot`: a chart of a run as a file, for a paper or a page of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thunderherd.cli.options import ResultsDirectory, chosen_format, write_output
from thunderherd.errors import UserError

__all__ = ["plot"]


def plot(
    directory: ResultsDirectory,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The chart; all names if not given.")
    ] = None,
    form: Annotated[str | None, typer.Option("--format", help="svg, png, pdf, or json (Vega-Lite).")] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FILE", help="DIR/NAME.FORMAT if not given; its ending is a format."
        ),
    ] = None,
) -> None:
    """Write a chart of a run as SVG, PNG, PDF or Vega-Lite; without a name, list them."""
    from thunderherd.cli.run import ended
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

        raise UserError(f"plot: {unknown('chart', name, list(charts))}")
    form = chosen_format("plot", form, output, {each: each for each in FORMATS}, "svg")
    file = output or directory / f"{name}.{form}"
    write_output("plot", file, as_file(charts[name].specification(), form))
