"""What the rows of cse638-pa02 say of its CSV and its plots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from source_checks import Check, Run, charts_of, marks_of

COLUMNS = "impl,field_size,threads,throughput_gbps,latency_us,cycles,cache_misses,llc_misses,context_switches"


@contextmanager
def the_csv_is_that_of_the_source(run: Run) -> Iterator[None]:
    """Its columns first, and a line for each cell of its matrix; what the machine does not count is empty."""
    yield
    lines = (run.directory / "small" / "original.csv").read_text().splitlines()
    assert lines[0] == f"{COLUMNS},copied_share"
    shares = {line.split(",")[0]: line.rpartition(",")[2] for line in lines[1:]}
    assert shares == {"a1": "", "a2": "", "a3": "1"}, "over veth the kernel copies every send"
    cells = {tuple(line.split(",")[:3]) for line in lines[1:]}
    sizes, threads = ("64", "256", "1024", "4096"), ("1", "2", "4", "8")
    assert cells == {
        (impl, size, count) for impl in ("a1", "a2", "a3") for size in sizes for count in threads
    }
    assert all(float(line.split(",")[3]) > 0 and float(line.split(",")[4]) > 0 for line in lines[1:])


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


CHECKS: dict[str, Check] = {
    "cse638-pa02-output-CSV": the_csv_is_that_of_the_source,
    "cse638-pa02-output-plots": the_plots_of_the_source_are_drawn,
}
