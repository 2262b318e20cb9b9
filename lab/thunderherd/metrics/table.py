"""The one table of metrics: each number that a trial gives, with its words, unit and better direction.

Most metrics have a fixed name (`METRICS`). A new one is a row here and its computation in `trial/metrics.py`.
The metrics of one side, `server.NAME` and `client.NAME`, are open-ended. NAME is a figure of a counter that
the study requests, what the system reports of an ended process (`OF_A_LIFE`), or what each side counts itself
(`OF_A_TALLY`). Amounts also exist `_per_request` and `_per_byte` of payload; counters also `_per_second` and
`_per_cpu_second`. Some amounts are divided by each other (`RATIOS`). The sum of both sides is
`both.NAME_per_request` and `both.NAME_per_byte`. A state, such as a TCP window, is no amount and is divided
by nothing; only memory also exists `_per_connection`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import AfterValidator

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.counter_names import figures_of_counters, states_of_counters

Better = Literal["less", "more"]
"""The better direction of a metric."""

CPU_PER_CONNECTION = "server_cpu_per_connection"
"""The metric that is shown for the study's `normalise_connections`."""

PAYLOAD_RATE, SHARE_OF_CEILING = "gigabits_per_second", "share_of_ceiling"
"""The metric that a sweep with a ceiling compares, and the one that it shows."""

OFFERED = "offered_per_second"
"""The metric that every open loop has, and no other load."""

NO_EVENT_LOOP = "its load has no event loop that reports it"

SHARE = "share"
"""The unit of shares, which are about 1 at most and shown in percent."""


BoundRule = Literal[
    "payload",
    "connection_rate",
    "request_rate",
    "request_time",
    "stream_round_trip",
    "latency",
    "server_cpu_per_connection",
    "server_cpu_per_request",
    "task_clock",
]
"""The rules by which machine limits bound a metric (judge/summary/bounds.py)."""

Side = Literal["server", "client"]
"""The side that a figure belongs to: the server, or the clients, which need no reading of the server."""

SideOrBoth = Literal["server", "client", "both"]
"""One side, or the two together."""


@dataclass(frozen=True, slots=True)
class Metric:
    """The properties of a metric: how it is read, compared and shown."""

    name: str
    words: str
    """Its name in a sentence or as a heading."""
    unit: str = ""
    """The unit of a value: "s" (for all times), "1/s", "share", "connections"; empty for a plain number.
    """
    better: Better = "less"
    digits: int = 3
    """Significant digits worth showing."""
    whole: bool = False
    """A count, which has no decimals in a single trial."""
    side: Side = "server"
    """"client" also holds what a timed load reports itself, whenever its server was read."""
    heading: str = ""
    """The head of a narrow column; empty: its words."""
    figure: str = ""
    """The workload's own figure (`LoadResult.figures`) whose mean over the requests it is, in this unit.

    Empty: the metric is computed otherwise.
    """
    bound: BoundRule | None = None
    """The rule by which machine limits bound it; None: they do not."""
    paced: bool = False
    """It depends on how fast the clients of a closed loop can go. If they are the limit, a rate is a lower
    bound, and a time shows the clients."""
    open_loop: bool = False
    """Only loads with a schedule have it."""
    none_because: str = ""
    """The reason why a trial has no figure although everything that it is computed from was counted."""
    fewest_requests: int = 0
    """The fewest requests that give one: ten must lie beyond a percentile (the engine's rule)."""

    @property
    def short(self) -> str:
        """The head of a narrow column."""
        return self.heading or self.words


def _table(*metrics: Metric) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics}


LATENCY = "latency"
CONNECTING = "connecting"
TIMES = (LATENCY, CONNECTING, "service_time", "send_lag", "connection_wait")
"""The times that a load takes of each request or connection; only open loops have the last three."""

TOO_FEW_CONNECTIONS = "too few connections were opened in the window, or none"

PERCENTILES = {"p50": 20, "p90": 100, "p99": 1_000, "p999": 10_000}
"""The percentiles in metric names, with the fewest requests that give each."""

