"""Why one contender costs more than another: `thunderherd explain --json`, and a part of `summary.json`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.metrics.table import SideOrBoth

Per = Literal["request", "byte", "connection"]

CauseName = Literal[
    "connections",
    "processes",
    "threads",
    "system_calls",
    "switches_and_wakeups",
    "page_faults",
    "copies",
    "rest",
]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Range(_Record):
    """A figure and its bounds; both bounds equal the figure if its spread is unknown."""

    value: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Range:
        """A figure without spread."""
        return cls(value=value, low=value, high=value)

    def __add__(self, other: Range) -> Range:
        return Range(value=self.value + other.value, low=self.low + other.low, high=self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(value=self.value - other.value, low=self.low - other.high, high=self.high - other.low)

    def __mul__(self, other: Range) -> Range:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Range(value=self.value * other.value, low=min(ends), high=max(ends))

    def times(self, factor: float) -> Range:
        """The range multiplied by a factor."""
        return self * Range.exactly(factor)

    def at_least_zero(self) -> Range:
        """The range with negative values set to 0."""
        return Range(value=max(0.0, self.value), low=max(0.0, self.low), high=max(0.0, self.high))


class Item(_Record):
    """A part of a cause, such as one system call by name."""

    name: str = Field(description="name of the item")
    a: float = Field(description="how often a does it per unit (`per` of the explanation)")
    b: float = Field(description="how often b does it per unit")
    priced: bool = Field(
        description="false: its cost is already in the price of a process, thread or connection"
    )


class Cause(_Record):
    """A cause of the difference: how much more of it a has than b, times its price. Times in seconds."""

    cause: CauseName = Field(description="name of the cause")
    a: float | None = Field(
        description="how often it happens to a per unit (`per` of the explanation). Null: not counted, "
        "or the rest"
    )
    b: float | None = Field(description="how often it happens to b per unit. Null: not counted, or the rest")
    unit: str = Field(description="what is counted")
    price: Range | None = Field(description="cost of one, seconds. Null: not measured, or the rest")
    limit: str | None = Field(
        description="the machine limit that is the price. Null: no single one, or no price"
    )
    amount: Range | None = Field(
        description="what the cause adds to a compared with b, seconds per unit. Null: part of the rest, "
        "for the reason in `why`"
    )
    why: str | None = Field(
        default=None, description="why it has no amount, or a caveat of the amount. Null: neither"
    )
    items: list[Item] = Field(
        default_factory=list, description="the parts that differ, the largest difference first"
    )


class Difference(_Record):
    """The CPU time that a needs more than b: Hodges-Lehmann estimate, paired by blocks. Times in seconds."""

    a: float = Field(description="CPU time of a alone, seconds per unit")
    b: float = Field(description="CPU time of b alone, seconds per unit")
    value: float = Field(description="estimate of the difference, seconds per unit; below 0, a needs less")
    low: float | None = Field(
        description="lower end of its interval. Null: too few blocks for a bound at this confidence"
    )
    high: float | None = Field(
        description="upper end of its interval. Null: too few blocks for a bound at this confidence"
    )
    confidence: float | None = Field(description="confidence of the interval. Null: no interval")
    blocks: int = Field(description="number of blocks that the estimate rests on")

    @property
    def is_shown(self) -> bool:
        """True if the difference is significant: its interval excludes 0."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


class Explanation(_Record):
    """The difference between the CPU times of two contenders, by cause. The causes, with the rest, add up to
    it."""

    a: str = Field(description="name of the first contender")
    b: str = Field(description="name of the second contender")
    side: SideOrBoth = Field(description="the side whose CPU time is explained")
    per: Per = Field(description="the unit of all amounts: CPU time per request, byte or connection")
    difference: Difference = Field(description="the difference to be explained")
    causes: list[Cause] = Field(description="the largest amount first, the rest last")
    trials: tuple[int, int] = Field(description="number of counted trials of a and of b")
    network: Range | None = Field(
        default=None,
        description="what the kernel's network code adds to a compared with b, seconds per unit, by the "
        "profiles of both. It has no price, so it is part of the rest. Null: not both "
        "profiles show it, or connections are a cause, whose price includes such code",
    )
    remarks: list[str] = Field(
        default_factory=list,
        description="caveats that belong next to each figure, such as data that was copied after all",
    )

    @property
    def rest(self) -> Cause:
        """The part of the difference that no cause accounts for."""
        return self.causes[-1]
