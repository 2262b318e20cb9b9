"""A chart as a separate file on white: SVG, PNG, PDF, or Vega-Lite's JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import vl_convert

from thunderherd.files import write_bytes
from thunderherd.machine.room import OF_CHARTS, check_room
from thunderherd.show.charts.vega_lite import VERSION

__all__ = ["FORMATS", "as_file", "vega_lite_version", "write_pictures"]

FORMATS = ("svg", "png", "pdf", "json")

PNG_SCALE = 2.0
"""The pixels per pixel of the chart: sharp in print."""

WHITE = "#ffffff"
"""The background: a file has none, unlike a page."""


def as_file(specification: dict[str, Any], form: str) -> bytes:
    """Makes a file in one of `FORMATS` from a Vega-Lite specification with its data.

    Raises ValueError for another format.
    """
    check_room(OF_CHARTS, "a chart")
    config = {**specification.get("config", {}), "background": WHITE}
    chart = {**specification, "background": WHITE, "config": config}
    version = vega_lite_version()
    if form == "svg":
        return str(vl_convert.vegalite_to_svg(chart, vl_version=version)).encode()
    if form == "png":
        return bytes(vl_convert.vegalite_to_png(chart, vl_version=version, scale=PNG_SCALE))
    if form == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(chart, vl_version=version))
    if form == "json":
        return json.dumps(chart, indent=1).encode()
    raise ValueError(f"a chart's file is one of {', '.join(FORMATS)}, got {form}")


def write_pictures(specification: dict[str, Any], directory: Path, name: str) -> list[Path]:
    """Writes NAME.svg and NAME.png; returns the files."""
    files = [directory / f"{name}.{form}" for form in ("svg", "png")]
    for file in files:
        write_bytes(file, as_file(specification, file.suffix[1:]))
    return files


def vega_lite_version() -> str:
    """Gives the Vega-Lite version of the charts; the newest of vl-convert if it lacks that one."""
    offered = vl_convert.get_vegalite_versions()
    return VERSION if VERSION in offered else str(offered[-1])
