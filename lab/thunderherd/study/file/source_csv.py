"""The source's own CSV, `[source_csv]` of a study file: written anew with this machine's figures.

```toml
[source_csv]
file = "results.csv"
sweeps = ["sizes_1", "sizes_8"]
[source_csv.columns]
impl = { names = { two_copy = "a1", one_copy = "a2" } }
threads = { key = "load.settings.clients" }
latency_us = { metric = "duration_per_message", unit = "us" }
```

A line is one contender at one point of these sweeps; contenders that the source has no name for are left out.
"""

from __future__ import annotations

from pydantic import Field

from thunderherd.toml.strict import Table


class CsvColumn(Table):
    """What stands in a column: the source's name of the contender, a setting, or a metric."""

    names: dict[str, str] | None = Field(default=None, description="by contender, what the source calls it")
    key: str | None = Field(default=None, description='a setting, such as "load.settings.clients"')
    metric: str | None = Field(default=None, description='such as "gigabits_per_second"')
    unit: str = Field(default="", description='of a metric that is a time: "s", "ms", "us", "ns"')


class SourceCsvTable(Table):
    """A table `[source_csv]`."""

    file: str = Field(
        pattern=r"^[A-Za-z0-9_.-]+\.csv$", description="its name in the directory of the results"
    )
    sweeps: list[str] = Field(min_length=1, description="the sweeps whose contenders are its lines")
    columns: dict[str, CsvColumn] = Field(min_length=1, description="by their heads, in their order")
