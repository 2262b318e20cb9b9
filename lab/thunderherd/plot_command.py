"""The command `plot`: a chart of a run as a file, for a paper or a page of one's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from thunderherd.errors import UserError

__all__ = ["plot"]

PNG_SCALE = 2.0
"""Pixels for each of the chart's own: sharp in print."""


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
    specification = charts[name].specification()
    specification["background"] = specification.setdefault("config", {})["background"] = "#ffffff"
    try:
        file.write_bytes(_writers()[form](specification))
    except OSError as error:
        raise UserError(
            f"plot: {file} cannot be written: {error.strerror}; choose another place with --output"
        ) from None
    print(file)


def _format(typed: str | None, output: Path | None) -> str:
    """What was typed, else what the file's ending says, else SVG."""
    ending = output.suffix[1:].lower() if output is not None else ""
    found = typed or ending or "svg"
    if found not in FORMATS:
        raise UserError(f"plot: --format {found}; allowed: {', '.join(FORMATS)}")
    if typed and ending in FORMATS and ending != typed:
        raise UserError(f"plot: --format {typed} and --output {output} contradict each other; leave one out")
    return found


FORMATS = ("svg", "png", "pdf", "json")


def _writers() -> Mapping[str, Callable[[dict[str, Any]], bytes]]:
    """By format, what makes a file's bytes of a chart."""
    import vl_convert

    from thunderherd.charts import vega_lite_version

    version = vega_lite_version()

    def svg(chart: dict[str, Any]) -> bytes:
        return str(vl_convert.vegalite_to_svg(chart, vl_version=version)).encode()

    def png(chart: dict[str, Any]) -> bytes:
        return bytes(vl_convert.vegalite_to_png(chart, vl_version=version, scale=PNG_SCALE))

    def pdf(chart: dict[str, Any]) -> bytes:
        return bytes(vl_convert.vegalite_to_pdf(chart, vl_version=version))

    return {"svg": svg, "png": png, "pdf": pdf, "json": lambda chart: json.dumps(chart, indent=1).encode()}
