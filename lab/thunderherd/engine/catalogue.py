"""What an engine offers, as it says itself: the pydantic form of `thunderherd-engine list --json`.

A study is checked against this before its first trial, so that a name or a value that the engine would refuse
is refused here, with the file and the line. Keys that a newer engine adds are ignored; the schema number is
not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.engine.line_base import MeasuredBy, SchemaNumber
from thunderherd.engine.setting_rules import Agreement, Product, SettingValue


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class _Setting(_Part):
    name: str
    help: str
    unit: str | None = None


class IntegerSetting(_Setting):
    """A whole number from `minimum` to `maximum`, both allowed."""

    kind: Literal["integer"]
    minimum: int
    maximum: int
    default: int

    def allowed(self) -> str:
        """What may be given, in words."""
        unit = f" {self.unit}" if self.unit else ""
        return f"a whole number from {self.minimum} to {self.maximum}{unit}"

    def accepts(self, value: object) -> bool:
        """True for a whole number in range; true and false are not numbers."""
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return self.minimum <= value <= self.maximum


class BooleanSetting(_Setting):
    """A switch."""

    kind: Literal["boolean"]
    default: bool

    def allowed(self) -> str:
        """What may be given, in words."""
        return "true or false"

    def accepts(self, value: object) -> bool:
        """True for true and false, not for 0, 1 or texts."""
        return isinstance(value, bool)


class ChoiceSetting(_Setting):
    """One of a few words."""

    kind: Literal["choice"]
    choices: tuple[str, ...]
    default: str

    def allowed(self) -> str:
        """What may be given, in words."""
        return ", ".join(f'"{choice}"' for choice in self.choices)

    def accepts(self, value: object) -> bool:
        """True for one of `choices`."""
        return value in self.choices


class TextSetting(_Setting):
    """1 to `longest` visible ASCII characters, without spaces."""

    kind: Literal["text"]
    longest: int
    default: str
    form: Literal["plain", "file", "sizes", "mix"] = "plain"
    """What it says: a path or "none"; a distribution of sizes, which may be in a file; kinds of requests."""

    def allowed(self) -> str:
        """What may be given, in words."""
        return f"1 to {self.longest} visible ASCII characters, no spaces"

    def accepts(self, value: object) -> bool:
        """True for a text of that length; what it says, the engine judges."""
        return (
            isinstance(value, str)
            and 1 <= len(value) <= self.longest
            and all("!" <= character <= "~" for character in value)
        )

    def path_in(self, value: object, prefix: str) -> str | None:
        """The path that a value names, which follows `prefix` among sizes; None where it names none."""
        if self.form == "file":
            return None if value == self.default else str(value)
        is_path = self.form == "sizes" and str(value).startswith(prefix)
        return str(value).removeprefix(prefix) if is_path else None


Setting = Annotated[
    IntegerSetting | BooleanSetting | ChoiceSetting | TextSetting, Field(discriminator="kind")
]


class Entry(_Part):
    """One line of a registry."""

    name: str
    summary: str
    source: str | None = None
    settings: tuple[Setting, ...] = ()


class Runnable(Entry):
    """One that not every machine can run; `reason` says why this one cannot, `tcp_only` why only over TCP."""

    rests_on: tuple[Feature, ...] = ()
    available: bool = True
    reason: str | None = None
    tcp_only: str | None = None


Waits = Literal["in_the_call", "for_readiness", "for_completion"]
"""How sockets are waited for."""

Makes = Literal["process", "thread"]
"""What a design may make anew for every connection."""


class Design(Runnable):
    """A server design and how it waits for its sockets. One that `spins` never sleeps."""

    waits: Waits
    spins: bool = False
    makes: Makes | None = None
    """What it makes anew for every connection; None: nothing."""
    most_workers: str | None = None
    """The setting that says how many workers it has at the most; None: it has one."""

    @property
    def serves_one_by_one(self) -> bool:
        """Whether each of its workers has one connection at a time, and no worker is made for the next."""
        return self.waits == "in_the_call" and self.makes is None

    def starved(self, connections: int, settings: Mapping[str, SettingValue]) -> str | None:
        """Why so many connections that are kept have nobody who serves them all; None: they have."""
        name = self.most_workers
        workers = int(settings[name]) if name else 1
        if not self.serves_one_by_one or workers >= connections:
            return None
        can_have_more = any(each.name == name and each.accepts(connections) for each in self.settings)
        more = f"{name} = {connections}, or " if can_have_more else ""
        return (
            f"{connections} connections are kept, and {self.name} serves {workers} at a time: nobody would "
            f"answer the others; give {more}fewer clients, or connections = per_request"
        )


class Primitive(Runnable):
    """A way of moving bytes: `out` sends, `in` receives.

    `waits` are the ways of waiting that it works with. One that does not `store` what comes leaves it to the
    kernel, as far as that can avoid to copy it. One that `completes` its sends asks the kernel not to copy,
    one that `lends` lets the peer read from where the bytes lie. One that `spins` never sleeps.
    """

    moves: Literal["out", "in"]
    waits: tuple[Waits, ...] = ()
    stores: bool = True
    completes: bool = False
    lends: bool = False
    spins: bool = False

    @property
    def copies(self) -> bool:
        """Whether it copies every byte that it moves, between the program's memory and the kernel's."""
        return self.stores and not self.completes and not self.lends


class Way(NamedTuple):
    """How one side moves its bytes: the primitive that sends, and the one that receives."""

    primitive: str
    receive: str


class Usual(_Part):
    """What the engine takes where nothing is said of it, and the design for comparing primitives."""

    workload: str
    load: str
    design: str
    primitive: str
    receive: str

    @property
    def way(self) -> Way:
        """How bytes are moved."""
        return Way(self.primitive, self.receive)


class Load(Entry):
    """Who asks, and how often.

    `requests` names the whole-number settings whose product is the number of requests of one load process;
    where it names none, that number is not known beforehand. Where the setting named by `duration` is not 0,
    the load ends by time instead, after the warm-up of the setting `warm_up`. `clients` names the setting for
    the number of clients. What waits in the call has a process or a thread for each client.
    """

    waits: Waits = "in_the_call"
    requests: tuple[str, ...] = ()
    duration: str | None = None
    warm_up: str | None = None
    clients: str | None = None

    @property
    def goes_by_a_schedule(self) -> bool:
        """Its requests are due whether or not others were answered."""
        return self.duration is not None and not self.requests

    def overruled(self, given: Mapping[str, SettingValue]) -> str | None:
        """The setting that has no effect where these make the load end by time: how many requests each client
        makes. None where it ends by that number."""
        if self.duration is None or not self.requests:
            return None
        settings = defaults(by_name(self.settings)) | dict(given)
        return self.requests[-1] if settings.get(self.duration) else None

    def by_count(self) -> dict[str, SettingValue]:
        """The settings that make a load end by the number of its requests that could end by time."""
        return {name: 0 for name in (self.duration, self.warm_up) if name}


class Direction(_Part):
    """The setting of a stream's clients for the direction of its bytes, and its two values.

    Both sides have the same settings of a stream, and only one side uses each: the sender or the receiver.
    """

    setting: str
    to_server: str
    to_client: str
    of_sender: tuple[str, ...]
    of_receiver: tuple[str, ...]

    def sender(self, value: object) -> str:
        """The side that sends, with this value of the setting."""
        return "server" if value == self.to_client else "client"


class Workload(_Part):
    """One protocol; its two ends have settings of their own, some of which must agree."""

    name: str
    summary: str
    source: str | None = None
    service_settings: tuple[Setting, ...] = ()
    client_settings: tuple[Setting, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    products: tuple[Product, ...] = ()
    direction: Direction | None = None
    sender: Literal["service", "client"] = "service"
    """The end that sends what is measured, where no setting says otherwise."""
    measured_by: MeasuredBy = "requests"
    """What of a load is counted in its window, where no setting says otherwise."""
    pipelines: bool = False
    """Whether a connection may have several requests under way."""
    counts_requests: bool = True
    """Whether its server can tell requests apart; one that cannot counts receives."""


class CounterPart(_Part):
    """A further figure of a counter, `COUNTER.NAME`."""

    name: str
    unit: str


class Counter(_Part):
    """Something that is read before and after; `reason` says why it is not available here.

    One that is `countable` may be asked for (`--count`); the others are told in other ways.
    """

    name: str
    summary: str
    unit: str | None = None
    countable: bool = False
    kind: Literal["count", "state"] = "count"
    """Whether a window's figure is the difference of two readings, or how it was at its end."""
    parts: tuple[CounterPart, ...] = ()
    names_of_perf: tuple[str, ...] = ()
    """What perf-list(1) calls it."""
    available: bool
    reason: str | None = None

    @property
    def units(self) -> dict[str, str]:
        """Of each of its figures, by name."""
        return {self.name: self.unit or "", **{f"{self.name}.{part.name}": part.unit for part in self.parts}}


