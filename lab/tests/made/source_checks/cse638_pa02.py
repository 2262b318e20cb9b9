"""Checks of cse638-pa02: its CSV, its plots and their axes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from made.source_checks.common import Check, Run, charts_of, marks_of

SIZES, THREADS = (64, 256, 1024, 4096), (1, 2, 4, 8)
COLUMNS = "impl,field_size,threads,throughput_gbps,latency_us,cycles,cache_misses,llc_misses,context_switches"


@contextmanager
def the_csv_is_that_of_the_source(run: Run) -> Iterator[None]:
    """Its columns first, and a line for each cell of its matrix; what the machine does not count is empty,
    and its remarks say why."""
    yield
    with (run.directory / "small" / "original.csv").open(newline="") as file:
        head, *lines = csv.reader(file)
    assert ",".join(head).removesuffix(",remarks") == f"{COLUMNS},copied_share"
    shares = {line[0]: line[9] for line in lines}
    assert shares == {"a1": "", "a2": "", "a3": "1"}, "over veth the kernel copies every send"
    for line in lines:
        lacking = [name for name, field in zip(head[:9], line, strict=False) if not field]
        assert all(name in line[10] for name in lacking), line
    cells = {tuple(line[:3]) for line in lines}
    assert cells == {
        (impl, str(size), str(count)) for impl in ("a1", "a2", "a3") for size in SIZES for count in THREADS
    }
    assert all(float(line[3]) > 0 and float(line[4]) > 0 for line in lines)


@contextmanager
def the_plots_of_the_source_are_drawn(run: Run) -> Iterator[None]:
    """Over message size at 8 threads, and over threads at 1024 bytes, with the source's points."""
    yield
    charts = charts_of(run)
    # Throughput, cache misses, cycles per byte; and what the source calls latency, over threads.
    for name in (*(f"sweep-sizes_8-{place}" for place in range(3)), "sweep-threads-0"):
        assert {"line", "point"} <= set(marks_of(charts[name])), name
        rows = [row for each in charts[name]["datasets"].values() for row in each]
        assert {row["base"] for row in rows if row["whose"] == "the paper"} == {
            "two_copy", "one_copy", "zero_copy",
        }, name  # fmt: skip


PLOTS = {
    "sweep-sizes_8-0": "(Gbit/s)",
    "sweep-sizes_8-1": "Cache misses of the clients",
    "sweep-sizes_8-2": "CPU cycles of the clients per byte of payload",
    "sweep-threads-0": "Duration by messages, of all clients together",
}
"""The source's four plots among our charts, with our titles for its labels: "Throughput (Gbps)", "Cache
Misses", "CPU Cycles per Byte" and "Latency (us)"."""


@contextmanager
def the_axes_are_set_as_the_sources(run: Run) -> Iterator[None]:
    """Sizes on a logarithmic axis at 8 threads, misses on two; threads at fields of 1024 bytes."""
    yield
    charts = charts_of(run)
    for name, drawn in PLOTS.items():
        panels = list(panels_of(charts[name]))
        assert any(drawn in words_above(panel) for panel in panels), name
        across = [axis for panel in panels for axis in axes_of(panel, "x")]
        label, ticks = ("client threads", THREADS) if "threads" in name else ("bytes of a field", SIZES)
        assert {axis["title"] for axis in across} == {label}, name
        drawn_as = {(axis["scale"]["type"], *axis["axis"]["values"]) for axis in across}
        assert drawn_as == {("log", *ticks)}, name
    misses = axes_of(charts["sweep-sizes_8-1"], "y")
    assert {axis["scale"]["type"] for axis in misses} == {"log"}
    summary = json.loads((run.directory / "small" / "summary.json").read_text())
    usual = summary["study"]["settings"]["load"]
    asked = {
        (each["sweep"], each["settings"]["field_size"], (each["load"] or usual)["settings"]["clients"])
        for each in summary["contenders"]
        if each["sweep"] in ("sizes_8", "threads")
    }
    assert asked == {
        *(("sizes_8", size, 8) for size in SIZES),
        *(("threads", 1024, each) for each in THREADS),
    }


def panels_of(chart: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The panels of a chart: those of this machine and of the source, or the one that they share."""
    return iter(chart.get("hconcat") or chart.get("vconcat") or [chart])


def words_above(panel: dict[str, Any]) -> str:
    """The heading of a panel, in one line."""
    title = panel["title"]
    return " ".join([*title["text"], *title.get("subtitle", [])])


def axes_of(part: Any, axis: str) -> list[dict[str, Any]]:
    """How an axis is drawn, in each layer of a chart or panel."""
    if isinstance(part, list):
        return [found for each in part for found in axes_of(each, axis)]
    if not isinstance(part, dict):
        return []
    own = [part["encoding"][axis]] if axis in part.get("encoding", {}) else []
    return [
        *own,
        *(found for key in ("hconcat", "vconcat", "layer") for found in axes_of(part.get(key), axis)),
    ]


CHECKS: dict[str, Check] = {
    "cse638-pa02-output-CSV": the_csv_is_that_of_the_source,
    "cse638-pa02-output-plot-settings": the_axes_are_set_as_the_sources,
    "cse638-pa02-output-plots": the_plots_of_the_source_are_drawn,
}
