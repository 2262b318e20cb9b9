"""Why one contender costs more than another: what `thunderherd explain --json` and `summary.json` say."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Per = Literal["request", "byte", "connection"]
ExplainedSide = Literal["server", "client", "both"]

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
    """A figure and its bounds, which are the figure itself where nothing is known of its spread."""

    value: float
    low: float
    high: float

    @classmethod
    def exactly(cls, value: float) -> Range:
        """A figure without a spread."""
        return cls(value=value, low=value, high=value)

    def __add__(self, other: Range) -> Range:
        return Range(value=self.value + other.value, low=self.low + other.low, high=self.high + other.high)

    def __sub__(self, other: Range) -> Range:
        return Range(value=self.value - other.value, low=self.low - other.high, high=self.high - other.low)

    def __mul__(self, other: Range) -> Range:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Range(value=self.value * other.value, low=min(ends), high=max(ends))

    def times(self, factor: float) -> Range:
        """As many times as that."""
        return self * Range.exactly(factor)

    def at_least_zero(self) -> Range:
        """What is left where less than nothing would be."""
        return Range(value=max(0.0, self.value), low=max(0.0, self.low), high=max(0.0, self.high))


class Item(_Record):
    """One of the things that a cause is made of, such as a system call by its name."""

    name: str
    a: float = Field(description="how often in what is explained, such as in a request")
    b: float
    priced: bool = Field(
        description="false: it is in the price of a process, a thread or a connection already"
    )


class Cause(_Record):
    """A cause of the difference: how much more of it a has than b, at its price. Times in seconds."""

    cause: CauseName
    a: float | None = Field(
        description="how often in what is explained; null: it was not counted, or is the rest"
    )
    b: float | None
    unit: str = Field(description="of what is counted")
    price: Range | None = Field(description="of one; null: it was not measured, or is the rest")
    limit: str | None = Field(description="the limit of the machine that is the price")
    amount: Range | None = Field(description="what it adds to a against b; null: it is in the rest, and why")
    why: str | None = Field(default=None, description="why it has no amount, or what is to be known of it")
    items: list[Item] = Field(default_factory=list, description="those that differ, the most first")


class Difference(_Record):
    """What a needs more than b, paired by blocks: the Hodges-Lehmann estimate. Times in seconds."""

    a: float = Field(description="of a alone")
    b: float
    value: float = Field(description="less than 0: a needs less")
    low: float | None = Field(description="null: so few blocks give no bound at this confidence")
    high: float | None
    confidence: float | None
    blocks: int

    @property
    def is_shown(self) -> bool:
        """Whether its interval leaves out that there is none."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


class Explanation(_Record):
    """The difference between the CPU times of two contenders, by cause: with the rest, they add up to it."""

    a: str
    b: str
    side: ExplainedSide = Field(description="whose CPU time")
    per: Per
    difference: Difference
    causes: list[Cause] = Field(description="the largest amount first, the rest last")
    trials: tuple[int, int] = Field(description="counted trials of a and of b")
    network: Range | None = Field(
        default=None,
        description="what the kernel's network code adds to a against b, by the profiles of both: it has "
        "no price, so it is in the rest; null: not both were sampled so that it is known, or connections "
        "are a cause, whose price has such code in it",
    )
    remarks: list[str] = Field(
        default_factory=list, description="beside each figure: what was copied after all, and the like"
    )

    @property
    def rest(self) -> Cause:
        """What no cause accounts for."""
        return self.causes[-1]
