"""The engine's lines as Python sees them: one frozen model for each JSON object that the engine prints.

The engine may say more than this (unknown keys are ignored), never less. `schema` must be `SCHEMA`. Times are
integers in nanoseconds, sizes in bytes, everything else a plain count. All tallies and CPU times are
cumulative since the server started: a window is the difference of two snapshots. A percentile or a
maximum that too few requests give is null, and so is a counter that was asked for and could not be read.
(`catalogue` has what the engine says of itself.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, computed_field

SchemaNumber = Literal[4]
SCHEMA: SchemaNumber = 4
"""The version of the engine's lines that this laboratory understands."""

Counters = dict[str, int | None]
"""Counters by name, those with several figures `COUNTER.PART` besides; null: it could not be read."""

CpuSource = Literal["cgroup", "process_clocks", "perf_event", "whole_life"]


class EngineLine(BaseModel):
    """What all lines have in common: frozen, and tolerant of keys that a newer engine adds."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Tally(EngineLine):
    """What a server or a load counted, over all its processes and threads, lost workers included."""

    connections: int = Field(description="connections accepted; of a load, made")
    closed: int = Field(description="connections closed again")
    requests: int = Field(
        description="requests answered in full; of a load, replies that came in full and were right"
    )
    bytes_received: int
    bytes_sent: int
    bytes_not_copied: int = Field(
        description="of those received, mapped or thrown away by the kernel instead of copied"
    )
    receive_calls: int
    send_calls: int
    completions: int = Field(description="sends without copying that the kernel is done with")
    completions_copied: int = Field(description="those of them that were copied after all")
    empty_wakeups: int = Field(description="returns from a wait that found nothing to do")
    workers_lost: int = Field(description="workers, or client processes, that died and were not asked to")
    workers_replaced: int
    errors: dict[str, int] = Field(default_factory=dict, description="by kind; kinds never seen are absent")

    def total_errors(self) -> int:
        """All errors of all kinds."""
        return sum(self.errors.values())


class Connection(EngineLine):
    """What the kernel made of the options of the first connection of a side."""

    congestion_control: str = Field(description="in force, whether it was chosen or not")
    remark: str | None = Field(default=None, description="what is known of it that belongs beside figures")
    nodelay: bool
    segment_bytes: int = Field(description="the largest segment that is sent: the MTU without headers")


class Closings(EngineLine):
    """How connections ended, of those that a load looked at before it ended them: of each of its workers the
    first 16, and every 64th."""

    closed_by_load: int = Field(description="the load said first that no more comes (FIN)")
    closed_by_server: int = Field(description="the server did")
    reset_by_load: int = Field(description="by RST, with something unread or as it was told")
    reset_by_server: int = Field(description="by RST")

    @computed_field(  # type: ignore[prop-decorator]
        description="who keeps ended connections in TIME_WAIT; nobody, where all were reset"
    )
    @property
    def time_wait(self) -> list[Literal["load", "server"]]:
        """Which ends keep some of them; the engine's line has it, too."""
        ends: dict[Literal["load", "server"], int] = {
            "load": self.closed_by_load,
            "server": self.closed_by_server,
        }
        return [end for end, count in ends.items() if count]

    @classmethod
    def together(cls, parts: Sequence[Closings]) -> Closings:
        """Those of several loads."""
        return cls(**{name: sum(getattr(each, name) for each in parts) for name in cls.model_fields})


class Multiplexing(EngineLine):
    """For how long an event was counted that shares the CPU's few counters with others by turns."""

    counted: int = Field(description="while it had a counter")
    enabled_ns: int = Field(description="for how long the tree ran, over all its threads")
    running_ns: int = Field(description="for how long of that it had a counter")

    @property
    def share(self) -> float:
        """Of the time, that in which it was counted; 1 where nothing has run."""
        return self.running_ns / self.enabled_ns if self.enabled_ns else 1.0

    @property
    def scaled(self) -> bool:
        """Whether its figure is extrapolated."""
        return self.running_ns < self.enabled_ns

    @property
    def value(self) -> int | None:
        """What all of the time would have come to; None where it was never counted."""
        if not self.scaled:
            return self.counted
        return self.counted * self.enabled_ns // self.running_ns if self.running_ns else None

    def since(self, earlier: Multiplexing) -> Multiplexing:
        """What came after an earlier reading: it has a share of its own."""
        return Multiplexing(
            counted=self.counted - earlier.counted,
            enabled_ns=self.enabled_ns - earlier.enabled_ns,
            running_ns=self.running_ns - earlier.running_ns,
        )


