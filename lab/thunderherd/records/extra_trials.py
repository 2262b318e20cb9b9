"""Extra trials, which follow the judged ones: the tables of a study that ask for them, and their results.

```toml
[counting]                  # what happens during a request
trials = 1                  # of each contender; 0: none
counters = ["tcp_info"]     # in addition to the counters that explain a difference
contenders = ["prefork"]    # default: all of the main table, and each sweep's first and last point

[counting_cost]             # what counting the processor's events costs
trials = 6                  # pairs of trials of each contender; 0: none
contenders = ["prefork"]    # default: up to three of the main table

[profiling]                 # where CPU time goes
trials = 1                  # of each contender; 0: none; `run --profile` makes it 1
frequency = 997             # samples per second of CPU time
event = "auto"              # "cycles" if there is a PMU, else "cpu-clock"
contenders = ["prefork"]    # default: all of the main table
```
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.metrics.table import Side, SideOrBoth
from thunderherd.stacks.symbols import CopyKind, Mode
from thunderherd.toml.strict import StrictTable

SYSTEM_CALLS, WAKEUPS, PAGE_FAULTS = "system_calls", "wakeups", "page_faults"
VOLUNTARY, INVOLUNTARY, CONTEXT_SWITCHES = "voluntary_switches", "involuntary_switches", "context_switches"

SWITCHES = "switches"
"""The unit of switches that are explained without the wake-ups that belong to them."""

WHAT_EXPLAINS = (SYSTEM_CALLS, WAKEUPS, VOLUNTARY, INVOLUNTARY, CONTEXT_SWITCHES, PAGE_FAULTS)
"""The counters that explain a difference in cost."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


# The base of the three tables of a study --------------------------------------------------------------------


class ExtraTrialsTable(StrictTable):
    """A table that requests extra trials. They follow all judged trials, because measuring costs CPU time."""

    at_both_ends: ClassVar[bool] = False
    """The default contenders: true adds each sweep's first and last point to the main table.

    False uses the last points only if there is no main table.
    """

    trials: int = Field(
        default=0,
        ge=0,
        le=100,
        description="number of extra trials of each contender, after all judged trials (0: none)",
    )
    contenders: list[str] = Field(
        default=[],
        description="names, such as BASE@SWEEP=POINT (default: those of the main table; of a study of "
        "sweeps alone, those at each sweep's last point)",
    )

    @property
    def is_asked_for(self) -> bool:
        """True if the resolved table requests any trials."""
        return bool(self.trials and self.contenders)


# [counting] -------------------------------------------------------------------------------------------------


class CountingTable(ExtraTrialsTable):
    """Counted trials: extra trials that count what happens during a request."""

    at_both_ends: ClassVar[bool] = True

    counters: list[str] = Field(
        default=[],
        description=f"counters in addition to those of all trials and those that explain a difference "
        f"({', '.join(WHAT_EXPLAINS)})",
    )
    contenders: list[str] = Field(
        default=[],
        description="names, such as BASE@SWEEP=POINT (default: those of the main table, and of each "
        "sweep those at its first and last point)",
    )


class Count(_Record):
    """The count of one counter."""

    per_request: float = Field(description="mean of the counted trials, per request")
    least: float = Field(description="least of the counted trials, per request")
    most: float = Field(description="most of the counted trials, per request")
    per_byte: float | None = Field(
        description="mean of the counted trials, per byte of payload. Null: no payload was counted"
    )


class State(_Record):
    """The value of a counter at one moment, near the end of a window."""

    value: float = Field(description="mean of the counted trials")
    least: float = Field(description="least of the counted trials")
    most: float = Field(description="most of the counted trials")
    unit: str = Field(description="the engine's unit, but seconds for times")


class SideCounts(_Record):
    """The counts of one side, or of both together."""

    counts: dict[str, Count] = Field(
        description="by counter, its count. A counter with several figures also has one entry per figure "
        "that is not 0, as COUNTER.PART (system_calls.read). Also figures of the tally, such "
        "as send_calls, and bytes_copied between programs and kernel"
    )
    states: dict[str, State] = Field(
        default_factory=dict,
        description="by figure of a counter that reports one moment, its value (tcp_info.retransmits). "
        "For memory also the amount per connection (memory_per_connection)",
    )
    unavailable: dict[str, str] = Field(
        default_factory=dict, description="by counter that could not be read, the reason"
    )
    scaled: dict[str, float] = Field(
        default_factory=dict,
        description="by counter that is extrapolated, the least share of the time in which it was "
        "counted (0 to 1)",
    )


