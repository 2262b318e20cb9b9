"""The catalogue of an engine: a model of `thunderherd-engine list --json`.

Names and settings of a study are checked against it before the first trial. So a mistake is reported with its
file and line. Keys of a newer engine are ignored, but its schema number must be known.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.engine.line_base import MeasuredBy, SchemaNumber
from thunderherd.engine.setting_rules import Agreement, Product, SettingValue
from thunderherd.toml.file import show
from thunderherd.toml.quantities import COUNT, NoQuantity, NotWhole, NoUnit, Quantity, quantity_of


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class NotAccepted(NamedTuple):
    """Why a setting does not accept a value: the end of a code, the problem, and a hint."""

    code: str
    message: str
    hint: str


class _Setting(_Part):
    name: str
    help: str
    unit: str | None = None
    resolution: int = 1
    """The smallest step of a quantity, in its smallest unit."""

    def read(self, value: Any) -> SettingValue:
        """Return a valid value of a study, a quantity as a number of its smallest unit."""
        found: SettingValue = value
        return found

    def write(self, value: SettingValue) -> SettingValue:
        """Return a value as a study has it: the inverse of `read`."""
        return value

    def refusal(self, value: object) -> NotAccepted | None:
        """Return why the setting does not accept a value; None if it does."""
        if self.accepts(value):
            return None
        return NotAccepted("invalid_setting", "is not allowed", f"allowed: {self.allowed()}")

    @abstractmethod
    def accepts(self, value: object) -> bool:
        """True if the setting allows a value."""

    @abstractmethod
    def allowed(self) -> str:
        """Return the allowed values in words."""


class IntegerSetting(_Setting):
    """A quantity from `minimum` to `maximum`, both allowed: a whole number of its smallest unit.

    A study has a whole number, or a text with a unit, such as "64KiB" or "500ms". Times need a unit.
    """

    kind: Literal["integer"]
    minimum: int
    maximum: int
    default: int

    @property
    def quantity(self) -> Quantity:
        """The kind of quantity."""
        return quantity_of(self.unit)

    @property
    def needs_unit(self) -> bool:
        return "" not in self.quantity.units

    def allowed(self) -> str:
        """Describe the allowed values."""
        unit = f" {self.unit}" if self.unit and self.quantity is COUNT else ""
        return f"{self.quantity.range(self.minimum, self.maximum)}{unit}"

    def has(self, number: int) -> bool:
        """True for a number of the smallest unit that is in range."""
        return self.minimum <= number <= self.maximum and number % self.resolution == 0

    def read(self, value: Any) -> int:
        """Return a valid value as a number of the smallest unit; raise `NoQuantity` for others."""
        if isinstance(value, str):
            number = self.quantity.read(value, self.resolution)
            if not self.needs_unit and _is_plain(value):
                raise NoQuantity(value)
            return number
        if isinstance(value, bool) or not isinstance(value, int):
            raise NoQuantity(show(value))
        if self.needs_unit and value != 0:
            raise NoUnit(str(value))
        return value

    def write(self, value: SettingValue) -> SettingValue:
        """Return a number as a study has it, a time with its unit."""
        return self.quantity.write(int(value)) if self.needs_unit and value else value

    def accepts(self, value: object) -> bool:
        """True for a quantity in range; true and false are not numbers."""
        return self.refusal(value) is None

    def refusal(self, value: object) -> NotAccepted | None:
        """Return why the setting does not accept a value; None if it does."""
        allowed = f"allowed: {self.allowed()}"
        try:
            if self.has(self.read(value)):
                return None
        except NoUnit as error:
            likely = self.quantity.likely(error.digits, self.resolution)
            guesses = [each for each in likely if self.accepts(each)]
            return NotAccepted("no_unit", "no unit", " or ".join(map(show, guesses)) or allowed)
        except NotWhole as error:
            return NotAccepted("not_whole", str(error), allowed)
        except NoQuantity as error:
            if error.digits:
                meant = [each for each in self.quantity.near(error) if self.accepts(each)]
                hint = "; ".join(filter(None, [" or ".join(map(show, meant)), allowed]))
                return NotAccepted("unknown_unit", f"unknown unit {show(error.text)}", hint)
        is_quoted = isinstance(value, str) and _is_plain(value)
        return NotAccepted("invalid_setting", "is a text" if is_quoted else "is not allowed", allowed)


def _is_plain(text: str) -> bool:
    """True for a number without a unit, which needs no quotes."""
    return text.strip().replace(".", "", 1).isdecimal()


class BooleanSetting(_Setting):
    """A setting that is true or false."""

    kind: Literal["boolean"]
    default: bool

    def allowed(self) -> str:
        """Describe the allowed values."""
        return "true or false"

    def accepts(self, value: object) -> bool:
        """True for a bool, not for 0, 1 or strings."""
        return isinstance(value, bool)


class ChoiceSetting(_Setting):
    """A setting with a few allowed words."""

    kind: Literal["choice"]
    choices: tuple[str, ...]
    default: str

    def allowed(self) -> str:
        """Describe the allowed values."""
        return ", ".join(f'"{choice}"' for choice in self.choices)

    def accepts(self, value: object) -> bool:
        """True for one of `choices`."""
        return value in self.choices


class TextSetting(_Setting):
    """`shortest` to `longest` visible ASCII characters, without spaces; some forms allow more."""

    kind: Literal["text"]
    longest: int
    default: str
    form: Literal["plain", "file", "sizes", "mix", "lines", "free"] = "plain"
    """Kind of content: any text, a path or "none", a distribution of sizes, a mix of requests, lines with
    spaces, or any characters."""

    @property
    def shortest(self) -> int:
        """The fewest characters."""
        return 0 if self.form == "free" else 1

    def allowed(self) -> str:
        """Describe the allowed values."""
        characters = {
            "lines": "visible ASCII characters and spaces, in lines",
            "free": "bytes of text",
        }.get(self.form, "visible ASCII characters, no spaces")
        return f"{self.shortest} to {self.longest} {characters}"

    def accepts(self, value: object) -> bool:
        """True for a text of an allowed length. Only the engine judges its content."""
        if not isinstance(value, str) or not self.shortest <= len(value.encode()) <= self.longest:
            return False
        others = {"lines": " \t\n"}.get(self.form, "")
        return self.form == "free" or all("!" <= each <= "~" or each in others for each in value)

    def path_in(self, value: object, prefix: str) -> str | None:
        """Return the path in a value, which follows `prefix` in a distribution of sizes, or None."""
        if self.form == "file":
            return None if value == self.default else str(value)
        is_path = self.form == "sizes" and str(value).startswith(prefix)
        return str(value).removeprefix(prefix) if is_path else None


Setting = Annotated[
    IntegerSetting | BooleanSetting | ChoiceSetting | TextSetting, Field(discriminator="kind")
]


class Entry(_Part):
    """An entry of a registry."""

    name: str
    summary: str
    source: str | None = None
    settings: tuple[Setting, ...] = ()


class Runnable(Entry):
    """An entry that some machines cannot run.

    `reason` says why this machine cannot, and `tcp_only` why it needs TCP.
    """

    rests_on: tuple[Feature, ...] = ()
    available: bool = True
    reason: str | None = None
    tcp_only: str | None = None


Waits = Literal["in_the_call", "for_readiness", "for_completion"]
"""The way to wait for a socket."""

Makes = Literal["process", "thread"]
"""The process or thread that a design may create for every connection."""


class Design(Runnable):
    """A server design. A design that `spins` always busy-polls."""

    waits: Waits
    spins: bool = False
    makes: Makes | None = None
    """Created for every connection; None: nothing."""
    most_workers: str | None = None
    """The setting for its maximum number of workers; None: it has one worker."""
    fairness: str | None = None
    """Sentences on how clients share it while their requests compute."""

    @property
    def serves_one_by_one(self) -> bool:
        """True if a worker serves one connection at a time, and no worker is created for the next."""
        return self.waits == "in_the_call" and self.makes is None

    def starved(self, connections: int, settings: Mapping[str, SettingValue]) -> tuple[str, str] | None:
        """Return why the server cannot serve so many persistent connections, and a hint; None if it can."""
        name = self.most_workers
        workers = int(settings[name]) if name else 1
        if not self.serves_one_by_one or workers >= connections:
            return None
        can_have_more = any(
            each.name == name and isinstance(each, IntegerSetting) and each.has(connections)
            for each in self.settings
        )
        more = f"{name} = {connections}, or " if can_have_more else ""
        return (
            f"{connections} persistent connections, but {self.name} serves {workers} at a time",
            f"give {more}fewer clients, or connections = per_request",
        )


class Primitive(Runnable):
    """A send primitive (`moves` is "out") or a receive primitive ("in").

    `waits` lists the ways of waiting that it works with. A primitive that does not `store` leaves received
    bytes in the kernel. A primitive that `completes` sends without a copy and waits for the completion.
    A primitive that `lends` sends pages that the peer reads in place. A primitive that `spins` busy-polls.
    """

    moves: Literal["out", "in"]
    waits: tuple[Waits, ...] = ()
    stores: bool = True
    completes: bool = False
    lends: bool = False
    spins: bool = False

    @property
    def copies(self) -> bool:
        """True if it copies every byte between the program's memory and the kernel's."""
        return self.stores and not self.completes and not self.lends


class Way(NamedTuple):
    """The send primitive and the receive primitive of one side."""

    primitive: str
    receive: str


class Defaults(_Part):
    """The engine's defaults, and the design that compares primitives."""

    workload: str
    load: str
    design: str
    primitive: str
    receive: str

    @property
    def way(self) -> Way:
        """The default primitives."""
        return Way(self.primitive, self.receive)


