"""Profiles in trials of their own: `[profiling]` of a study, and what a summary says of them.

```toml
[profiling]
trials = 1                  # of each contender, after all others; 0: none. `run --profile` makes it 1
frequency = 997             # samples for each second of CPU time
event = "auto"              # cycles where there is a PMU, else cpu-clock; or one of these
contenders = ["prefork"]    # all of the main table if left out
```
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.records.apart import ApartTable
from thunderherd.stacks.symbols import CopyKind, Mode

ProfiledSide = Literal["server", "client"]

FREQUENCY = 997
"""A prime: no clock of a kernel or a program keeps in step with it."""


class ProfilingTable(ApartTable):
    """Where the time goes, by samples of the call stack in trials of their own: sampling costs."""

    frequency: int = Field(
        default=FREQUENCY, ge=1, le=10_000, description="samples for each second of CPU time of a thread"
    )
    event: Literal["auto", "cycles", "cpu-clock"] = Field(
        default="auto",
        description="by which samples are taken; auto: cycles where there is a PMU, else cpu-clock",
    )


# What came out ----------------------------------------------------------------------------------------------


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Share(_Record):
    """A share of samples and its interval."""

    value: float
    low: float
    high: float
    confidence: float


class SelfSymbol(_Record):
    """A function and the samples that found the processor in it, not in what it calls."""

    symbol: str
    mode: Mode
    share: float


class SideProfile(_Record):
    """Where one side's CPU time went, by samples of the windows of its trials."""

    event: str = Field(description="what was sampled: cycles, or cpu-clock where there is no PMU")
    why_not_cycles: str | None
    frequency_hertz: int
    samples: int
    covered: float | None = Field(
        description="samples by what their frequency and the CPU time of the trials would make them: less "
        "than 1 where processes and threads live shorter than the time between two samples and each is "
        "sampled by itself, or where a CPU has fewer cycles than as the sampling began; null: no CPU time"
    )
    why_not_cpus: str | None = Field(description="why samples were not taken on every CPU, which misses none")
    of_sampling: float = Field(
        description="share of all samples that found the kernel busy with the sampling: in no other figure"
    )
    lost: int = Field(description="samples that the kernel could not hand over, of the whole trials")
    throttled: int = Field(description="times that the kernel took fewer samples than it was asked for")
    kernel_symbols: bool
    why_no_kernel_symbols: str | None = None
    copying: Share | None = Field(description="of samples in functions that copy; null: there is no sample")
    copying_by_kind: dict[CopyKind, float] = Field(
        description="the same: between program and kernel, within the kernel, within the program"
    )
    network: Share | None = Field(
        default=None,
        description="of samples in the kernel's network code, without its copying, switches, wake-ups and "
        "page faults; null: there is no sample, or the kernel's functions have no names",
    )
    unnamed: float | None = Field(
        description="share of samples in functions that have no name, as in a library without symbols: what "
        "they copy is not known; null: there is no sample"
    )
    interrupts_off: float | None = Field(
        description="share of samples counted for the caller of a function in which interrupts came back on; "
        "null: the samples came by an event that waits for nothing"
    )
    top: list[SelfSymbol] = Field(description="the functions with the most samples of their own")
    folded: str = Field(description="the stacks, in a file of the run's directory")
    flame_graph: str | None = Field(description="an SVG there; null: it was not drawn")


class ContenderProfile(_Record):
    """The profile of a contender; without a side where there is no valid trial, and why."""

    contender: str
    trials: int = Field(description="valid ones")
    requests: int = Field(description="in the windows of these trials")
    sides: dict[ProfiledSide, SideProfile]
    why: str | None = Field(default=None, description="why it has none")


class DifferentialProfile(_Record):
    """Where a spends more time than b, and where less: a flame graph."""

    a: str
    b: str
    side: ProfiledSide
    unit: str = Field(description="of the widths, which are a's")
    flame_graph: str = Field(description="an SVG in the run's directory")


class ProfilingSummary(_Record):
    """Profiles of trials of their own. None of the other figures of these is used anywhere."""

    trials: int = Field(description="of each contender, as asked for")
    frequency_hertz: int = Field(description="as asked for")
    contenders: list[ContenderProfile]
    differentials: list[DifferentialProfile] = Field(
        default_factory=list,
        description="the best of each table against the second, and against the study's baseline",
    )

    def of(self, contender: str) -> ContenderProfile | None:
        """That of a contender; None where it was not asked for."""
        return next((each for each in self.contenders if each.contender == contender), None)
