"""Reads charts for tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any
from xml.etree import ElementTree

import vl_convert


def valid(chart: dict[str, Any]) -> dict[str, Any]:
    """The chart, after validation by the schema of Vega-Lite."""
    # Imported when it is needed: every worker collects this file, and few of them draw.
    import altair

    altair.VegaLiteSchema.validate(chart, schema_of_vega_lite())
    return chart


@cache
def schema_of_vega_lite() -> dict[str, Any]:
    import altair

    return altair.load_schema()


def rows(chart: dict[str, Any]) -> list[dict[str, Any]]:
    """All data of a chart, from whatever depth."""

    def walk(part: Any) -> Iterator[dict[str, Any]]:
        if isinstance(part, dict):
            data = part.get("data")
            if isinstance(data, dict):
                yield from data.get("values", [])
            for values in part.get("datasets", {}).values():
                yield from values
            for each in part.values():
                yield from walk(each)
        elif isinstance(part, list):
            for each in part:
                yield from walk(each)

    return list(walk(valid(chart)))


def svg_texts(chart: dict[str, Any]) -> list[str]:
    svg = vl_convert.vegalite_to_svg(valid(chart))
    return [text.strip() for text in ElementTree.fromstring(svg).itertext() if text.strip()]
