"""The one table of metrics: what a trial gives one number for, in words, with its unit and its better
direction.

Most have a fixed name (`METRICS`). Those of one side, `server.NAME` and `client.NAME`, are open-ended: NAME
is a counter that the study asks both sides for, what the system says of a process that has ended
(`OF_A_LIFE`), or what a side counts as it goes (`OF_A_TALLY`); each is also there `_per_request` and
`_per_byte` of payload, and so is what both sides have together, `both.NAME_per_request` and
`both.NAME_per_byte`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

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
    Metric("latency_mean_seconds", "mean latency", "s", side="client"),
    Metric("latency_p50_seconds", "median latency", "s", side="client", heading="p50", fewest_requests=20),
    Metric("latency_p90_seconds", "90th percentile of latency", "s", side="client", fewest_requests=100),
    Metric(
        "latency_p99_seconds",
        "99th percentile of latency",
        "s",
        side="client",
        heading="p99",
        fewest_requests=1_000,
    ),
    Metric(
        "latency_p999_seconds", "99.9th percentile of latency", "s", side="client", fewest_requests=10_000
    ),
    Metric("latency_maximum_seconds", "longest latency", "s", side="client"),
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
BOTH = "both"
"""In the place of a side: what server and clients have together, of a request or a byte. There is no sum of
whole amounts: the server's are of the window, the clients' of all of their load."""

PER_REQUEST, PER_BYTE = "_per_request", "_per_byte"
PER = {PER_REQUEST: "per request", PER_BYTE: "per byte of payload"}
"""What an amount of a side may be divided by, as the metric's name ends, and in words."""

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

ABBREVIATIONS = {"cpu": "CPU", "llc": "LLC", "l1": "L1", "dtlb": "dTLB", "itlb": "iTLB"}
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

RATIOS = {
    "cpus_utilized": ("task_clock", "elapsed_seconds"),
    "instructions_per_cycle": ("instructions", "cpu_cycles"),
    "branch_miss_share": ("branch_misses", "branch_instructions"),
    "cache_misses_per_instruction": ("cache_misses", "instructions"),
    COPIED_SHARE: ("completions_copied", "completions"),
    NOT_COPIED_SHARE: ("bytes_not_copied", "bytes_received"),
}
"""What is known of each side where both the counter above and the one below the line are."""

NONE_BECAUSE = {
    COPIED_SHARE: "nothing was sent without copying",
    "share_of_rate": "its lab has no rate, or it moved no payload that is counted",
    "share_of_ceiling": "the contender that shows the ceiling has no trial beside it",
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
    before, dot, what = name.partition(".")
    side: Side | None = next((side for side in SIDES if side == before), None)
    whole, per = parted(what)
    if not dot or not whole or (side is None and (before != BOTH or not per)):
        raise KeyError(name)
    whose = SIDES[side] if side else "of server and clients"
    if what in RATIOS and side:
        better: Better = "more" if what == "instructions_per_cycle" else "less"
        return Metric(name, f"{_spelled(what)} {whose}", better=better, side=side)
    words = f"{(OF_A_LIFE | OF_A_TALLY).get(whole) or _spelled(whole)} {whose}"
    is_time = counters.get(whole) == NANOSECONDS or whole.endswith("_seconds")
    found = Metric(name, words, "s" if is_time else "", whole=not is_time, side=side or "server")
    return replace(found, words=f"{words} {PER[per]}", whole=False) if per else found


def _spelled(name: str) -> str:
    return " ".join(ABBREVIATIONS.get(part, part) for part in name.split("_"))


def parted(what: str) -> tuple[str, str]:
    """An amount of a side, and what it is divided by: `("cpu_cycles", "_per_byte")`; empty: by nothing."""
    for per in PER:
        if what.endswith(per):
            return what.removesuffix(per), per
    return what, ""


def is_of_clients(name: str) -> bool:
    """Whether a timed load tells it by itself, without a look at its server."""
    try:
        return metric(name).side == "client"
    except KeyError:
        return False


def metric_names(counters: Iterable[str] = ()) -> list[str]:
    """Every metric that a study which asks for these counters may name."""
    figures = figures_of_sides(counters)
    divided = [f"{figure}{per}" for figure in figures for per in PER]
    ratios = [name for name, parts in RATIOS.items() if set(parts) <= set(figures)]
    of_each = [f"{side}.{name}" for side in SIDES for name in [*figures, *divided, *ratios]]
    return [*METRICS, *of_each, *(f"{BOTH}.{name}" for name in divided)]


def figures_of_sides(counters: Iterable[str] = ()) -> list[str]:
    """What there is of each side, given the counters that are asked for."""
    return list(dict.fromkeys([*OF_A_LIFE, *OF_A_TALLY, *counters]))


def counters_of(name: str) -> tuple[str, ...]:
    """The figures of its side that a metric is made of; none of one with a fixed name."""
    _, _, what = name.partition(".")
    return RATIOS.get(what) or ((parted(what)[0],) if what else ())


def in_order(names: Iterable[str]) -> list[str]:
    """Names of metrics, each once: those of the table in its order, then the others as they come."""
    found = dict.fromkeys(names)
    return [*(name for name in METRICS if name in found), *(name for name in found if name not in METRICS)]


def better_of(name: str) -> Better:
    """The better direction of a metric; of one that does not exist, which was complained about, less."""
    try:
        return metric(name).better
    except KeyError:
        return "less"
