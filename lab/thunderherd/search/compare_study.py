"""The two studies of a comparison, made from what the user typed.

The pilot measures in short closed loops what each contender can do with each back end of the clients. The
comparison then has, in the same blocks, each contender in a closed loop, and in an open loop at one rate that
all of them can serve. Both are whole study files: `thunderherd run` runs either again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import geometric_mean
from typing import Any

from thunderherd.engine.catalogue import (
    Catalogue,
    ChoiceSetting,
    IntegerSetting,
    Load,
    Setting,
    Workload,
    by_name,
    defaults,
)
from thunderherd.errors import UserError
from thunderherd.labs import KINDS, USUAL
from thunderherd.labs.words import OPTION
from thunderherd.metrics.table import METRICS, PAYLOAD_RATE
from thunderherd.search.contenders import (
    Basis,
    contender,
    has_own_server,
    raised_limits,
    scheme_of,
    with_workers,
)
from thunderherd.search.request import CompareRequest
from thunderherd.search.written_study import SIZE, Tables, Typed
from thunderherd.statistics.comparisons import first_look_blocks
from thunderherd.study.defaults import (
    ALPHA_SPLIT,
    DURATION,
    MILLISECOND,
    WARM_UP_SHARE,
    has_persistent,
    window,
)
from thunderherd.study.lab_option import read as read_lab
from thunderherd.study.own_programs import url_problem
from thunderherd.study.resolved import CONNECTIONS, KEPT
from thunderherd.toml.cpus import without_ranges
from thunderherd.toml.file import KeyPath, show, suggest, unknown
from thunderherd.toml.quantities import TIME, parse_quantity

__all__ = ["ALPHA", "COMMON_RATE", "CompareStudies", "Piloted", "Schedule"]

ALPHA = 0.05
COMMON_RATE = "common_rate"
"""The sweep whose one point is the rate that all contenders can serve."""
BACK_END = "back_end"
"""The setting of the clients' back end, and the pilot's sweep over it."""
RATE = "rate"
"""The setting of an open load's rate."""
CPU_PER_REQUEST, CPU_PER_BYTE = "server_cpu_per_request", "server_cpu_per_byte"
BYTES, MESSAGE_SIZE = "bytes", "message_size"
"""The size of a reply or message, and the setting of it in a stream."""
MEMORY = "memory"
"""The counter of the server's memory."""
MEMORY_OF_SERVER, MEMORY_PER_CONNECTION = f"server.{MEMORY}", f"server.{MEMORY}_per_connection"
FEWEST_CONNECTIONS = 512
"""The number of connections from which memory is compared per connection. The kernel charges memory in steps
of up to 64 pages per CPU, so with fewer connections only the memory of the whole server can be told apart."""

OPTIONS = (
    "workload", "clients", "bytes", "primitive", "receive", "lab", "budget", "fail-if-slower", "save", "open",
    "json", "set", "seed", "out", "resume",
)  # fmt: skip
"""The options of the command that are no settings, for the hint to a mistyped one."""

CHOSEN = {"cpus": "CPUs of both sides", "port": "ports", "listen": "addresses", "connect": "addresses"}
"""Options of `serve` and `load` whose values the command chooses."""

FULL = 0.9
"""The share of a CPU's time from which it counts as used."""
SHARE_OF_CAPACITY = 0.5
"""The common rate as a share of what the slowest contender can do in a closed loop."""
PILOT_MILLISECONDS = 200
PILOTS = 2
LONGEST_IF_READ_LATE = 2000
"""The longest window of a stream, or with many connections. Such a server keeps its CPU busy for tens of
milliseconds before it can be read."""
FEWEST_MILLISECONDS = 100
"""The shortest window of a trial."""
ON_HOSTS = 5
"""The factor on the windows of trials on hosts. A server is read later over a network."""
USUAL_BUDGET = 60.0
USUAL_OVERHEAD = 0.3
"""The time in seconds that a trial takes beyond its window, if there was no pilot."""
LATENCIES = 2
"""The most metrics of latency that are compared at the common rate."""
SPARE_SHARE = 0.15
"""The share of the budget that is left for repeated trials and noisy blocks."""
LOOKS = (1.0, 1.5, 2.0, 3.0)
"""The looks, as multiples of the first; the budget may end a run before the last."""
SPLIT = (*ALPHA_SPLIT[:2], 0.2, 0.2)
MARGIN = 1.2
"""Factor on the requests that a percentile needs, as a Poisson process may have fewer than expected."""