class Load(Entry):
    """A kind of load.

    `requests` names the settings whose product is the number of requests of a load process; if it is empty,
    that number is not known in advance. If the setting named by `duration` is not 0, the load ends by time,
    after the warm-up of the setting `warm_up`. `clients` names the setting for the number of clients.
    A load that waits in the call has a process or a thread for each client.
    """

    waits: Waits = "in_the_call"
    requests: tuple[str, ...] = ()
    duration: str | None = None
    warm_up: str | None = None
    clients: str | None = None

    @property
    def goes_by_a_schedule(self) -> bool:
        """True for an open load: requests are due whether or not earlier ones were answered."""
        return self.duration is not None and not self.requests

    def overruled(self, given: Mapping[str, SettingValue]) -> str | None:
        """Return the setting that has no effect because the load ends by time: the requests of each client.

        None if the load ends by their number.
        """
        if self.duration is None or not self.requests:
            return None
        own = by_name(self.settings)
        lasts = given.get(self.duration, own[self.duration].default if self.duration in own else 0)
        return self.requests[-1] if lasts not in (0, "0") else None

    def by_count(self) -> dict[str, SettingValue]:
        """Return the settings with which the load ends by its number of requests, not by time."""
        return {name: 0 for name in (self.duration, self.warm_up) if name}