class Readout(EngineLine):
    """What counters said, whose keys stand among those of a line."""

    counters: Counters = Field(default_factory=dict)
    multiplexing: dict[str, Multiplexing] = Field(
        default_factory=dict, description="of those that share the CPU's counters; some may be extrapolated"
    )
    unavailable: dict[str, str] = Field(default_factory=dict, description="counters, and why not")


class Ready(EngineLine):
    """The server listens and waits. `settings` holds every effective setting by name."""

    line: Literal["ready"] = "ready"
    schema_version: SchemaNumber = Field(alias="schema")
    address: str
    port: int | None = Field(default=None, description="null: of a Unix socket")
    supervisor_pid: int
    server_pid: int
    design: str
    primitive: str = Field(description="the one that sends")
    receive: str = Field(description="the one that receives")
    workload: str
    settings: dict[str, Any]
    spins: bool = Field(default=False, description="it never sleeps, asked or not")
    cpu_source: CpuSource
    cpu_source_reason: str | None = Field(default=None, description="why it is no better source than this")
    socket: dict[str, Any] = Field(default_factory=dict)
    cpus: list[int] | None = None
    counters: dict[str, str | None] = Field(
        default_factory=dict, description="counters asked for, and why one of them is not available"
    )

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)


class Snapshot(Readout):
    """Where the server stands now; its counters are of the whole tree since its start."""

    line: Literal["snapshot"] = "snapshot"
    monotonic_ns: int = Field(description="CLOCK_MONOTONIC when it was taken")
    cpu_ns: int | None = Field(description="CPU of the server tree; null: only the whole life is known")
    tally: Tally
    workers: list[int] | None = Field(default=None, description="connections of each pool worker")
    listen_drops: int = Field(description="connections dropped: the listen queue was full")
    listen_queue: int | None = Field(
        default=None, description="connections waiting to be accepted; null: of a Unix socket"
    )
    read_ns: int | None = Field(
        default=None,
        description="CLOCK_MONOTONIC once all of it had been read; null: of an older engine",
    )


class Used(EngineLine):
    """What processes and their threads have used; lines that tell it have these keys among their own."""

    user_ns: int
    system_ns: int
    voluntary_switches: int
    involuntary_switches: int
    minor_faults: int
    major_faults: int


class UserSystem(EngineLine):
    """CPU time in user mode and in the kernel, nanoseconds."""

    user_ns: int
    system_ns: int


class ServerSummary(Used, Readout):
    """The account of the server's whole life, printed after the last of its processes was reaped."""

    line: Literal["summary"] = "summary"
    cpu_ns: int
    server_process: UserSystem | None = None
    dead_children: UserSystem | None = None
    max_resident_kib: int
    tally: Tally
    workers: list[int] | None = None
    listen_drops: int
    died: str | None = Field(default=None, description="how the server died, where it was not asked to stop")
    account: dict[str, int] = Field(default_factory=dict, description="what the service's own books say")
    account_fault: str | None = Field(default=None, description="why those books do not balance")
    connection: Connection | None = Field(default=None, description="null: none came, or none of TCP")


class Counted(EngineLine):
    """Bytes and calls of a load's own end between two readings at the edges of its window."""

    elapsed_ns: int = Field(description="time between the readings")
    bytes_sent: int
    bytes_received: int
    send_calls: int
    receive_calls: int


class Window(EngineLine):
    """The measured part of a load that ends by time: replies that came within it."""

    started_monotonic_ns: int
    ended_monotonic_ns: int
    requests: int
    connections: int = Field(description="connections opened in it; 0 where they are kept")
    counted: Counted | None = None

    @property
    def requests_per_second(self) -> float:
        """Replies a second of the whole window."""
        return 1e9 * self.requests / (self.ended_monotonic_ns - self.started_monotonic_ns)


class Times(EngineLine):
    """How long something took, of so many requests."""

    requests: int
    mean_ns: float | None = None
    p50_ns: int | None = None
    p90_ns: int | None = None
    p99_ns: int | None = None
    p999_ns: int | None = None
    maximum_ns: int | None = None
    histogram: str | None = Field(default=None, description="HdrHistogram V2, deflated, base64")


class Latency(Times):
    """How long replies took: in a closed loop from a request's first byte, in an open one from the moment at
    which the request was due, to the last byte of the reply."""

    starts: Literal["sent", "intended"] = Field(default="sent", alias="from")

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)


class Scheduled(EngineLine):
    """What became of the requests of an open loop that were due in the window."""

    due: int
    sent: int
    answered: int
    failed: int
    never_sent: int = Field(description="no connection was free for them until it was too late")
    waited: int = Field(description="of those that were sent, how many had to wait for a free connection")
    offered_per_second: float
    achieved_per_second: float
    service_time: Times | None = Field(default=None, description="from the sending to the reply")
    send_lag: Times | None = Field(default=None, description="the load's own lateness")
    connection_wait: Times | None = None
    gaps: Times | None = Field(default=None, description="between two sendings of the same thread")
    gap_variation: float | None = Field(default=None, description="their standard deviation over their mean")
    gap_due_mean_ns: float | None = Field(default=None, description="between the moments when they were due")
    gap_due_variation: float | None = None