@dataclass(frozen=True)
class Piloted:
    """What the pilot found.

    These are the back end to use (empty: the usual one), each contender's requests a second with it, the time
    that a trial takes beyond its window, and the time of all its trials. `server_cpus` is the number of CPUs
    that the busiest server used if the clients were the limit; None if they were not, or if it is unknown.
    """

    back_end: str
    capacities: Mapping[str, float]
    overhead_seconds: float
    seconds: float = 0.0
    server_cpus: float | None = None

    @property
    def rate(self) -> int:
        """The rate that all can serve, to two digits."""
        return max(1, int(float(f"{SHARE_OF_CAPACITY * min(self.capacities.values()):.2g}")))


@dataclass(frozen=True)
class Schedule:
    """The length of a trial's window, and the looks with their shares of alpha."""

    milliseconds: int
    looks: tuple[int, ...]
    alpha_split: tuple[float, ...]


@dataclass(frozen=True)
class CompareStudies:
    """The studies of one comparison. Each method raises `UserError` for a mistake in the request."""

    request: CompareRequest
    catalogue: Catalogue

    # The studies --------------------------------------------------------------------------------------------

    def pilot(self) -> Tables:
        """Return the study that measures each contender in a closed loop, with each back end."""
        return {
            **self._shared(),
            "name": "compare-pilot",
            "title": "What each contender can do in a closed loop",
            "measure": {"metric": CPU_PER_REQUEST, "limits": "0"},
            "load": self._load(self.pilot_milliseconds, {}),
            "sizes": {SIZE: {"repetitions": PILOTS}},
            # These figures only choose settings, so noise does not matter.
            "noise": {"steal": "100%", "foreign": "100%"},
            "sweeps": [
                {
                    "name": BACK_END,
                    "title": "By back end of the clients",
                    "key": f"load.settings.{BACK_END}",
                    "values": self._back_ends(),
                    "contenders": self.contenders,
                }
            ],
        }

    def comparison(self, piloted: Piloted | None, budget_seconds: float) -> Tables:
        """Return the study of the comparison; a workload without requests has no pilot and no common rate."""
        names = [each["name"] for each in self.contenders]
        labels = [each.get("label", each["name"]) for each in self.contenders]
        schedule = self.schedule(piloted, budget_seconds)
        metric, *further = self._metrics()
        counters = {"counters": [MEMORY]} if {MEMORY_OF_SERVER, MEMORY_PER_CONNECTION} & {*further} else {}
        lab = self._divided_lab(piloted)
        study = {
            **self._shared(),
            "lab": lab,
            "name": "-".join([self.request.command, *(name.replace("_", "-") for name in names)])[:80].rstrip(
                "-"
            ),
            "title": f"{' and '.join(labels)}: workload {self._workload.name}",
            "measure": {"metric": metric, "further_metrics": further, "limits": "0", **counters},
            "load": self._load(
                schedule.milliseconds,
                {BACK_END: piloted.back_end} if piloted and piloted.back_end else {},
                lab,
            ),
            "sizes": {
                SIZE: {
                    "looks": list(schedule.looks),
                    "alpha_split": list(schedule.alpha_split),
                    "budget": f"{budget_seconds:.0f}s",
                }
            },
            "contenders": self.contenders,
        }
        if piloted and self._has_rate:
            study["sweeps"] = [self._at_common_rate(piloted, names, schedule.milliseconds)]
        return study

    def schedule(self, piloted: Piloted | None, budget_seconds: float) -> Schedule:
        """Return windows so short that the first look fits into the budget.

        Raise `UserError` if none are, for the budget as typed. What is left of it after a pilot on a busy
        machine gives the shortest windows, and the run then ends with fewer blocks.
        """
        overhead = piloted.overhead_seconds if piloted else USUAL_OVERHEAD
        seconds = budget_seconds * (1 - SPARE_SHARE) / self._first_trials - overhead
        is_read_late = not self.has_requests or self._clients >= FEWEST_CONNECTIONS
        longest = LONGEST_IF_READ_LATE if is_read_late else DURATION // MILLISECOND
        milliseconds = min(longest, int(1000 * seconds / (1 + WARM_UP_SHARE)))
        if milliseconds < self._fewest_milliseconds and budget_seconds >= self.budget_seconds:
            needed = self._needed_seconds(overhead) + self.budget_seconds - budget_seconds
            raise self.request.refusal(
                f"--budget {self.request.budget}" if self.request.budget else "",
                f"{self.budget_seconds:g} s are too short for {len(self.contenders)} contenders, which need "
                f"{self._first_look} blocks",
                "compare.budget_too_short",
                f"give --budget {math.ceil(needed / 10) * 10}s, or fewer contenders",
            )
        looks = tuple(math.ceil(self._first_look * each) for each in LOOKS)
        return Schedule(max(self._fewest_milliseconds, milliseconds), looks, SPLIT)

    @cached_property
    def pilot_milliseconds(self) -> int:
        """The window of the pilot's trials."""
        return PILOT_MILLISECONDS * (ON_HOSTS if self._is_on_hosts else 1)

    @property
    def _fewest_milliseconds(self) -> int:
        return FEWEST_MILLISECONDS * (ON_HOSTS if self._is_on_hosts else 1)

    @cached_property
    def _is_on_hosts(self) -> bool:
        """True if the server or the load is on another host."""
        return KINDS[self.request.lab_keys().get("kind", USUAL.name)].reaches_hosts

    @cached_property
    def budget_seconds(self) -> float:
        """The time for the whole command: as typed, else a minute, or more if many contenders need it."""
        if text := self.request.budget:
            return parse_quantity(text, f"{self.request.command}: --budget {text}", TIME) / 1e9
        return max(USUAL_BUDGET, math.ceil(1.3 * self._needed_seconds(USUAL_OVERHEAD) / 10) * 10)

    @cached_property
    def _first_look(self) -> int:
        at_rate = LATENCIES + (RATE in self._given["load"]) if self._has_rate else 0
        metrics = len(self._metrics()) + at_rate
        return first_look_blocks(math.comb(len(self.contenders), 2) * metrics, ALPHA, SPLIT[0])

    @property
    def _first_trials(self) -> int:
        """The number of trials until the first look."""
        return len(self.contenders) * (2 if self._has_rate else 1) * self._first_look

    def _needed_seconds(self, overhead: float) -> float:
        """Return the time for the first look with the shortest windows."""
        shortest = overhead + (1 + WARM_UP_SHARE) * self._fewest_milliseconds / 1000
        return self._first_trials * shortest / (1 - SPARE_SHARE)

    def typed(self) -> Typed:
        """Return the options by which the keys of these studies were typed."""
        keys: dict[KeyPath, str] = {("server", "workload"): f"--workload {self._workload.name}"}
        for name, text in self.request.settings:
            option = f"--{name.replace('_', '-')} {text}"
            keys |= {("load", "settings", name): option, ("server", "settings", name): option}
        keys |= {("lab", key): f"{OPTION} {text}" for text in self.request.lab for key in read_lab([text])}
        keys["sizes", SIZE, "budget"] = f"--budget {self.request.budget or f'{self.budget_seconds:g}s'}"
        for words, table in zip(self.request.contenders, self.contenders, strict=True):
            keys["contenders", table["name"]] = words
        return Typed(self.request.command, keys)

    # Their parts --------------------------------------------------------------------------------------------

    @cached_property
    def _workload(self) -> Workload:
        known = {each.name: each for each in self.catalogue.workloads}
        urls = [*filter(scheme_of, self.request.contenders)]
        schemes = dict.fromkeys(filter(None, map(scheme_of, urls)))
        for typed in urls:
            if problem := url_problem(typed, self.request.workload, self.catalogue, "compare"):
                raise UserError(problem.at(self.request.command))
        if len(schemes) > 1:
            raise UserError(
                f"the URLs name {len(schemes)} workloads: {', '.join(schemes)}",
                code="compare.other_scheme",
                hint="compare servers of one workload",
                where=self.request.command,
            )
        usual = next(iter(schemes), self.catalogue.defaults.workload)
        name = usual if self.request.workload is None else self.request.workload
        if name not in known:
            problem = unknown("workload", name, list(known), "compare")
            raise UserError(problem.at(f"{self.request.command}: --workload {name}"))
        return known[name]

    @property
    def has_requests(self) -> bool:
        """True if the workload has requests and replies, so that there is a rate and a latency."""
        return self._workload.measured_by == "requests"

    @property
    def _has_rate(self) -> bool:
        """True if the contenders are also compared at the common rate."""
        return self.has_requests and not self.request.cost_alone

    @cached_property
    def _closed(self) -> Load:
        """The closed loop: the first load that ends by time and waits for readiness."""
        return next(
            each
            for each in self.catalogue.loads
            if each.duration and each.requests and each.waits == "for_readiness"
        )

    @cached_property
    def _open(self) -> Load:
        return next(each for each in self.catalogue.loads if each.goes_by_a_schedule)

    @cached_property
    def _basis(self) -> Basis:
        way = self.catalogue.defaults.way
        return Basis(
            catalogue=self.catalogue, workload=self._workload.name, load=self._closed.name,
            design=self.catalogue.defaults.design, server_way=way, load_way=way, side=None,
            lab=self.request.lab_keys().get("kind", USUAL.name), command=self.request.command,
            sets_both_sides=True,
        )  # fmt: skip

    def _shared(self) -> dict[str, Any]:
        return {"server": self._server, "lab": self._lab}

    def _divided_lab(self, piloted: Piloted | None) -> dict[str, Any]:
        """The lab, with the server's unused CPUs for the clients if the clients were the pilot's limit."""
        server, clients = (self._lab.get(f"{side}_cpus") for side in ("server", "client"))
        if piloted is None or piloted.server_cpus is None or "server_cpus" in self.request.lab_keys():
            return self._lab
        if not isinstance(server, list) or not isinstance(clients, list):
            return self._lab
        used = max(1, math.ceil(piloted.server_cpus / FULL))
        return {**self._lab, "server_cpus": server[:used], "client_cpus": [*server[used:], *clients]}

    @cached_property
    def _lab(self) -> dict[str, Any]:
        """The lab as typed; if it names no CPUs, the server gets half of them and the clients the others.

        On hosts, each side has those of its host.
        """
        lab = self.request.lab_keys()
        usable = sorted(os.sched_getaffinity(0))
        if (
            len(usable) > 1
            and not self._is_on_hosts
            and not {"placement", "server_cpus", "client_cpus"} & lab.keys()
        ):
            half = len(usable) // 2
            lab |= {"server_cpus": usable[:half], "client_cpus": usable[half:]}
        return lab

    @staticmethod
    def _client_cpus(lab: Mapping[str, Any]) -> int:
        """The number of CPUs that only the clients use; 0 if they share the server's."""
        server, clients = (without_ranges(lab.get(f"{side}_cpus")) for side in ("server", "client"))
        if lab.get("placement") == "apart":
            return max(0, len(os.sched_getaffinity(0)) - 1)
        if not isinstance(server, list) or not isinstance(clients, list):
            return 0
        return len({*clients} - {*server})

    @cached_property
    def _given(self) -> dict[str, dict[str, Any]]:
        """The settings that were typed for all contenders, by side; both sides have those of both."""
        found: dict[str, dict[str, Any]] = {"server": {}, "load": {}}
        designs = [self._basis.settings_of_server(table) for table in self._named]
        known = {
            "load": self._basis.settings_of_load({}) | self.catalogue.settings_of_load(
                self._open.name, self._basis.load_way, self._workload.name
            ),
            "server": {name: each for settings in designs for name, each in settings.items()},
        }  # fmt: skip
        for typed, text in self.request.settings:
            where = f"{self.request.command}: --{typed.replace('_', '-')} {text}"
            name = self._renamed(typed, {*known["load"], *known["server"]})
            sides = [side for side, settings in known.items() if name in settings]
            if not sides:
                names = dict.fromkeys(each.replace("_", "-") for each in (*known["load"], *known["server"]))
                option = typed.replace("_", "-")
                if option in OPTIONS:
                    message = f"workload {self._workload.name} has no setting {show(typed)}"
                    hint = f"its settings: {', '.join(each.name for each in self._workload.client_settings)}"
                elif option in CHOSEN:
                    message, hint = f"compare chooses the {CHOSEN[option]}", f"leave --{option} out"
                else:
                    message = f"no such option or setting {show(typed)}"
                    hint = suggest(option, [*names, *OPTIONS], "see `list workloads` and `list loads`")
                raise UserError(message, code="compare.unknown_setting", hint=hint, where=where)
            for side in sides:
                found[side][name] = value = _value(text, where, known[side][name])
                if refusal := known[side][name].refusal(value):
                    joined = " " if refusal.code == "invalid_setting" else ": "
                    message = f"{name} = {show(value)}{joined}{refusal.message}"
                    raise UserError(message, code=f"study.{refusal.code}", hint=refusal.hint, where=where)
        return found

    @staticmethod
    def _renamed(name: str, known: set[str]) -> str:
        """Return the setting that --bytes stands for: in a stream, the size of its messages."""
        stands_for_size = name == BYTES and BYTES not in known and MESSAGE_SIZE in known
        return MESSAGE_SIZE if stands_for_size else name

    @cached_property
    def _of_servers(self) -> dict[str, Any]:
        """The settings that were typed for all servers, and their limits that all clients exceed."""
        known: dict[str, Setting] = {}
        for table in self._named:
            known |= self._basis.settings_of_server(table)
        typed = self._given["server"]
        return typed | raised_limits(self._basis, known, self._given["load"], typed)

    @cached_property
    def _server(self) -> dict[str, Any]:
        """The common part of the servers: workload, primitives, and settings that all of them have."""
        common = [self._basis.settings_of_server(table) for table in self._named]
        settings = {
            name: value for name, value in self._of_servers.items() if all(name in own for own in common)
        }
        ways = {
            key: value
            for key, value in (("primitive", self.request.primitive), ("receive", self.request.receive))
            if value
        }
        return {"workload": self._workload.name, **ways, **({"settings": settings} if settings else {})}

    def _load(
        self, milliseconds: int, more: Mapping[str, Any], lab: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        known = self._basis.settings_of_load({})
        threads = max(1, min(self._client_cpus(self._lab if lab is None else lab), self._clients))
        settings = {
            "clients": self._clients,
            **({CONNECTIONS: KEPT} if has_persistent(known) else {}),
            **({"threads": threads} if threads > 1 else {}),
            **window(self._closed, milliseconds * MILLISECOND),
            **more,
            **{name: value for name, value in self._given["load"].items() if name in known},
        }
        return {"kind": self._closed.name, "processes": 1, "settings": settings}

    @property
    def _clients(self) -> int:
        usual = defaults(by_name(self._open.settings))["clients"]
        return int(self._given["load"].get("clients", usual))

    @cached_property
    def _named(self) -> list[dict[str, Any]]:
        """The contenders as typed, before the settings that all of them get."""
        found = self._each_named([self._labelled(typed) for typed in self.request.contenders])
        names = [table["name"] for table in found]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise self.request.refusal(
                twice,
                "it is given twice",
                "compare.contender_repeated",
                "give each contender once, or another setting",
            )
        return found

    def _labelled(self, typed: str) -> dict[str, Any]:
        """The table of a contender, which the output calls as it was typed."""
        table = contender(typed, self._basis, {})
        return {**table, "label": typed} if typed != table["name"] else table

    def _each_named(self, tables: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Number the names of commands and URLs that another contender has, too.

        The same command keeps its name, so that it is refused.
        """
        taken = {each["name"] for each in tables if not has_own_server(each)}
        named: dict[str, str] = {}
        for table in tables:
            if not has_own_server(table):
                continue
            label, name = table["label"], table["name"]
            names = (name, *(f"{name}_{number}" for number in range(2, len(tables) + 2)))
            named.setdefault(label, next(each for each in names if each not in taken))
            table["name"] = named[label]
            taken.add(table["name"])
        return tables

    @cached_property
    def contenders(self) -> list[dict[str, Any]]:
        """The tables of the contenders.

        A server that serves one connection at a time gets a worker for each persistent connection.
        """
        common = self._server.get("settings", {})
        is_kept = self._load(self.pilot_milliseconds, {})["settings"].get(CONNECTIONS) == KEPT
        found = []
        for typed, named in zip(self.request.contenders, self._named, strict=True):
            table = dict(named)
            known = self._basis.settings_of_server(table)
            own = {
                name: value
                for name, value in self._of_servers.items()
                if name in known and name not in common
            }
            requested = table.get("load", {}).get("settings", {})
            own |= raised_limits(self._basis, known, requested, self._given["server"])
            if own:
                table["settings"] = own | table.get("settings", {})
            if is_kept and (starved := with_workers(table, self._basis, self._clients)):
                message, hint = starved
                hint = hint.replace("connections = per_request", "--connections per_request")
                raise self.request.refusal(typed, message, "compare.too_few_workers", hint)
            found.append(table)
        return found

    def _back_ends(self) -> list[str]:
        """The back ends that the clients may use, without the one that busy-polls."""
        if given := self._given["load"].get(BACK_END):
            return [given]
        setting = self._basis.settings_of_load({})[BACK_END]
        assert isinstance(setting, ChoiceSetting), "event loops have a choice of back ends"
        return [each for each in setting.choices if each != self.catalogue.never_sleeps.get(BACK_END)]

    def _metrics(self) -> list[str]:
        """The metrics of the closed loop, the ranking one first."""
        if self.request.cost_alone:
            return [CPU_PER_REQUEST if self.has_requests else CPU_PER_BYTE]
        if not self.has_requests:
            return [CPU_PER_BYTE, "machine_cpu_per_byte", PAYLOAD_RATE]
        found = [CPU_PER_REQUEST, "machine_cpu_per_request", "requests_per_second"]
        memory = next((each for each in self.catalogue.counters if each.name == MEMORY), None)
        is_kept = self._load(self.pilot_milliseconds, {})["settings"].get(CONNECTIONS) == KEPT
        is_running = any("url" in table for table in self._named)
        if is_kept and not is_running and memory is not None and memory.available:
            found.append(MEMORY_PER_CONNECTION if self._clients >= FEWEST_CONNECTIONS else MEMORY_OF_SERVER)
        return found

    def _at_common_rate(self, piloted: Piloted, names: Sequence[str], milliseconds: int) -> dict[str, Any]:
        """Return the sweep whose one point is an open loop at the common rate."""
        given = self._given["load"].get(RATE)
        rate = int(given) if given else piloted.rate
        percentiles = [f"latency_{each}_seconds" for each in ("p99", "p90", "p50")]
        requests = rate * milliseconds / 1000 / MARGIN
        enough = [each for each in percentiles if requests >= METRICS[each].fewest_requests]
        enough = enough or ["latency_mean_seconds"]
        further = [each for each in enough[1:] if each == "latency_p50_seconds"]
        has_own_cpus = self._client_cpus(self._lab) > 0
        # A server that waits otherwise costs little at its full rate, and much at a low one.
        further += [CPU_PER_REQUEST] if given else []
        settings = {
            "load.kind": self._open.name,
            "load.settings.rate": rate,
            # A sleeping load is late by a wake-up, which on many machines is later than a load may be.
            **({"load.settings.wait": self.catalogue.never_sleeps["wait"]} if has_own_cpus else {}),
            **{
                f"load.settings.{name}": value
                for name, value in self._given["load"].items()
                if name not in self._basis.settings_of_load({})
            },
        }
        return {
            "name": COMMON_RATE,
            "title": f"At a {'' if given else 'common '}rate of {rate:,} requests per second",
            "values": [{"name": str(rate), "set": settings}],
            "x_label": "requests that are due per second",
            "metric": enough[0],
            "further_metrics": further,
            "contenders": list(names),
        }


def cheapest(costs: Mapping[str, Sequence[float]]) -> str:
    """Return the back end with the least client CPU per request, over all contenders."""
    return min(costs, key=lambda each: geometric_mean(costs[each]))


def _value(text: str, where: str, setting: Setting) -> Any:
    """Return a word of the command line as a study has it, a time with its unit."""
    if not isinstance(setting, IntegerSetting):
        return {"true": True, "false": False}.get(text, text)
    if not setting.needs_unit:
        return parse_quantity(text, where)
    return setting.quantity.write(parse_quantity(text, where, setting.quantity))
