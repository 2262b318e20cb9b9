"""The one table of metrics: what a trial gives one number for, in words, with its unit and its better
direction.

Most have a fixed name (`METRICS`). Those of one side, `server.NAME` and `client.NAME`, are open-ended: NAME
is a figure of a counter that the study asks both sides for, what the system says of a process that has ended
(`OF_A_LIFE`), or what a side counts as it goes (`OF_A_TALLY`). Amounts are also there `_per_request` and
`_per_byte` of payload, counters `_per_second` and `_per_cpu_second` besides, and some divided by each other
(`RATIOS`). What both sides have together is `both.NAME_per_request` and `both.NAME_per_byte`. A state, such
as a window of TCP, is no amount, and is divided by nothing; but memory is held `_per_connection`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.counter_names import figures_of_counters, states_of_counters

Better = Literal["less", "more"]
"""Which of two values of a metric is the better one."""

CPU_PER_CONNECTION = "server_cpu_per_connection"
"""The metric that is shown for as many connections as the study says."""

PAYLOAD_RATE, SHARE_OF_CEILING = "gigabits_per_second", "share_of_ceiling"
"""What a sweep with a ceiling compares, and as what."""

SHARE = "share"
"""The unit of what is 1 at most, or about it, and shown in percent."""


Side = Literal["server", "client"]
"""Whose figure it is: one that takes a look at the server, or one that the clients tell by themselves."""


@dataclass(frozen=True, slots=True)
class Metric:
    """How a metric is read, compared and shown."""

    name: str
    words: str
    """What it is, to stand in a sentence or as a heading."""
    unit: str = ""
    """Of one value: "s" (everything that lasts is in seconds), "1/s", "share", "connections"; empty for a
    plain number."""
    better: Better = "less"
    digits: int = 3
    """Significant digits that are worth showing."""
    whole: bool = False
    """A count of things: in one trial it has no decimals."""
    side: Side = "server"
    """Of the clients is also what a timed load tells by itself, whenever its server was read."""
    heading: str = ""
    """As the head of a narrow column; empty: its words."""
    figure: str = ""
    """The figure of a workload's own (`LoadResult.figures`) of which it is the mean over the requests, in
    this unit; empty: it is computed otherwise."""
    fewest_requests: int = 0
    """A trial with fewer has none: ten must lie beyond a percentile (the engine's rule)."""

    @property
    def short(self) -> str:
        """The head of a narrow column."""
        return self.heading or self.words


def _table(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


LATENCY = "latency"
TIMES = (LATENCY, "service_time", "send_lag", "connection_wait")
"""What a load times, request by request; all but the latency of an open loop alone."""

PERCENTILES = {"p50": 20, "p90": 100, "p99": 1_000, "p999": 10_000}
"""As a metric's name has them, and the fewest requests that give one."""

REQUESTS_OF_MAXIMUM = 100
"""The fewest of which the longest is told."""


def _times(name: str, words: str, *, short: bool = False) -> list[Metric]:
    """The metrics of something that is timed request by request: `NAME_p99_seconds`."""

    def of(part: str, said: str, fewest: int = 0) -> Metric:
        heading = part if short and part in ("p50", "p99") else ""
        full = f"{name}_{part}_seconds"
        return Metric(full, said, "s", side="client", heading=heading, fewest_requests=fewest)

    said = {"p50": f"median {words}"}
    said |= {
        part: f"{part[1:3]}{'.9' * (part == 'p999')}th percentile of {words}"
        for part in ("p90", "p99", "p999")
    }
    found = [of(part, said[part], fewest) for part, fewest in PERCENTILES.items()]
    longest = of("maximum", f"longest {words}", REQUESTS_OF_MAXIMUM)
    return [of("mean", f"mean {words}"), *found, longest]


METRICS = _table(
    Metric(
        "connections",
        "connections that were opened",
        "connections",
        "more",
        whole=True,
        side="client",
        heading="Conn#",
    ),
    Metric(
        "requests",
        "requests that the clients saw answered",
        "requests",
        "more",
        whole=True,
        side="client",
        heading="Req#",
    ),
    Metric("server_cpu_seconds", "CPU time of the server", "s", heading="Server CPU"),
    Metric("server_cpu_per_connection", "server CPU per connection", "s", heading="CPU"),
    Metric("server_cpu_per_request", "server CPU per request", "s", heading="CPU/request"),
    Metric("client_cpu_seconds", "CPU time of the clients", "s", side="client"),
    Metric("client_cpu_per_request", "client CPU per request", "s", side="client"),
    Metric("machine_cpu_seconds", "CPU time of everything on the machine", "s"),
    Metric("server_cpu_per_byte", "server CPU per byte of payload", "s", heading="Server CPU/byte"),
    Metric(
        "client_cpu_per_byte", "client CPU per byte of payload", "s", side="client", heading="Client CPU/byte"
    ),
    Metric("cpu_per_byte", "CPU of server and clients per byte of payload", "s", heading="CPU/byte"),
    Metric("machine_cpu_per_byte", "CPU of everything on the machine per byte of payload", "s"),
    Metric("elapsed_seconds", "elapsed time", "s", side="client", heading="Time"),
    Metric(
        "connections_per_second",
        "connections per second",
        "1/s",
        "more",
        side="client",
        heading="Connections",
    ),
    Metric("requests_per_second", "requests per second", "1/s", "more", side="client", heading="Throughput"),
    Metric(
        "gigabits_per_second",
        "payload moved, in 10⁹ bits a second",
        "Gbit/s",
        "more",
        side="client",
        heading="Gbit/s",
    ),
    Metric(
        "share_of_rate",
        "share of the link's rate",
        SHARE,
        better="more",
        side="client",
        heading="Of rate",
    ),
    Metric(
        "share_of_ceiling",
        "share of the ceiling in the same block",
        SHARE,
        better="more",
        side="client",
        heading="Of ceiling",
    ),
    Metric("sends_per_second", "send calls of the sending end", "1/s", "more", side="client"),
    Metric("receives_per_second", "receive calls of the receiving end", "1/s", "more", side="client"),
    Metric("queueing_bound", "queueing bound of requests per second", "1/s", "more", side="client"),
    Metric("share_of_queueing_bound", "share of the queueing bound", better="more", side="client"),
    *_times("latency", "latency", short=True),
    *_times("service_time", "service time"),
    *_times("send_lag", "lateness of the load itself"),
    *_times("connection_wait", "wait for a free connection"),
    Metric("offered_per_second", "requests that were due per second", "1/s", "more", side="client"),
    Metric(
        "share_of_offered",
        "share of the offered rate that was answered in time",
        SHARE,
        "more",
        side="client",
    ),
    Metric("waited_share", "share of requests that had no free connection", SHARE, side="client"),
    Metric(
        "never_sent",
        "requests that no connection was free for in time",
        "requests",
        whole=True,
        side="client",
    ),
    Metric("in_system", "requests under way at a time", "requests", side="client"),
    Metric(
        "generator_share", "share of its time that the busiest thread of the load ran", SHARE, side="client"
    ),
    Metric("duration_per_message", "duration by messages, of all clients together", "s", side="client"),
    Metric(
        "sending_microseconds",
        "time until a request was sent",
        "µs",
        side="client",
        heading="Sending",
        figure="sending_ns",
    ),
    Metric(
        "round_trip_microseconds",
        "time until the server had told its reads",
        "µs",
        side="client",
        heading="Round trip",
        figure="round_trip_ns",
    ),
    Metric(
        "server_reads",
        "reads of the server per request",
        "reads",
        side="client",
        heading="Reads",
        figure="server_reads",
    ),
    Metric(
        "voluntary_switches_per_connection",
        "voluntary context switches of the server per connection",
        heading="Switches/connection",
    ),
    Metric("empty_wakeups_per_connection", "returns from a wait that found nothing to do, per connection"),
    Metric("listener_holders", "processes of the server that hold the listener", whole=True),
    Metric("clients_per_worker_sd", "standard deviation of connections per worker", "connections"),
    Metric("clients_per_worker_min", "fewest connections of a worker", "connections", "more", whole=True),
    Metric("clients_per_worker_max", "most connections of a worker", "connections", whole=True),
    Metric(
        "listen_drops", "connections dropped because the listen queue was full", "connections", whole=True
    ),
)
"""The metrics with a fixed name, in the order in which tables have them."""

SIDES: dict[Side, str] = {"server": "of the server", "client": "of the clients"}
"""Both ends, with the words that follow a metric."""

SIDE_NAMES: dict[Side, str] = {"server": "Server", "client": "Clients"}
"""Both ends as headings."""

BOTH = "both"
"""In the place of a side: what server and clients have together, of a request or a byte. There is no sum of
whole amounts: the server's are of the window, the clients' of all of their load."""

PER_REQUEST, PER_BYTE = "_per_request", "_per_byte"
PER_SECOND, PER_CPU_SECOND = "_per_second", "_per_cpu_second"
PER_CONNECTION = "_per_connection"
PER = {
    PER_REQUEST: "per request",
    PER_BYTE: "per byte of payload",
    PER_CPU_SECOND: "per second of its CPU time",
    PER_SECOND: "per second",
    PER_CONNECTION: "per connection",
}
"""What a figure of a side may be divided by, as the metric's name ends, and in words; no ending is one of
those before it."""

OF_BOTH = (PER_REQUEST, PER_BYTE)
"""What the sum of both sides may be divided by: each side's is of the requests and bytes that it saw. Their
times are not the same."""

RATES = (PER_SECOND, PER_CPU_SECOND)
"""What counters are divided by besides: the time in which they were counted, and the CPU time of the side in
it (`task_clock`), as perf-stat(1) has its rates."""

TASK_CLOCK = "task_clock"
"""The counter of CPU time that rates are per second of."""

HELD = ("memory", "memory.kernel", "memory.sockets")
"""The states that a server has more of for each connection: `server.memory_per_connection` is what there was
near the end of a timed window more than before its load came, by the connections that were open then."""

ELAPSED = "elapsed_seconds"
"""How long the window was; of a side, the time in which it was counted: of the clients, all of their load."""

OF_A_LIFE = {
    ELAPSED: "elapsed time",
    "user_seconds": "user CPU time",
    "system_seconds": "system CPU time",
    "voluntary_switches": "voluntary context switches",
    "involuntary_switches": "involuntary context switches",
    "minor_faults": "minor page faults",
    "major_faults": "major page faults",
}
"""What a process that has ended is known to have used; of the server only where the trial is its whole
life."""

ABBREVIATIONS = {"cpu": "CPU", "llc": "LLC", "l1": "L1"}
"""Of a counter's name, in words."""

OF_A_TALLY = {
    "send_calls": "send calls",
    "receive_calls": "receive calls",
    "bytes_sent": "bytes sent",
    "bytes_received": "bytes received",
    "bytes_not_copied": "bytes received without being copied",
    "completions": "sends without copying that were completed",
    "completions_copied": "sends without copying that were copied after all",
}
"""What each side counts as it goes, in every trial: the server's in the window where there is one, the
clients' over all of their load."""

COPIED_SHARE = "copied_share"
"""Of the sends without copying, those that were copied after all: 1 over loopback and between namespaces."""

NOT_COPIED_SHARE = "not_copied_share"
"""Of the bytes received, those that were mapped, or thrown away by the kernel."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure of a side divided by another of it, times a factor."""

    above: str
    below: str
    words: str
    unit: str = ""
    factor: float = 1.0
    better: Better = "less"

    @property
    def parts(self) -> tuple[str, str]:
        """What it is made of."""
        return self.above, self.below


RATIOS = {
    "cpus_utilized": Ratio(TASK_CLOCK, ELAPSED, "CPUs utilized"),
    "gigahertz": Ratio("cpu_cycles", TASK_CLOCK, "clock rate of the CPUs", "GHz", 1e-9, "more"),
    "instructions_per_cycle": Ratio("instructions", "cpu_cycles", "instructions per cycle", better="more"),
    "branch_miss_share": Ratio(
        "branch_misses", "branch_instructions", "share of branches predicted wrongly", SHARE
    ),
    "cache_miss_share": Ratio(
        "cache_misses", "cache_references", "share of uses of the cache that missed", SHARE
    ),
    "l1_dcache_load_miss_share": Ratio(
        "l1_dcache_load_misses", "l1_dcache_loads", "share of loads that missed the L1 data cache", SHARE
    ),
    "llc_load_miss_share": Ratio(
        "llc_load_misses", "llc_loads", "share of loads from the last level of the cache that missed", SHARE
    ),
    "cache_misses_per_instruction": Ratio("cache_misses", "instructions", "cache misses per instruction"),
    COPIED_SHARE: Ratio("completions_copied", "completions", "copied share"),
    NOT_COPIED_SHARE: Ratio("bytes_not_copied", "bytes_received", "not copied share"),
}
"""What is known of each side where both the figure above and the one below the line are."""

NO_CONNECTION_HELD = (
    "memory per connection is that of connections that are open near the end of a window: of a load that "
    "ends by time (load.settings.milliseconds), and never of a whole life"
)

NONE_BECAUSE = {
    **{f"{name}{PER_CONNECTION}": NO_CONNECTION_HELD for name in HELD},
    COPIED_SHARE: "nothing was sent without copying",
    "share_of_rate": "its lab has no rate, or it moved no payload that is counted",
    "share_of_ceiling": "the contender that shows the ceiling has no trial beside it",
    **dict.fromkeys(("in_system", "generator_share"), "its load has no event loop that tells it"),
}
"""Why there is none of these, where all that it is made of was counted."""

NANOSECONDS = "nanoseconds"
"""The unit of counters of time, as the engine says it; as metrics they are in seconds."""

UNITS_OF_TIME = {"s": 1.0, "ms": 1e3, "msec": 1e3, "us": 1e6, "usec": 1e6, "µs": 1e6, "ns": 1e9}
"""What a second is in the units that sources use."""


def metric(name: str, counters: Mapping[str, str] = {}) -> Metric:
    """The metric of that name; `counters` are the units of those that are asked for.

    Raises KeyError where no study can have one of that name.
    """
    if name in METRICS:
        return METRICS[name]
    whole = parted(name.partition(".")[2])[0]
    return _of_counters(name, counters.get(whole) == NANOSECONDS or whole.endswith("_seconds"))


@lru_cache(maxsize=4096)
def _of_counters(name: str, is_time: bool) -> Metric:
    before, dot, what = name.partition(".")
    side: Side | None = next((side for side in SIDES if side == before), None)
    whole, per = parted(what)
    if not dot or not whole or (side is None and (before != BOTH or per not in OF_BOTH)):
        raise KeyError(name)
    whose = SIDES[side] if side else "of server and clients"
    if side and (ratio := RATIOS.get(what)):
        return Metric(name, f"{ratio.words} {whose}", ratio.unit, ratio.better, side=side)
    words = f"{(OF_A_LIFE | OF_A_TALLY).get(whole) or _spelled(whole)} {whose}"
    found = Metric(name, words, "s" if is_time else "", whole=not is_time, side=side or "server")
    if not per:
        return found
    unit = {PER_CONNECTION: "bytes"}.get(per, found.unit)
    if per in RATES:
        unit = "" if is_time else "1/s"
    return replace(found, words=f"{words} {PER[per]}", unit=unit, whole=False)


def known_metric(name: str, counters: Mapping[str, str] = {}) -> Metric | None:
    """The same; None where no study can have one of that name."""
    try:
        return metric(name, counters)
    except KeyError:
        return None


def _spelled(name: str) -> str:
    if ":" in name or "/" in name:
        return name  # an event is called as the machine calls it
    return " ".join(ABBREVIATIONS.get(part, part) for part in name.split("_"))


def parted(what: str) -> tuple[str, str]:
    """A figure of a side, and what it is divided by: `("cpu_cycles", "_per_byte")`; empty: by nothing."""
    for per in PER:
        if what.endswith(per):
            return what.removesuffix(per), per
    return what, ""


def is_of_clients(name: str) -> bool:
    """Whether a timed load tells it by itself, without a look at its server."""
    found = known_metric(name)
    return found is not None and found.side == "client"


@dataclass(frozen=True, slots=True)
class AskedCounters:
    """What a study asks both sides for: the figures of its counters, and those of them that are states."""

    figures: tuple[str, ...] = ()
    states: frozenset[str] = frozenset()

    @property
    def of_sides(self) -> list[str]:
        """What there is of each side."""
        return list(dict.fromkeys([*OF_A_LIFE, *OF_A_TALLY, *self.figures]))

    def divided(self) -> Iterator[tuple[str, str]]:
        """What there is of them divided by something else, as figure and ending."""
        for figure in self.of_sides:
            if figure not in self.states:
                yield from ((figure, per) for per in OF_BOTH)
            if figure in self.figures and figure not in self.states:
                yield from ((figure, per) for per in rates_of(figure, self.figures))


def asked_counters(names: Iterable[str], catalogue: Catalogue) -> AskedCounters:
    """The figures of counters by their names, as the engine has them."""
    asked = [*names]
    states = states_of_counters(asked, catalogue)
    return AskedCounters(tuple(figures_of_counters(asked, catalogue)), frozenset(states))


def rates_of(figure: str, counters: Collection[str]) -> list[str]:
    """By which times a counter is divided, where these are asked for; CPU time by itself is not."""
    return [per for per in RATES if per == PER_SECOND or (TASK_CLOCK in counters and figure != TASK_CLOCK)]


def metric_names(asked: AskedCounters = AskedCounters()) -> list[str]:
    """Every metric that a study which asks for these counters may name."""
    figures = asked.of_sides
    divided = list(asked.divided())
    ratios = [name for name, ratio in RATIOS.items() if set(ratio.parts) <= set(figures)]
    of_each = [*figures, *(f"{figure}{per}" for figure, per in divided), *ratios]
    held = [f"server.{name}{PER_CONNECTION}" for name in HELD if name in asked.figures]
    of_both = [f"{BOTH}.{figure}{per}" for figure, per in divided if per in OF_BOTH]
    return [*METRICS, *(f"{side}.{name}" for side in SIDES for name in of_each), *held, *of_both]


def counters_of(name: str) -> tuple[str, ...]:
    """The figures of its side that a metric is made of; none of one with a fixed name."""
    _, _, what = name.partition(".")
    if ratio := RATIOS.get(what):
        return ratio.parts
    whole, per = parted(what)
    return (whole, TASK_CLOCK) if per == PER_CPU_SECOND else (whole,) if what else ()


def made_of(side: str, counter: str, names: Iterable[str]) -> list[str]:
    """Of these metrics, those that rest on what a side's counter tells, on one of its further figures too."""
    return [
        name
        for name in names
        if name.partition(".")[0] in (side, BOTH)
        and any(part == counter or part.startswith(f"{counter}.") for part in counters_of(name))
    ]


def in_order(names: Iterable[str]) -> list[str]:
    """Names of metrics, each once: those of the table in its order, then the others as they come."""
    found = dict.fromkeys(names)
    return [*(name for name in METRICS if name in found), *(name for name in found if name not in METRICS)]


def better_of(name: str) -> Better:
    """The better direction of a metric; of one that does not exist, which was complained about, less."""
    found = known_metric(name)
    return found.better if found else "less"


OFFERED = "offered_per_second"
"""What every open loop has, and no other load."""

NO_SCHEDULE = (
    'only an open loop has it (load.kind = "open"): a request is due at one moment and sent at another there'
)


def is_of_open_loop(name: str) -> bool:
    """Whether only a load with a schedule tells it."""
    timed = any(name.startswith(f"{what}_") for what in TIMES if what != LATENCY)
    return timed or name in (OFFERED, "share_of_offered", "waited_share", "never_sent")


def is_latency(name: str) -> bool:
    """Whether it runs from where the kind of its load says."""
    return name.startswith(f"{LATENCY}_")