class Direction(_Part):
    """The setting of a stream's clients for the direction of its bytes, and its two values.

    Both sides have the same settings of a stream, but only the sender or the receiver uses each.
    """

    setting: str
    to_server: str
    to_client: str
    of_sender: tuple[str, ...]
    of_receiver: tuple[str, ...]

    def sender(self, value: object) -> str:
        """Return the side that sends if the setting has this value."""
        return "server" if value == self.to_client else "client"


class Workload(_Part):
    """A protocol. Server and clients have separate settings, some of which must agree."""

    name: str
    summary: str
    source: str | None = None
    port: int = 0
    """The server's port in the source."""
    service_settings: tuple[Setting, ...] = ()
    client_settings: tuple[Setting, ...] = ()
    agreements: tuple[Agreement, ...] = ()
    products: tuple[Product, ...] = ()
    direction: Direction | None = None
    sender: Literal["service", "client"] = "service"
    """The end that sends the measured bytes, unless a setting reverses it."""
    measured_by: MeasuredBy = "requests"
    """The unit that a load counts in its window, unless a setting changes it."""
    pipelines: bool = False
    """True if a connection may have several requests in flight."""
    counts_requests: bool = True
    """True if its server can distinguish requests; otherwise it counts receives."""


class CounterPart(_Part):
    """A further figure of a counter, `COUNTER.NAME`."""

    name: str
    unit: str


