"""The command `plot`: a chart of a run as a file, for a paper or a page of one's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thunderherd.errors import UserError

__all__ = ["plot"]


def plot(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that a run has written.")],
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
    from thunderherd.chart_files import as_file
    from thunderherd.charts import all_charts
    from thunderherd.running import ended

    charts = {chart.name: chart for chart in all_charts(*ended(directory))}
    if name is None:
        width = max(map(len, charts), default=0)
        for each in charts.values():
            print(f"{each.name:{width}}  {each.title}")
        if not charts:
            print("this run has no charts")
        return
    if name not in charts:
        from thunderherd.study_file import unknown

        raise UserError(f"plot: {unknown('chart', name, list(charts))}")
    form = _format(form, output)
    file = output or directory / f"{name}.{form}"
    try:
        file.write_bytes(as_file(charts[name].specification(), form))
    except OSError as error:
        raise UserError(
            f"plot: {file} cannot be written: {error.strerror}; choose another place with --output"
        ) from None
    print(file)


def _format(typed: str | None, output: Path | None) -> str:
    """What was typed, else what the file's ending says, else SVG."""
    from thunderherd.chart_files import FORMATS

    ending = output.suffix[1:].lower() if output is not None else ""
    found = typed or ending or "svg"
    if found not in FORMATS:
        raise UserError(f"plot: --format {found}; allowed: {', '.join(FORMATS)}")
    if typed and ending in FORMATS and ending != typed:
        raise UserError(f"plot: --format {typed} and --output {output} contradict each other; leave one out")
    return found