class Limit(_Part):
    """One of the machine's limits: what one thing costs when nothing else is done.

    It is measured at each of its places, in each of its sizes (bytes; none: it has none).
    """

    name: str
    summary: str
    source: str | None = None
    figure: Literal["nanoseconds", "bytes_per_second"]
    sizes: tuple[int, ...] = ()
    places: tuple[str, ...] = ()


class Namespace(_Part):
    """The pair of interfaces between two network namespaces: its settings, the ports that connections have
    there, and what this machine does not have of it.

    `least` are the smallest values above 0 of settings of which 0 means no limit.
    """

    settings: tuple[Setting, ...] = ()
    least: dict[str, int] = {}
    local_ports: tuple[int, int]
    available: bool
    reason: str | None = None
    unavailable_settings: dict[str, str] = {}


class CongestionControls(_Part):
    """Those of the kernel: the default, all, and those that this user may have outside of namespaces of its
    own; `remarks` say of some what belongs beside figures."""

    default: str | None = None
    available: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    remarks: dict[str, str] = {}


class Build(_Part):
    """How the engine was built."""

    rustc: str
    profile: str
    target: str
    flags: str


class Catalogue(_Part):
    """Everything `thunderherd-engine list --json` says."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)

    # The key is `schema`, which pydantic's BaseModel already uses for a method.
    schema_version: SchemaNumber = Field(alias="schema")
    version: str
    build: Build | None = None
    engine: Path | None = Field(default=None, exclude=True)
    """The engine that says so, which also judges servers and loads; None: it was read from a file."""
    usual: Usual
    file_prefix: str
    """What precedes the path of a file among sizes."""
    designs: tuple[Design, ...]
    primitives: tuple[Primitive, ...]
    workloads: tuple[Workload, ...]
    loads: tuple[Load, ...]
    never_sleeps: Mapping[str, str]
    """Settings of designs and loads by which an end never sleeps, and their words."""
    counters: tuple[Counter, ...] = ()
    events_of_perf: tuple[str, ...] = ()
    """Names that perf-list(1) has for further events: any of them may be asked for, as a counter may."""
    limits: tuple[Limit, ...] = ()
    limit_settings: tuple[Setting, ...] = ()
    server_settings: tuple[Setting, ...] = ()
    load_settings: tuple[Setting, ...] = ()
    tcp_settings: tuple[str, ...] = ()
    congestion_controls: CongestionControls | None = None
    namespace: Namespace | None = None

    def design(self, name: str) -> Design | None:
        """The design of that name, or None."""
        return next((design for design in self.designs if design.name == name), None)

    def workload(self, name: str) -> Workload | None:
        """The workload of that name, or None."""
        return next((workload for workload in self.workloads if workload.name == name), None)

    def load(self, name: str) -> Load | None:
        """The load of that name, or None."""
        return next((load for load in self.loads if load.name == name), None)

    def primitive(self, name: str) -> Primitive | None:
        """The primitive of that name, or None."""
        return next((primitive for primitive in self.primitives if primitive.name == name), None)

    def facts_of(self, design: str, *ways: Way, told: Iterable[Mapping[str, object]] = ()) -> dict[str, Any]:
        """What is known of a server of this design and clients, who move their bytes in these ways and have
        these settings.

        `makes` is what the design makes for every connection, `calls` whether its server makes a system call
        for whatever it does, `spins` whether an end never sleeps, `copies` how often a byte on its way is
        copied at least: where it is sent and where it is received. Unknown names have no say.
        """
        own = self.design(design)
        movers = [mover for way in ways for name in way if (mover := self.primitive(name))]
        return {
            "makes": own.makes if own else None,
            "spins": (own is not None and own.spins)
            or any(mover.spins for mover in movers)
            or any(
                settings.get(name) == word for settings in told for name, word in self.never_sleeps.items()
            ),
            "calls": own is None or own.waits != "for_completion",
            "copies": 2 - len({mover.moves for mover in movers if not mover.copies}),
        }

    def settings_of_server(self, design: str, way: Iterable[str], workload: str) -> dict[str, Setting]:
        """What `serve DESIGN --workload` takes that moves its bytes in this way, by name; unknown names add
        nothing."""
        own, protocol = self.design(design), self.workload(workload)
        return by_name(
            [
                *self.server_settings,
                *(protocol.service_settings if protocol else ()),
                *self._settings_of(way),
                *(own.settings if own else ()),
            ]
        )

    def settings_of_load(self, load: str, way: Iterable[str], workload: str) -> dict[str, Setting]:
        """What `load WORKLOAD --load LOAD` takes that moves its bytes in this way, by name; unknown names add
        nothing."""
        own, protocol = self.load(load), self.workload(workload)
        return by_name(
            [
                *self.load_settings,
                *(protocol.client_settings if protocol else ()),
                *self._settings_of(way),
                *(own.settings if own else ()),
            ]
        )

    def _settings_of(self, way: Iterable[str]) -> list[Setting]:
        movers = [self.primitive(name) for name in way]
        return [setting for mover in movers if mover for setting in mover.settings]


def by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    """The settings under their names, in the order given."""
    return {setting.name: setting for setting in settings}


def defaults(settings: Mapping[str, Setting]) -> dict[str, SettingValue]:
    """The value of every setting when nobody says otherwise."""
    return {name: setting.default for name, setting in settings.items()}


class Feature(BaseModel):
    """A feature of the kernel: the first Linux that has it (None: every one), and why it is not here."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    name: str
    since: str | None = None
    available: bool = True
    reason: str | None = None