REQUESTS_OF_MAXIMUM = 100
"""The fewest requests of which a maximum is reported."""


def _times(name: str, words: str, *, bound: BoundRule | None = None) -> list[Metric]:
    """Return the metrics of a time that is taken of each request or connection: `NAME_p99_seconds`."""

    def of(part: str, label: str, fewest: int = 0) -> Metric:
        heading = part if name == LATENCY and part in ("p50", "p99") else ""
        return Metric(
            f"{name}_{part}_seconds",
            label,
            "s",
            side="client",
            heading=heading,
            bound=bound,
            paced=name == LATENCY,
            open_loop=name not in (LATENCY, CONNECTING),
            none_because=TOO_FEW_CONNECTIONS if name == CONNECTING else "",
            fewest_requests=0 if name == CONNECTING else fewest,
        )

    labels = {"p50": f"median {words}"}
    labels |= {
        part: f"{part[1:3]}{'.9' * (part == 'p999')}th percentile of {words}"
        for part in ("p90", "p99", "p999")
    }
    found = [of(part, labels[part], fewest) for part, fewest in PERCENTILES.items()]
    longest = of("maximum", f"longest {words}", REQUESTS_OF_MAXIMUM)
    return [of("mean", f"mean {words}"), *found, longest]


METRICS = _table(
    Metric(
        "connections", "connections opened", "connections", "more", whole=True, side="client",
        heading="Conn#",
    ),
    Metric(
        "requests", "requests answered, as the clients saw", "requests", "more", whole=True, side="client",
        heading="Req#",
    ),
    Metric("server_cpu_seconds", "CPU time of the server", "s", heading="Server CPU"),
    Metric(
        CPU_PER_CONNECTION, "server CPU per connection", "s", heading="CPU",
        bound="server_cpu_per_connection",
    ),
    Metric(
        "server_cpu_per_request", "server CPU per request", "s", heading="CPU/request",
        bound="server_cpu_per_request",
    ),
    Metric("client_cpu_seconds", "CPU time of the clients", "s", side="client"),
    Metric("client_cpu_per_request", "client CPU per request", "s", side="client"),
    Metric("machine_cpu_seconds", "CPU time of everything on the machine", "s"),
    Metric(
        "machine_cpu_per_request", "CPU of everything on the machine per request", "s",
        heading="Machine CPU/request",
    ),
    Metric("server_cpu_per_byte", "server CPU per byte of payload", "s", heading="Server CPU/byte"),
    Metric(
        "client_cpu_per_byte", "client CPU per byte of payload", "s", side="client",
        heading="Client CPU/byte",
    ),
    Metric("cpu_per_byte", "CPU of server and clients per byte of payload", "s", heading="CPU/byte"),
    Metric("machine_cpu_per_byte", "CPU of everything on the machine per byte of payload", "s"),
    Metric("elapsed_seconds", "elapsed time", "s", side="client", paced=True, heading="Time"),
    Metric(
        "connections_per_second", "connections per second", "1/s", "more", side="client", paced=True,
        heading="Connections", bound="connection_rate",
    ),
    Metric(
        "requests_per_second", "requests per second", "1/s", "more", side="client",
        paced=True, heading="Throughput",
        bound="request_rate",
    ),
    Metric(
        PAYLOAD_RATE, "payload moved, in 10⁹ bits a second", "Gbit/s", "more", side="client", paced=True,
        heading="Gbit/s", bound="payload",
    ),
    Metric(
        "share_of_rate", "share of the link's rate", SHARE, better="more", side="client",
        paced=True, heading="Of rate",
        none_because="its lab has no rate, or its workload counts no payload",
    ),
    Metric(
        SHARE_OF_CEILING, "share of the ceiling in the same block", SHARE, better="more", side="client",
        paced=True,
        heading="Of ceiling",
        none_because="the contender that is the ceiling has no valid trial in the same block",
    ),
    Metric("sends_per_second", "send calls of the sending end", "1/s", "more", side="client", paced=True),
    Metric(
        "receives_per_second", "receive calls of the receiving end", "1/s", "more", side="client", paced=True,
    ),
    Metric("queueing_bound", "queueing bound of requests per second", "1/s", "more", side="client"),
    Metric(
        "share_of_queueing_bound", "share of the queueing bound", better="more", side="client", paced=True,
    ),
    *_times(LATENCY, "latency", bound="latency"),
    *_times(CONNECTING, "time to connect"),
    *_times("service_time", "service time", bound="latency"),
    *_times("send_lag", "delay between a request's due time and its sending"),
    *_times("connection_wait", "wait for a free connection"),
    Metric(OFFERED, "requests due per second", "1/s", "more", side="client", open_loop=True),
    Metric(
        "share_of_offered", "share of the offered rate that was answered in the window", SHARE, "more",
        side="client", open_loop=True,
    ),
    Metric(
        "waited_share", "share of requests that had no free connection", SHARE, side="client",
        open_loop=True,
    ),
    Metric(
        "never_sent", "requests never sent, for want of a free connection", "requests", whole=True,
        side="client", open_loop=True,
    ),
    Metric(
        "in_system", "mean number of requests in progress", "requests", side="client",
        none_because=NO_EVENT_LOOP,
    ),
    Metric(
        "generator_share", "CPU time of the load's busiest thread, as a share of the window", SHARE,
        side="client", none_because=NO_EVENT_LOOP,
    ),
    Metric(
        "duration_per_message", "duration by messages, of all clients together", "s", side="client",
        paced=True,
        bound="request_time",
    ),
    Metric(
        "sending_microseconds", "time until a request was sent", "µs", side="client", heading="Sending",
        figure="sending_ns",
    ),
    Metric(
        "round_trip_microseconds", "time until the server reported its reads", "µs", side="client",
        heading="Round trip", figure="round_trip_ns", bound="stream_round_trip",
    ),
    Metric(
        "server_reads", "reads of the server per request", "reads", side="client", heading="Reads",
        figure="server_reads",
    ),
    Metric(
        "voluntary_switches_per_connection", "voluntary context switches of the server per connection",
        heading="Switches/connection",
    ),
    Metric("empty_wakeups_per_connection", "wake-ups that found nothing to do, per connection"),
    Metric("listener_holders", "processes of the server that hold the listener", whole=True),
    Metric("clients_per_worker_sd", "standard deviation of connections per worker", "connections"),
    Metric("clients_per_worker_min", "fewest connections of a worker", "connections", "more", whole=True),
    Metric("clients_per_worker_max", "most connections of a worker", "connections", whole=True),
    Metric(
        "listen_drops", "connections dropped because the listen queue was full", "connections", whole=True,
    ),
)  # fmt: skip
"""The metrics with a fixed name, in the order of tables."""