class ContenderCounts(_Record):
    """The counts of a contender."""

    contender: str = Field(description="name of the contender")
    trials: int = Field(description="number of valid counted trials, which the counts rest on")
    requests: int = Field(description="number of requests in these trials")
    requests_per_connection: float | None = Field(
        description="requests per connection opened in the windows. Null: no connection was opened in them"
    )
    sides: dict[SideOrBoth, SideCounts] = Field(
        description="by side, its counts; empty without a valid counted trial, for the reason in `why`"
    )
    why: str | None = Field(default=None, description="why there are no counts. Null: there are")


class CountingSummary(_Record):
    """The results of counted trials. None of their other figures is used anywhere."""

    trials: int = Field(description="requested counted trials of each contender")
    counters: list[str] = Field(
        description="the counters that explain a difference, and further requested ones"
    )
    contenders: list[ContenderCounts] = Field(description="one entry per contender")

    def of(self, contender: str) -> ContenderCounts | None:
        """The counts of a contender; None if it has none."""
        return next((each for each in self.contenders if each.contender == contender), None)


# [counting_cost] --------------------------------------------------------------------------------------------


PAIRS = 6
"""The fewest pairs for which the signed ranks give an interval of 95 %."""
MOST_CONTENDERS = 3
"""Most contenders if the study names none."""


class CostTable(ExtraTrialsTable):
    """Pairs of extra trials that measure what counting costs: one with all of `measure.counters`, one
    without.

    Only of a study whose trials count events of the processor.
    """

    trials: int = Field(
        default=PAIRS,
        ge=0,
        le=100,
        description="number of pairs of extra trials of each contender, after all judged trials (0: none)",
    )
    contenders: list[str] = Field(
        default=[],
        description=f"names, such as BASE@SWEEP=POINT (default: up to {MOST_CONTENDERS} of the main "
        f"table; of a study of sweeps alone, up to {MOST_CONTENDERS} at each sweep's last "
        f"point)",
    )


class CostEstimate(_Record):
    """The ratio of a metric with counters to without: the Hodges-Lehmann estimate over pairs."""

    metric: str = Field(description="name of the metric")
    value: float = Field(
        description="ratio with counters / without; 1: counting changes nothing, 1.5: half as much again"
    )
    low: float | None = Field(
        description="lower end of its interval. Null: too few pairs for an interval at this confidence"
    )
    high: float | None = Field(
        description="upper end of its interval. Null: too few pairs for an interval at this confidence"
    )
    confidence: float = Field(description="confidence of the interval")
    least: float = Field(description="least ratio of all pairs")
    most: float = Field(description="largest ratio of all pairs")
    pairs: int = Field(description="number of pairs with the metric in both trials")

    def is_beyond(self, percent: float) -> bool:
        """True if the ratio is shown to differ from 1 by more than `percent`.

        By its interval; with too few pairs for an interval, by all pairs.
        """
        low = self.least if self.low is None else self.low
        high = self.most if self.high is None else self.high
        return low > 1 + percent / 100 or high < 1 - percent / 100


class ContenderCost(_Record):
    """The cost of counting for a contender."""

    contender: str = Field(description="name of the contender")
    ratios: list[CostEstimate] = Field(
        description="one entry per metric; empty without a valid pair, for the reason in `why`"
    )
    why: str | None = Field(default=None, description="why there is no ratio. Null: there is one")

    def ratio(self, metric: str) -> CostEstimate | None:
        """The ratio of a metric; None if trials without counters do not have it."""
        return next((each for each in self.ratios if each.metric == metric), None)


class CountingCost(_Record):
    """The changes of trials by counting events of the processor in them."""

    events: list[str] = Field(description="events of the processor that the trials with counters counted")
    counters: list[str] = Field(description="all counters of these trials, without those of every trial")
    pairs: int = Field(description="requested pairs of each contender")
    contenders: list[ContenderCost] = Field(description="one entry per contender")


# [profiling] ------------------------------------------------------------------------------------------------


FREQUENCY = 997
"""A prime, so that sampling does not run in step with a clock of the kernel or the program."""


class ProfilingTable(ExtraTrialsTable):
    """Profiled trials: extra trials that sample call stacks to show where CPU time goes."""

    frequency: int = Field(
        default=FREQUENCY, ge=1, le=10_000, description="samples per second of CPU time of a thread"
    )
    event: Literal["auto", "cycles", "cpu-clock"] = Field(
        default="auto",
        description="event by which samples are taken; auto: cycles if there is a PMU, else cpu-clock",
    )