class Counter(_Part):
    """A counter; `reason` says why it is unavailable on this machine.

    A `countable` counter can be requested with `--count`. The others are reported in other ways.
    """

    name: str
    summary: str
    unit: str | None = None
    countable: bool = False
    kind: Literal["count", "state"] = "count"
    """A count's figure is the difference of two readings; a state's figure is its value at the end."""
    parts: tuple[CounterPart, ...] = ()
    names_of_perf: tuple[str, ...] = ()
    """Its names in perf-list(1)."""
    available: bool
    reason: str | None = None

    @property
    def units(self) -> dict[str, str]:
        """The unit of each of its figures, by name."""
        return {self.name: self.unit or "", **{f"{self.name}.{part.name}": part.unit for part in self.parts}}


class Limit(_Part):
    """A machine limit: the cost of one operation on an otherwise idle machine.

    It is measured at each of `places` with each of `sizes` (bytes; empty: it has no size).
    """

    name: str
    summary: str
    source: str | None = None
    figure: Literal["nanoseconds", "bytes_per_second"]
    sizes: tuple[int, ...] = ()
    places: tuple[str, ...] = ()


class Hole(_Part):
    """A primitive that does not fit a design, a load, or one end of a workload; the others are None."""

    primitive: str
    design: str | None = None
    load: str | None = None
    workload: str | None = None
    end: Literal["service", "client"] | None = None
    reason: str


class Namespace(_Part):
    """The pair of interfaces between two network namespaces: its settings, and the local ports there.

    `least` has the smallest values above 0 of settings whose 0 means no limit. `reason` and
    `unavailable_settings` say what this machine lacks.
    """

    settings: tuple[Setting, ...] = ()
    least: dict[str, int] = {}
    local_ports: tuple[int, int]
    available: bool
    reason: str | None = None
    unavailable_settings: dict[str, str] = {}


class CongestionControls(_Part):
    """The kernel's congestion controls: the default, all, and those allowed to this user outside namespaces.

    `remarks` are notes to show with figures of some of them.
    """

    default: str | None = None
    available: tuple[str, ...] = ()
    allowed: tuple[str, ...] = ()
    remarks: dict[str, str] = {}


class Build(_Part):
    """The build of the engine."""

    rustc: str
    profile: str
    target: str
    flags: str
    linked: str = "dynamic"
    """`static` if the engine is one file, with its C library in it, or `dynamic`."""


