"""A sweep whose source has the figures of several metrics in one file."""

from __future__ import annotations

from made.summaries.swept import STUDY

LONG = """[[sweeps.paper]]
file = "cells.csv"
point = "pool"
contender = "way"
names = { prefork = "Pre" }
where = { host = "a" }
note = "one run"
[sweeps.paper.figures]
server_cpu_per_connection = "cpu"
voluntary_switches_per_connection = { value = "switches", unit = "a thousand" }
"server.task_clock" = { value = "all", note = "computed" }
"""
CELLS = "host,way,pool,cpu,switches,all\na,Pre,5,1.5,7,70\na,Pre,30,2.5,,80\na,Two,5,1,1,1\nb,Pre,5,9,9,9\n"
SWEPT = (
    STUDY[: STUDY.index("[[sweeps.paper]]")]
    .replace(
        '["voluntary_switches_per_connection"]',
        '["voluntary_switches_per_connection", "server.task_clock"]',
    )
    .replace(
        "normalise_connections = 5000",
        'normalise_connections = 5000\ncounters = ["task_clock"]',
    )
)
FIGURES_OF_METRICS = LONG[LONG.index("[sweeps.paper.figures]") :]
