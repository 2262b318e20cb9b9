"""Extra trials, which follow the judged ones: the tables of a study that ask for them, and their results.

```toml
[counting]                  # what happens at a request
trials = 1                  # of each contender; 0: none
counters = ["tcp_info"]     # in addition to the counters that explain a difference
contenders = ["prefork"]    # default: all of the main table, and each sweep's first and last point

[counting_cost]             # what counting the processor's events costs
trials = 6                  # pairs of trials of each contender; 0: none
contenders = ["prefork"]    # default: up to three of the main table

[profiling]                 # where CPU time goes
trials = 1                  # of each contender; 0: none; `run --profile` makes it 1
frequency = 997             # samples for each second of CPU time
event = "auto"              # "cycles" where there is a PMU, else "cpu-clock"
contenders = ["prefork"]    # default: all of the main table
```
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.stacks.symbols import CopyKind, Mode
from thunderherd.toml.strict import StrictTable

CountedSide = Literal["server", "client", "both"]

SYSTEM_CALLS, WAKEUPS, PAGE_FAULTS = "system_calls", "wakeups", "page_faults"
VOLUNTARY, INVOLUNTARY, CONTEXT_SWITCHES = "voluntary_switches", "involuntary_switches", "context_switches"

SWITCHES = "switches"
"""The unit of switches that are explained without the wake-ups that belong to them."""

WHAT_EXPLAINS = (SYSTEM_CALLS, WAKEUPS, VOLUNTARY, INVOLUNTARY, CONTEXT_SWITCHES, PAGE_FAULTS)
"""The counters that a difference is explained by."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


# What the three tables of a study share ---------------------------------------------------------------------


class ExtraTrialsTable(StrictTable):
    """Trials of their own after all that are judged: what they are made for costs."""

    at_both_ends: ClassVar[bool] = False
    """Whose they are where no contender is named: of each sweep those at its first point too, beside those of
    the main table; else those of one place alone."""

    trials: int = Field(
        default=0, ge=0, le=100, description="such trials of each contender after all others; 0: none"
    )
    contenders: list[str] = Field(
        default=[],
        description="whose, such as BASE@SWEEP=POINT; those of the main table if left out, and of a study of "
        "sweeps alone those at each sweep's last point",
    )

    @property
    def is_asked_for(self) -> bool:
        """Whether there are any; of a table as resolved."""
        return bool(self.trials and self.contenders)


# [counting] -------------------------------------------------------------------------------------------------


class CountingTable(ExtraTrialsTable):
    """What happens at a request, counted in trials of their own: such counters cost."""

    at_both_ends: ClassVar[bool] = True

    counters: list[str] = Field(
        default=[],
        description="what is counted besides the counters of all trials and what explains a difference ("
        f"{', '.join(WHAT_EXPLAINS)})",
    )
    contenders: list[str] = Field(
        default=[],
        description="whose, such as BASE@SWEEP=POINT; those of the main table, and of each sweep those at "
        "its first and last point, if left out",
    )


# What came out ----------------------------------------------------------------------------------------------


class Count(_Record):
    """What was counted of one thing."""

    per_request: float = Field(description="the mean of the counted trials")
    least: float = Field(description="of the trials, per request")
    most: float = Field(description="of the trials, per request")
    per_byte: float | None = Field(description="of payload; null: none was counted")


class State(_Record):
    """What a counter tells of one moment, near the end of a window."""

    value: float = Field(description="the mean of the counted trials")
    least: float = Field(description="of the trials")
    most: float = Field(description="of the trials")
    unit: str = Field(description="as the engine has it, but times are in seconds")


class SideCounts(_Record):
    """What was counted of one side, or of both together."""

    counts: dict[str, Count] = Field(
        description="by counter; those with several figures also as COUNTER.PART, such as system_calls.read, "
        "where it is not 0; of the tally, such as send_calls; and bytes_copied, between programs and kernel"
    )
    states: dict[str, State] = Field(
        default_factory=dict,
        description="by figure of a counter that tells of a moment, such as tcp_info.retransmits; and of "
        "memory what there was for each connection (memory_per_connection)",
    )
    unavailable: dict[str, str] = Field(
        default_factory=dict, description="counters that could not be read, and why"
    )
    scaled: dict[str, float] = Field(
        default_factory=dict,
        description="counters that are extrapolated; the least share of the time in which each was counted",
    )