class Catalogue(_Part):
    """The output of `thunderherd-engine list --json`."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True, serialize_by_alias=True)

    # The key is `schema`, which pydantic's BaseModel already uses for a method.
    schema_version: SchemaNumber = Field(alias="schema")
    version: str
    build: Build | None = None
    engine: Path | None = Field(default=None, exclude=True)
    """The engine's program, which judges servers and loads; None: the catalogue was read from a file."""
    defaults: Defaults
    file_prefix: str
    """The prefix of a file's path in a distribution of sizes."""
    designs: tuple[Design, ...]
    primitives: tuple[Primitive, ...]
    workloads: tuple[Workload, ...]
    loads: tuple[Load, ...]
    never_sleeps: Mapping[str, str]
    """Settings of designs and loads, each with the value that makes an end busy-poll."""
    counters: tuple[Counter, ...] = ()
    events_of_perf: tuple[str, ...] = ()
    """Further events by their names in perf-list(1), which can be requested like counters."""
    limits: tuple[Limit, ...] = ()
    limit_settings: tuple[Setting, ...] = ()
    server_settings: tuple[Setting, ...] = ()
    load_settings: tuple[Setting, ...] = ()
    holes: tuple[Hole, ...] = ()
    """For `list --matrix --json`. The engine itself refuses these combinations."""
    tcp_settings: tuple[str, ...] = ()
    congestion_controls: CongestionControls | None = None
    namespace: Namespace | None = None
    fallbacks: tuple[Fallback, ...] = ()

    def design(self, name: str) -> Design | None:
        """Return the design of that name, or None."""
        return next((design for design in self.designs if design.name == name), None)

    def workload(self, name: str) -> Workload | None:
        """Return the workload of that name, or None."""
        return next((workload for workload in self.workloads if workload.name == name), None)

    def load(self, name: str) -> Load | None:
        """Return the load of that name, or None."""
        return next((load for load in self.loads if load.name == name), None)

    def primitive(self, name: str) -> Primitive | None:
        """Return the primitive of that name, or None."""
        return next((primitive for primitive in self.primitives if primitive.name == name), None)

    def facts_of(
        self, design: str, *ways: Way, settings: Iterable[Mapping[str, object]] = ()
    ) -> dict[str, Any]:
        """Return facts about a trial with this design, primitives and settings.

        `makes`: what the design creates for every connection. `calls`: whether its server makes a system call
        for each operation. `spins`: whether an end busy-polls. `copies`: how often each byte is copied at
        least, by its sender and its receiver. Unknown names are ignored.
        """
        own = self.design(design)
        movers = [mover for way in ways for name in way if (mover := self.primitive(name))]
        return {
            "makes": own.makes if own else None,
            "spins": (own is not None and own.spins)
            or any(mover.spins for mover in movers)
            or any(
                values.get(name) == word for values in settings for name, word in self.never_sleeps.items()
            ),
            "calls": own is None or own.waits != "for_completion",
            "copies": 2 - len({mover.moves for mover in movers if not mover.copies}),
        }

    def settings_of_server(self, design: str, way: Iterable[str], workload: str) -> dict[str, Setting]:
        """Return the settings of `serve DESIGN --workload` with these primitives, by name.

        Unknown names add nothing.
        """
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
        """Return the settings of `load WORKLOAD --load LOAD` with these primitives, by name.

        Unknown names add nothing.
        """
        own, protocol = self.load(load), self.workload(workload)
        return by_name(
            [
                *self.load_settings,
                *(protocol.client_settings if protocol else ()),
                *self._settings_of(way),
                *(own.settings if own else ()),
            ]
        )

    @cached_property
    def of_ends(self) -> dict[str, Setting]:
        """All settings of servers and loads, by name. A name has one meaning, whatever has the setting."""
        entries = (*self.designs, *self.primitives, *self.loads)
        of_workloads = [(*each.service_settings, *each.client_settings) for each in self.workloads]
        return by_name(
            [
                *self.server_settings,
                *self.load_settings,
                *(setting for each in entries for setting in each.settings),
                *(setting for settings in of_workloads for setting in settings),
            ]
        )

    def _settings_of(self, way: Iterable[str]) -> list[Setting]:
        movers = [self.primitive(name) for name in way]
        return [setting for mover in movers if mover for setting in mover.settings]


def by_name(settings: Iterable[Setting]) -> dict[str, Setting]:
    """Return the settings by name, in their order."""
    return {setting.name: setting for setting in settings}


def defaults(settings: Mapping[str, Setting]) -> dict[str, SettingValue]:
    """Return the default of each setting."""
    return {name: setting.default for name, setting in settings.items()}


class Feature(BaseModel):
    """A feature of the kernel: the first Linux with it (None: all have it), and why it is unavailable."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    name: str
    since: str | None = None
    available: bool = True
    reason: str | None = None


class Fallback(Feature):
    """A feature that the engine uses where it can, and what it does without it."""

    instead: str