SIDES: dict[Side, str] = {"server": "of the server", "client": "of the clients"}
"""Both sides, with the words that follow a metric."""

SIDE_NAMES: dict[Side, str] = {"server": "Server", "client": "Clients"}
"""Both sides as headings."""

BOTH = "both"
"""The prefix, instead of a side, of sums over server and clients, per request or per byte.

There is no sum of whole amounts: the server's cover the window, the clients' their whole load.
"""

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
"""The endings of divided figures, in words; no ending ends with one before it in this table."""

OF_BOTH = (PER_REQUEST, PER_BYTE)
"""The endings of sums over both sides. Each side divides by the requests and bytes that it saw itself.

Their times differ, so rates have no sum.
"""

RATES = (PER_SECOND, PER_CPU_SECOND)
"""The endings of counters only: per second counted, and per second of the side's CPU time (`task_clock`).

These are the rates of perf-stat(1).
"""

TASK_CLOCK = "task_clock"
"""The counter of CPU time, of whose seconds `_per_cpu_second` is."""

HELD = ("memory", "memory.kernel", "memory.sockets")
"""The states that grow with each connection a server holds.

`server.memory_per_connection` is the memory near the end of a timed window minus that before the load,
divided by the connections open then.
"""

ELAPSED = "elapsed_seconds"
"""The length of the window; of a side, the time in which it was counted (of the clients: their whole load).
"""