class ContenderCounts(_Record):
    """What was counted of a contender; without a side where there is no counted trial, and why."""

    contender: str
    trials: int = Field(description="valid ones, which the counts rest on")
    requests: int = Field(description="that they rest on, of all these trials")
    requests_per_connection: float | None = Field(description="null: no connection was opened in the window")
    sides: dict[CountedSide, SideCounts]
    why: str | None = Field(default=None, description="why it has none")


class CountingSummary(_Record):
    """What was counted in trials of their own. None of their other figures is used anywhere."""

    trials: int = Field(description="of each contender, as asked for")
    counters: list[str] = Field(description="what explains a difference, and those that were asked for")
    contenders: list[ContenderCounts]

    def of(self, contender: str) -> ContenderCounts | None:
        """That of a contender; None where it was not asked for."""
        return next((each for each in self.contenders if each.contender == contender), None)


PAIRS = 6
"""The fewest of which the signed ranks give an interval of 95 %."""
MOST_CONTENDERS = 3
"""Where none is named."""


class CostTable(ExtraTrialsTable):
    """What counting the processor's events costs, where the study's trials count some: pairs of trials, one
    with all of `measure.counters`, one without any."""

    trials: int = Field(
        default=PAIRS, ge=0, le=100, description="such pairs of each contender after all others; 0: none"
    )
    contenders: list[str] = Field(
        default=[],
        description=f"whose, such as BASE@SWEEP=POINT; if left out {MOST_CONTENDERS} of the main table at "
        "most, and of a study of sweeps alone of those at each sweep's last point",
    )


# What came out ----------------------------------------------------------------------------------------------


class CostEstimate(_Record):
    """A metric of trials with counters, by that of trials without: of pairs, their Hodges-Lehmann ratio."""

    metric: str
    value: float = Field(description="1: counting changes nothing; 1.5: half as much again")
    low: float | None = Field(description="null: so few pairs give no interval at this confidence")
    high: float | None
    confidence: float
    least: float = Field(description="of all pairs")
    most: float = Field(description="of all pairs")
    pairs: int

    def is_beyond(self, percent: float) -> bool:
        """Whether it differs from 1 by more than so many percent, as far as its interval tells; of pairs that
        are too few for one, all of them."""
        low = self.least if self.low is None else self.low
        high = self.most if self.high is None else self.high
        return low > 1 + percent / 100 or high < 1 - percent / 100


class ContenderCost(_Record):
    """What counting costs a contender."""

    contender: str
    ratios: list[CostEstimate] = Field(description="by metric; empty where no pair came about, and why")
    why: str | None = None

    def ratio(self, metric: str) -> CostEstimate | None:
        """That of a metric; None where trials without counters have no such metric."""
        return next((each for each in self.ratios if each.metric == metric), None)


class CountingCost(_Record):
    """What counting the processor's events changed in trials that counted them."""

    events: list[str] = Field(description="events of the processor that judged trials counted")
    counters: list[str] = Field(description="all that they counted besides what every trial does")
    pairs: int = Field(description="of each contender, as asked for")
    contenders: list[ContenderCost]


ProfiledSide = Literal["server", "client"]

FREQUENCY = 997
"""A prime: no clock of a kernel or a program keeps in step with it."""


class ProfilingTable(ExtraTrialsTable):
    """Where the time goes, by samples of the call stack in trials of their own: sampling costs."""

    frequency: int = Field(
        default=FREQUENCY, ge=1, le=10_000, description="samples for each second of CPU time of a thread"
    )
    event: Literal["auto", "cycles", "cpu-clock"] = Field(
        default="auto",
        description="by which samples are taken; auto: cycles where there is a PMU, else cpu-clock",
    )


# What came out ----------------------------------------------------------------------------------------------


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