class SizesSent(EngineLine):
    """The sizes of a load's requests."""

    distribution: str
    largest: int = Field(description="the most that a request may ask for")
    mean_bytes: float | None = Field(default=None, description="of all that were made; null: none was")


class KindOfRequest(EngineLine):
    """A kind of request in a mix."""

    request: str
    weight: int
    requests: int = Field(description="those that count")
    latency: Times | None = None


class Traffic(EngineLine):
    """What the requests of a load were that are not all alike."""

    seed: int
    requests: int | None = Field(default=None, description="that were made; null: sizes are all alike")
    sizes: SizesSent | None = None
    kinds: list[KindOfRequest] = Field(default_factory=list)


class Check(EngineLine):
    """One thing that a valid measurement needs."""

    name: str
    value: float | None = None
    limit: float
    holds: bool | None = Field(default=None, description="null: there was too little to judge by")
    words: str


class Generator(EngineLine):
    """What one thread that asks did in the window."""

    elapsed_ns: int
    cpu_ns: int
    waited_ns: int


class Validity(EngineLine):
    """Whether a load measured its server."""

    valid: bool | None = Field(
        default=None, description="null: a closed loop without errors, which has no schedule to keep"
    )
    checks: list[Check]
    generators: list[Generator]
    in_system: float | None = Field(
        default=None, description="mean number of requests that were due and not answered"
    )


class Connected(EngineLine):
    """What kept connections took of a load's own memory when all were made, and nobody had asked yet."""

    connections: int
    bytes: int = Field(description="growth of the process's private memory since before the first")


class Memory(EngineLine):
    """Memory of a load's process, without what the kernel keeps of its sockets."""

    connected: Connected | None = Field(
        default=None, description="null: connections are not kept, or made as their clients begin"
    )
    peak_resident_bytes: int


MeasuredBy = Literal["requests", "bytes_to_server", "bytes_to_clients"]


REQUESTS, LAST = "requests", "last_"
"""Among `LoadResult.figures`: how many requests count; what the name of a sum begins with, where it is of the
last of them alone."""

PAYLOAD_BYTES, PAYLOAD_NANOSECONDS = "payload_bytes", "payload_ns"
"""Among them: bytes of payload, by the workload's own definition; the time that they took, added up over the
requests, of which several may have been under way at a time."""

PAYLOAD_BEGAN, PAYLOAD_ENDED = "payload_began_ns", "payload_ended_ns"
"""Beside that time: when the payload of the first request began, and when that of the last ended, by
CLOCK_MONOTONIC."""


class LoadResult(Used, Readout):
    """What one load process (a client with its children) did, all children reaped."""

    line: Literal["load"] = "load"
    schema_version: SchemaNumber = Field(alias="schema")
    workload: str
    load: str
    primitive: str = Field(description="the one that sends")
    receive: str = Field(description="the one that receives")
    settings: dict[str, Any]
    measured_by: MeasuredBy = Field(
        default="requests", description="what is counted in the window of a load that ends by time"
    )
    expected_requests: int | None = Field(description="null: the load ended by time")
    tally: Tally
    elapsed_ns: int
    started_monotonic_ns: int
    ended_monotonic_ns: int
    boot_id: str | None = Field(
        default=None,
        description="which start of which machine these moments are of; null: not known",
    )
    counted_from_ns: int | None = Field(
        default=None,
        description="before the first reading of what it uses and counts; null: of an older engine",
    )
    counted_to_ns: int | None = Field(default=None, description="after the last such reading; null likewise")
    first_error: str | None = None
    interrupted: bool = False
    window: Window | None = Field(default=None, description="null: all of it is measured")
    latency: Latency | None = Field(default=None, description="of the window, where there is one")
    scheduled: Scheduled | None = Field(default=None, description="null: no open loop")
    traffic: Traffic | None = Field(default=None, description="null: all requests are alike")
    validity: Validity | None = Field(
        default=None, description="null: no event loop, or no window, and no errors"
    )
    memory: Memory | None = Field(
        default=None, description="null: the clients are processes of their own, or the kernel does not tell"
    )
    account: dict[str, int] = Field(default_factory=dict, description="what the clients' own books say")
    figures: dict[str, int] = Field(
        default_factory=dict,
        description="what the workload has measured itself, summed over the requests that count",
    )
    requests_by_client: list[int] | None = Field(
        default=None, description="the requests of each client that count; null: there are too many clients"
    )
    connection: Connection | None = Field(default=None, description="null: none was made, or none of TCP")
    closings: Closings | None = Field(
        default=None, description="null: no connection of TCP has ended, or of an older engine"
    )

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)