OF_A_LIFE = {
    ELAPSED: "elapsed time",
    "user_seconds": "user CPU time",
    "system_seconds": "system CPU time",
    "voluntary_switches": "voluntary context switches",
    "involuntary_switches": "involuntary context switches",
    "minor_faults": "minor page faults",
    "major_faults": "major page faults",
}
"""The figures that the system reports of an ended process; of the server only in whole-life trials."""

ABBREVIATIONS = {"cpu": "CPU", "llc": "LLC", "l1": "L1"}
"""Abbreviations in the names of counters, as words."""

OF_A_TALLY = {
    "send_calls": "send calls",
    "receive_calls": "receive calls",
    "bytes_sent": "bytes sent",
    "bytes_received": "bytes received",
    "bytes_not_copied": "bytes received without being copied",
    "completions": "sends without copying that were completed",
    "completions_copied": "sends without copying that were copied after all",
}
"""The figures that each side counts itself in every trial.

The server's counts are of the window, if there is one; the clients' are of their whole load.
"""

COPIED_SHARE = "copied_share"
"""The share of zero-copy sends that were copied after all: 1 over loopback and between namespaces."""

NOT_COPIED_SHARE = "not_copied_share"
"""The share of the received bytes that were mapped, or discarded by the kernel."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """One figure of a side divided by another, times a factor."""

    above: str
    below: str
    words: str
    unit: str = ""
    factor: float = 1.0
    better: Better = "less"

    @property
    def parts(self) -> tuple[str, str]:
        """Its numerator and its denominator."""
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
"""The ratios; a side has one if it has both of its figures."""

NO_CONNECTION_HELD = (
    "memory per connection needs connections that are open near the end of a window: a load that ends by "
    "time (load.settings.duration), and no whole-life trial"
)

NONE_BECAUSE = {
    **{f"{name}{PER_CONNECTION}": NO_CONNECTION_HELD for name in HELD},
    COPIED_SHARE: "nothing was sent without copying",
    **{each.name: each.none_because for each in METRICS.values() if each.none_because},
}
"""The reasons why a trial lacks one although everything that it is computed from was counted."""

NANOSECONDS = "nanoseconds"
"""The engine's unit of counters of time; as metrics they are in seconds."""

UNITS_OF_TIME = {"s": 1.0, "ms": 1e3, "msec": 1e3, "us": 1e6, "usec": 1e6, "µs": 1e6, "ns": 1e9}
"""One second in each unit of time that sources use."""


def _known(name: str) -> str:
    try:
        metric(name)
    except KeyError:
        raise ValueError(f"there is no metric {name!r}") from None
    return name


MetricName = Annotated[str, AfterValidator(_known)]
"""The name of a metric that a study can have."""


def metric(name: str, counters: Mapping[str, str] = {}) -> Metric:
    """Return the metric of that name; `counters` are the units of the requested counters.

    Raises KeyError for a name that no study can have.
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
    found = Metric(
        name,
        words,
        "s" if is_time else "",
        whole=not is_time,
        side=side or "server",
        bound="task_clock" if name == f"server.{TASK_CLOCK}" else None,
    )
    if not per:
        return found
    unit = {PER_CONNECTION: "bytes"}.get(per, found.unit)
    if per in RATES:
        unit = "" if is_time else "1/s"
    return replace(found, words=f"{words} {PER[per]}", unit=unit, whole=False)


def known_metric(name: str, counters: Mapping[str, str] = {}) -> Metric | None:
    """Return the metric of that name; None for a name that no study can have."""
    try:
        return metric(name, counters)
    except KeyError:
        return None


def _spelled(name: str) -> str:
    if ":" in name or "/" in name:
        return name  # an event is called as the machine calls it
    return " ".join(ABBREVIATIONS.get(part, part) for part in name.split("_"))


def parted(what: str) -> tuple[str, str]:
    """Split a side's metric into figure and ending: `("cpu_cycles", "_per_byte")`; empty: not divided."""
    for per in PER:
        if what.endswith(per):
            return what.removesuffix(per), per
    return what, ""