class Share(_Record):
    """A share of samples with its interval."""

    value: float = Field(description="share of samples (0 to 1)")
    low: float = Field(description="lower end of its interval")
    high: float = Field(description="upper end of its interval")
    confidence: float = Field(description="confidence of the interval")


class SelfSymbol(_Record):
    """A function, and the share of samples taken in it, without the functions that it calls."""

    symbol: str = Field(description="name of the function")
    mode: Mode = Field(description="whether it runs in kernel or user mode")
    share: float = Field(description="share of the side's samples (0 to 1)")


class SideProfile(_Record):
    """One side's CPU time by function, from samples in the windows of its trials."""

    event: str = Field(description="the sampled event: cycles, or cpu-clock if there is no PMU")
    why_not_cycles: str | None = Field(description="why the event is not cycles. Null: it is")
    frequency_hertz: int = Field(description="requested samples per second of CPU time")
    samples: int = Field(description="number of samples in the windows, without those of the sampling itself")
    covered: float | None = Field(
        description="samples taken / samples expected from frequency and CPU time. Below 1 if processes "
        "or threads live shorter than the time between two samples and each is sampled "
        "separately, or if a CPU runs at fewer cycles than when sampling began. Null: no CPU "
        "time"
    )
    why_not_cpus: str | None = Field(
        description="why samples were not taken on every CPU, which would miss none. Null: they were"
    )
    of_sampling: float = Field(
        description="share of all samples taken while the kernel was busy with sampling (0 to 1); no "
        "other figure includes them"
    )
    lost: int = Field(description="samples of the whole trials that the kernel could not deliver")
    throttled: int = Field(description="how often the kernel took fewer samples than requested")
    kernel_symbols: bool = Field(description="whether the kernel's functions have names")
    why_no_kernel_symbols: str | None = Field(
        default=None, description="why they have no names. Null: they have"
    )
    copying: Share | None = Field(description="share of samples in functions that copy. Null: no samples")
    copying_by_kind: dict[CopyKind, float] = Field(
        description="the same by kind (0 to 1): between program and kernel, within the kernel, within "
        "the program"
    )
    network: Share | None = Field(
        default=None,
        description="share of samples in the kernel's network code, without copying, switches, wake-ups "
        "and page faults. Null: no samples, or the kernel's functions have no names",
    )
    unnamed: float | None = Field(
        description="share of samples in functions without a name (0 to 1), as in a library without "
        "symbols; whether they copy is unknown. Null: no samples"
    )
    interrupts_off: float | None = Field(
        description="share of samples attributed to the caller of a function that re-enabled interrupts "
        "(0 to 1). Null: the sampled event does not wait for interrupts"
    )
    top: list[SelfSymbol] = Field(description="functions with the most samples of their own, the most first")
    folded: str = Field(description="file of the folded stacks, in the run's directory")
    flame_graph: str | None = Field(
        description="file of the flame graph (SVG), in the run's directory. Null: it was not drawn"
    )


class ContenderProfile(_Record):
    """The profile of a contender."""

    contender: str = Field(description="name of the contender")
    trials: int = Field(description="number of valid profiled trials")
    requests: int = Field(description="number of requests in the windows of these trials")
    sides: dict[Side, SideProfile] = Field(
        description="by side, its profile; empty without a valid trial, for the reason in `why`"
    )
    why: str | None = Field(default=None, description="why there is no profile. Null: there is one")


class DifferentialProfile(_Record):
    """A flame graph of where a spends more time than b, and where less."""

    a: str = Field(description="the contender whose stacks are drawn")
    b: str = Field(description="the contender that it is compared with")
    side: Side = Field(description="the side that is compared")
    unit: str = Field(description="unit of the widths, which are those of a")
    flame_graph: str = Field(description="file of the flame graph (SVG), in the run's directory")


class ProfilingSummary(_Record):
    """The results of profiled trials. None of their other figures is used anywhere."""

    trials: int = Field(description="requested profiled trials of each contender")
    frequency_hertz: int = Field(description="requested samples per second of CPU time")
    contenders: list[ContenderProfile] = Field(description="one entry per contender")
    differentials: list[DifferentialProfile] = Field(
        default_factory=list,
        description="the best contender of each table compared with the second, and with the study's "
        "baseline",
    )

    def of(self, contender: str) -> ContenderProfile | None:
        """The profile of a contender; None if it has none."""
        return next((each for each in self.contenders if each.contender == contender), None)