class Mark(EngineLine):
    """A load that ends by time says when its measured window begins, and when it ends."""

    line: Literal["mark"] = "mark"
    mark: Literal["window_started", "window_ended"]
    monotonic_ns: int


class Life(Used, Readout):
    """What a process of the engine used from exec to exit, with everything that it forked."""

    line: Literal["life"] = "life"
    elapsed_ns: int
    started_monotonic_ns: int | None = Field(
        default=None, description="right before exec; null: of an older engine"
    )
    status: int


class Profile(Used):
    """What was sampled of a process of the engine from exec to exit, with everything that it forked. The
    stacks are in a file, of which this is also the first line."""

    line: Literal["profile"] = "profile"
    event: str = Field(description="cycles, or cpu-clock")
    why_not_cycles: str | None
    frequency_hertz: int
    scope: Literal["cpus", "tree"] = Field(
        description="where samples were taken: on every CPU, or in each process and thread of the tree, of "
        "which those that live shorter than the time between two samples are missing"
    )
    why_not_cpus: str | None
    samples: int
    lost: int = Field(description="samples that the kernel could not hand over")
    throttled: int = Field(description="times that it took fewer than it was asked for")
    from_ns: int = Field(description="CLOCK_MONOTONIC")
    to_ns: int
    kernel_symbols: bool | str = Field(description="a text: why the kernel's functions have no names")


class ProfileCheck(EngineLine):
    """What a profile would be here, of which nothing was taken."""

    line: Literal["profile_check"] = "profile_check"
    reason: str | None = Field(description="why there can be none, and what helps; null: there can be one")
    event: str | None = Field(description="cycles, or cpu-clock; null: there can be none")
    why_not_cycles: str | None
    scope: Literal["cpus", "tree"] | None = Field(description="as a profile has it; null: there can be none")
    why_not_cpus: str | None
    frequency_hertz: int
    kernel_symbols: bool | str = Field(description="a text: why the kernel's functions would have no names")
    frame_pointers: bool | str = Field(description="a text: why stacks of the engine would have few frames")


class SampledStack(EngineLine):
    """A call stack, and when it was seen; a line of a profile's file."""

    line: Literal["stack"] = "stack"
    frames: list[tuple[str, Literal["user", "kernel"]]] = Field(description="functions, outermost first")
    command: str = Field(description="the name of the thread")
    at_ns: list[int] = Field(description="one for each sample; CLOCK_MONOTONIC")


Place = Literal["one_cpu", "two_cpus"]
"""Where a limit is measured: all of it on one CPU, or with an end on each of two."""


class Limits(EngineLine):
    """The machine's limits are being measured; the lines of the rounds follow."""

    line: Literal["limits"] = "limits"
    schema_version: SchemaNumber = Field(alias="schema")
    cpus: list[int] = Field(description="of the one that measures, and of other ends that have one of theirs")
    settings: dict[str, int]

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)


class LimitPoint(EngineLine):
    """A limit at a place and, where it has sizes, of a size."""

    limit: str
    place: Place
    bytes: int | None

    @property
    def point(self) -> tuple[str, Place, int | None]:
        """What tells it from others."""
        return self.limit, self.place, self.bytes


class LimitRound(LimitPoint):
    """So many times, one after another, in one round."""

    line: Literal["limit_round"] = "limit_round"
    round: int
    times: int = Field(ge=1)
    elapsed_ns: int
    page_faults: int = Field(description="meanwhile, of the one that measures and those that it waited for")


class LimitUnavailable(LimitPoint):
    """There is no round of it, or no further one."""

    line: Literal["limit_unavailable"] = "limit_unavailable"
    reason: str


class NamespaceEnd(EngineLine):
    """One of two network namespaces, with its end of the pair of interfaces between them."""

    path: str = Field(description="how a process enters it, for as long as it is held")
    interface: str
    mtu: int = Field(description="as the kernel has it")
    address: str
    address6: str | None = None
    sysctls: dict[str, str | None] = Field(
        default_factory=dict, description="kernel settings of its own; null: it has none of that name"
    )


class Namespaces(EngineLine):
    """Two network namespaces, which live as long as the process `pid`, which is in the clients'."""

    line: Literal["namespaces"] = "namespaces"
    schema_version: SchemaNumber = Field(alias="schema")
    pid: int
    user_namespace: bool = Field(description="whoever made them is not root, and is so in there alone")
    settings: dict[str, int]
    server: NamespaceEnd
    client: NamespaceEnd
    without_ipv6: str | None = Field(default=None, description="why the ends have no IPv6 addresses")

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)