def is_of_clients(name: str) -> bool:
    """True if a timed load reports the metric itself, without reading its server."""
    found = known_metric(name)
    return found is not None and found.side == "client"


@dataclass(frozen=True, slots=True)
class AskedCounters:
    """The figures of the counters that a study requests of both sides; `states` are those that are states."""

    figures: tuple[str, ...] = ()
    states: frozenset[str] = frozenset()

    @property
    def of_sides(self) -> list[str]:
        """Return the figures that each side has."""
        return list(dict.fromkeys([*OF_A_LIFE, *OF_A_TALLY, *self.figures]))

    def divided(self) -> Iterator[tuple[str, str]]:
        """Yield each figure with each ending that divides it."""
        for figure in self.of_sides:
            if figure not in self.states:
                yield from ((figure, per) for per in OF_BOTH)
            if figure in self.figures and figure not in self.states:
                yield from ((figure, per) for per in rates_of(figure, self.figures))


def asked_counters(names: Iterable[str], catalogue: Catalogue) -> AskedCounters:
    """Return the figures of counters, given by their names in the engine."""
    listed = [*names]
    states = states_of_counters(listed, catalogue)
    return AskedCounters(tuple(figures_of_counters(listed, catalogue)), frozenset(states))


def rates_of(figure: str, counters: Collection[str]) -> list[str]:
    """Return the endings of a counter's rates; CPU time per second of CPU time is left out."""
    return [per for per in RATES if per == PER_SECOND or (TASK_CLOCK in counters and figure != TASK_CLOCK)]


def metric_names(asked: AskedCounters = AskedCounters()) -> list[str]:
    """Return every metric that a study may name if it requests these counters."""
    figures = asked.of_sides
    divided = list(asked.divided())
    ratios = [name for name, ratio in RATIOS.items() if set(ratio.parts) <= set(figures)]
    of_each = [*figures, *(f"{figure}{per}" for figure, per in divided), *ratios]
    held = [f"server.{name}{PER_CONNECTION}" for name in HELD if name in asked.figures]
    of_both = [f"{BOTH}.{figure}{per}" for figure, per in divided if per in OF_BOTH]
    return [*METRICS, *(f"{side}.{name}" for side in SIDES for name in of_each), *held, *of_both]


def counters_of(name: str) -> tuple[str, ...]:
    """Return the figures of its side that a metric is computed from; none for a fixed name."""
    _, _, what = name.partition(".")
    if ratio := RATIOS.get(what):
        return ratio.parts
    whole, per = parted(what)
    return (whole, TASK_CLOCK) if per == PER_CPU_SECOND else (whole,) if what else ()


def made_of(side: str, counter: str, names: Iterable[str]) -> list[str]:
    """Return those of these metrics that are computed from a side's counter or its further figures."""
    return [
        name
        for name in names
        if name.partition(".")[0] in (side, BOTH)
        and any(part == counter or part.startswith(f"{counter}.") for part in counters_of(name))
    ]


def in_order(names: Iterable[str]) -> list[str]:
    """Return names of metrics, each once: those of the table in its order, then the others as given."""
    found = dict.fromkeys(names)
    return [*(name for name in METRICS if name in found), *(name for name in found if name not in METRICS)]


def better_of(name: str) -> Better:
    """Return the better direction of a metric; "less" if there is no such metric (reported elsewhere)."""
    found = known_metric(name)
    return found.better if found else "less"


NO_SCHEDULE = 'only an open loop has it (load.kind = "open"), whose requests are due at set times'


def is_of_open_loop(name: str) -> bool:
    """True if only a load with a schedule reports the metric."""
    return name in METRICS and METRICS[name].open_loop


def is_paced(name: str) -> bool:
    """True if the metric depends on how fast the clients of a closed loop can go."""
    return name in METRICS and METRICS[name].paced


def is_latency(name: str) -> bool:
    """True if the metric is a latency, whose beginning depends on the kind of load."""
    return name.startswith(f"{LATENCY}_")
