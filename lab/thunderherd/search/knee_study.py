"""The studies of a search for knees, made from what the user typed.

The probe measures in a short closed loop how many requests a second each design answers; rates are shares of
that. There is no probe if the user gives the rates. The confirmation has rates close around the knees that
were found. Each is a whole study file: `thunderherd run` runs it again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from pydantic import ValidationError

from thunderherd.engine.catalogue import Catalogue, IntegerSetting, Setting, by_name, defaults
from thunderherd.engine.lines import LoadResult
from thunderherd.errors import UserError
from thunderherd.labs import USUAL
from thunderherd.labs.words import OPTION
from thunderherd.metrics.table import METRICS
from thunderherd.search.contenders import Basis, contender, with_workers
from thunderherd.search.request import MILLISECOND, KneeRequest
from thunderherd.search.written_study import SIZE, Tables, Typed
from thunderherd.statistics.crossings import grid
from thunderherd.study.file.tables import LabTable
from thunderherd.study.lab_option import read as read_lab
from thunderherd.study.labs import lab_of
from thunderherd.study.resolved import KEPT
from thunderherd.text.figures import count
from thunderherd.toml.file import KeyPath, unknown
from thunderherd.toml.quantities import TIME, NoQuantity, NoUnit, in_units, parse_quantity

__all__ = ["ALPHA", "Goal", "KneeStudies", "goal_of", "requests_per_second"]

ALPHA = 0.05
OPEN, CLOSED = "open", "closed_connections"
WAIT = "wait"
"""The setting of an open load for how it waits until a request is due."""

HIGHEST_SHARE = 1.04
"""The highest rate as a share of the closed loop's: slightly too high, so that the knee lies below."""
LOWEST_SHARE = 0.3
DENSER = 1.6
"""The power by which rates lie denser towards the capacity, where latency rises."""
CONFIRMING = 5
"""Rates around a knee in the confirmation."""
LONGEST = TIME.units["min"]
"""The longest window, in nanoseconds."""
PROBES = 3
WARM_UP_SHARE = 0.25
MARGIN = 1.2
"""Factor on the requests that a percentile needs, as a Poisson process may have fewer than expected."""


@dataclass(frozen=True)
class Goal:
    """A percentile of latency and its upper bound."""

    option: str
    """The option without its dashes: `p99`."""
    text: str
    seconds: float

    @property
    def metric(self) -> str:
        """The metric of the percentile."""
        return f"latency_{self.option}_seconds"


def goal_of(request: KneeRequest) -> Goal:
    """Return the one goal; raise `UserError` if there is none or more than one, or if it is not a time."""
    given = [(name, text) for name, text in request.percentiles.items() if text is not None]
    options = ", ".join(f"--{name}" for name in request.percentiles)
    if len(given) != 1:
        which = "none is" if not given else " and ".join(f"--{name}" for name, _ in given) + " are"
        message = f"a search has one goal, and {which} given"
        raise request.refusal("", message, "knee.not_one_goal", f"give one of {options}: --p99 2ms")
    name, text = given[0]
    is_negative = text.lstrip().startswith("-")
    why = "it is not above 0"
    hint = "give a time above 0 with its unit (ns, us, ms, s), such as 500us or 2ms"
    try:
        nanoseconds = in_units(text.lstrip()[is_negative:], TIME.units)
    except NoUnit as error:
        nanoseconds, why = Fraction(0), str(error)
        hint = " or ".join(TIME.likely(error.digits))
    except NoQuantity as error:
        nanoseconds, why = Fraction(0), str(error)
        hint = " or ".join(TIME.near(error)) or hint
    if is_negative or nanoseconds <= 0:
        raise request.refusal(f"--{name} {text}", why, "knee.invalid_goal", hint)
    return Goal(name, text, float(nanoseconds / Fraction(10**9)))


def requests_per_second(loads: Sequence[LoadResult]) -> float:
    """Return replies a second in the windows of a trial's load processes."""
    return sum(load.window.requests_per_second for load in loads if load.window is not None)


@dataclass(frozen=True)
class KneeStudies:
    """The studies of one search. Each method raises `UserError` for a mistake in the request."""

    request: KneeRequest
    catalogue: Catalogue

    # The studies --------------------------------------------------------------------------------------------

    def probe(self) -> Tables:
        """Return the study that measures each design's requests a second in a closed loop."""
        study = {
            **self._shared(),
            "name": "knee-probe",
            "title": "Each design's rate in a closed loop",
            "question": "Between which rates should the search look for a knee?",
            # These rates judge nothing, so the client may be the slower end.
            "measure": {"metric": "server_cpu_per_request", "limits": "0"},
            "load": self._load(CLOSED, 300 * MILLISECOND, {}),
            "sizes": {SIZE: {"repetitions": PROBES}},
            "noise": {"steal": "100%", "foreign": "100%"},
            "comparisons": {"all_pairs": False} if len(self._contenders) == 1 else {},
            "contenders": self._contenders,
        }
        return {key: value for key, value in study.items() if value}

    def search(self, capacities: Mapping[str, float] | None) -> Tables:
        """Return the study of each design at its rates, which follow from --rates or from `capacities`."""
        points = self.request.points or (5 if self.request.quick else 8)
        names = [each["name"] for each in self._contenders]
        return self._study(
            {name: self._rates(points, (capacities or {}).get(name)) for name in names}, "knee"
        )

    def sketch(self) -> Tables:
        """Return the search's study at a load's highest rates, to find mistakes before the probe."""
        rate = self._rate_setting()
        most = (rate.maximum if isinstance(rate, IntegerSetting) else 1e6) / HIGHEST_SHARE
        return self.search({each["name"]: most for each in self._contenders})

    def confirmation(self, around: Mapping[str, tuple[int, int]]) -> Tables:
        """Return the study of designs at rates between two that lie to both sides of a knee (`around`)."""
        return self._study({name: _between(*ends) for name, ends in around.items()}, "knee-confirmation")

    def _study(self, rates: Mapping[str, Sequence[int]], name: str) -> Tables:
        goal = goal_of(self.request)
        words = METRICS[goal.metric].words
        duration = self._duration(goal, min(min(each) for each in rates.values()))
        shared = self._shared()
        # A sleeping load is late by a wake-up, which on many machines is later than a load may be.
        busy = {WAIT: self.catalogue.never_sleeps[WAIT]} if self._has_own_cpus(shared["lab"]) else {}
        study = {
            **shared,
            "name": name,
            "title": f"The highest rate at which {goal.option} of the latency is at most {goal.text}",
            "question": f"Up to which rate is the {words} of each design at most {goal.text}?",
            "measure": {
                "metric": goal.metric,
                "overload": "counts",
                "limits": "0",
                "alpha": ALPHA,
            },
            "load": self._load(OPEN, duration, busy),
            "sizes": {SIZE: {"repetitions": self._blocks(len(self.request.designs))}},
            "sweeps": [
                {
                    "name": table["name"],
                    "title": f"{table['name']} at rates up to what it can do",
                    "key": "load.settings.rate",
                    "values": list(rates[table["name"]]),
                    "axis": "logarithmic",
                    "x_label": "requests that are due per second",
                    "metrics": ["latency_p50_seconds", "service_time_p50_seconds", "share_of_offered"],
                    "logarithmic": [goal.metric],
                    "contenders": [table],
                }
                for table in self._contenders
                if table["name"] in rates
            ],
        }
        return {key: value for key, value in study.items() if value}

    def typed(self) -> Typed:
        """Return the options by which the keys of these studies were typed."""
        request, goal = self.request, goal_of(self.request)
        options: dict[KeyPath, tuple[str, Any]] = {
            ("server", "workload"): ("--workload", request.workload),
            ("load", "settings", "clients"): ("--clients", request.clients),
            ("load", "settings", "connections"): ("--connections", request.connections),
            ("load", "settings", "duration"): ("--duration", request.duration),
            ("measure", "metric"): (f"--{goal.option}", goal.text),
            ("sizes", SIZE, "repetitions"): ("--blocks", request.blocks),
        }
        keys = {key: name if value is None else f"{name} {value}" for key, (name, value) in options.items()}
        keys |= {("lab", key): f"{OPTION} {text}" for text in request.lab for key in read_lab([text])}
        for typed, table in zip(request.designs, self._contenders, strict=True):
            keys |= dict.fromkeys((("contenders", table["name"]), ("sweeps", table["name"])), typed)
            if request.rates is not None:
                keys["sweeps", table["name"], "values"] = f"--rates {request.rates}"
        return Typed(request.command, keys)

    # Their parts --------------------------------------------------------------------------------------------

    def _shared(self) -> dict[str, Any]:
        self._check_duration()
        lab = self.request.lab_keys()
        if len(os.sched_getaffinity(0)) > 1 and not {"placement", "server_cpus", "client_cpus"} & lab.keys():
            lab["placement"] = "apart"  # a load on its server's CPU is late whenever that is busy
        return {"server": {"workload": self._workload}, "lab": lab}

    def _has_own_cpus(self, lab: Mapping[str, Any]) -> bool:
        """True if the clients have CPUs that their server does not use."""
        try:
            placed = lab_of(LabTable(**lab), self.catalogue)
        except ValidationError:
            return False  # the study is refused for it
        server, clients = set(placed.server_cpus or ()), set(placed.client_cpus or ())
        return bool(server and clients) and not server & clients

    @cached_property
    def _workload(self) -> str:
        known = [each.name for each in self.catalogue.workloads if each.measured_by == "requests"]
        name = self.request.workload or known[0]
        if name not in known:
            problem = unknown("workload of requests and replies", name, known, "knee")
            raise UserError(problem.at(f"knee: --workload {name}"))
        return name

    @cached_property
    def _connections(self) -> tuple[int, str]:
        """The maximum number of connections, and whether they are persistent."""
        load = self.catalogue.load(OPEN)
        usual = defaults(by_name(load.settings)) if load else {}
        request = self.request
        return request.clients or int(usual["clients"]), request.connections or str(usual["connections"])

    def _load(self, kind: str, duration: int, more: Mapping[str, str]) -> dict[str, Any]:
        clients, connections = self._connections
        settings = {
            "clients": clients,
            "connections": connections,
            "duration": TIME.write(duration),
            "warm_up": TIME.write(math.ceil(duration / MILLISECOND * WARM_UP_SHARE) * MILLISECOND),
            **more,
        }
        return {"kind": kind, "processes": 1, "settings": settings}

    @cached_property
    def _contenders(self) -> list[dict[str, Any]]:
        """The tables of the designs.

        A design that serves one connection at a time gets a worker for each persistent connection.
        """
        request, catalogue, way = self.request, self.catalogue, self.catalogue.defaults.way
        basis = Basis(
            catalogue=catalogue, workload=self._workload, load=OPEN, design=catalogue.designs[0].name,
            server_way=way, load_way=way, side=None, lab=request.lab_keys().get("kind", USUAL.name),
            command=request.command,
        )  # fmt: skip
        clients, connections = self._connections
        found: list[dict[str, Any]] = []
        for typed in request.designs:
            table = contender(typed, basis, {})
            if "load" in table:
                hint = "give designs, with settings of their servers"
                raise request.refusal(typed, "the search has its own load", "knee.load_of_contender", hint)
            if connections == KEPT and (starved := with_workers(table, basis, clients)):
                message, hint = starved
                raise request.refusal(typed, message, "knee.too_few_workers", hint)
            found.append(table)
        names = [table["name"] for table in found]
        if twice := next((name for name in names if names.count(name) > 1), None):
            hint = "give each design once"
            raise request.refusal(twice, "it is given twice", "knee.design_repeated", hint)
        return found

    # Rates and lengths --------------------------------------------------------------------------------------

    def _rates(self, points: int, capacity: float | None) -> list[int]:
        rates = self.request.rates
        if rates is not None:
            option = f"--rates {rates}"
            first, dots, last = rates.partition("..")
            if not dots:
                hint = "give LOW..HIGH, such as 1k..50k"
                raise self.request.refusal(option, "not a range", "knee.invalid_rates", hint)
            low, high = (parse_quantity(each, f"knee: {option}") for each in (first, last))
            setting = self._rate_setting()
            if low >= high or (setting and not (setting.accepts(low) and setting.accepts(high))):
                allowed = setting.allowed() if setting else "a whole number above 0"
                hint = f"allowed: LOW below HIGH, each {allowed}, such as 1k..50k"
                raise self.request.refusal(option, "not a valid range of rates", "knee.invalid_rates", hint)
            return [int(rate) for rate in grid(low, high, points, whole=True)]
        assert capacity is not None, "either the rates are given, or each design was probed"
        width = HIGHEST_SHARE - LOWEST_SHARE
        shares = [HIGHEST_SHARE - width * (1 - each / (points - 1)) ** DENSER for each in range(points)]
        return sorted({max(1, _rounded(capacity * share)) for share in shares})

    def _rate_setting(self) -> Setting | None:
        load = self.catalogue.load(OPEN)
        return next((each for each in load.settings if each.name == "rate"), None) if load else None

    def _check_duration(self) -> None:
        """Check that a trial with its warm-up is no longer than a load may be."""
        load, given = self.catalogue.load(OPEN), self.request.nanoseconds
        shares = {"duration": 1.0, "warm_up": WARM_UP_SHARE}
        bounds = [each for each in load.settings if isinstance(each, IntegerSetting)] if load else []
        most = min(
            (int(each.maximum / shares[each.name]) for each in bounds if each.name in shares), default=None
        )
        if most is not None and given is not None and given > most:
            hint = f"allowed: at most {TIME.write(most)}"
            raise self.request.refusal(
                f"--duration {self.request.duration}", "a trial would be too long", "knee.too_long", hint
            )

    def _duration(self, goal: Goal, lowest: int) -> int:
        """Return the nanoseconds of a window, as requested or as the percentile needs at the lowest rate."""
        given = self.request.nanoseconds
        fewest = METRICS[goal.metric].fewest_requests
        requests = MARGIN * fewest + 20
        needed = math.ceil(1000 * requests / lowest) * MILLISECOND
        length = f"{needed // MILLISECOND:,} ms"
        if needed > LONGEST or (given and needed > given):
            least = math.ceil(requests / ((given or LONGEST) / 1e9))
            longer = f", or --duration {TIME.write(needed)}" if needed <= LONGEST else ""
            raise self.request.refusal(
                f"--{goal.option} {goal.text}",
                f"needs {fewest:,} requests per trial, or {length} at {lowest:,} requests per second",
                "knee.too_few_requests",
                f"give --rates from {least:,} upward{longer}, or a lower percentile",
            )
        return given or max(needed, (500 if self.request.quick else 1000) * MILLISECOND)

    def _blocks(self, designs: int) -> int:
        """Return enough blocks to compare each pair: the smallest p of n blocks is 2^(1-n)."""
        given = self.request.blocks
        least = max(6, math.ceil(1 + math.log2(max(1, math.comb(designs, 2)) / ALPHA)))
        if given is not None and given < least:
            raise self.request.refusal(
                f"--blocks {given}",
                f"too few blocks: with {count(designs, 'design')} no test can be significant",
                "knee.too_few_blocks",
                f"give {least} or more",
            )
        return given or max(least, 6 if self.request.quick else 10)


def _between(low: int, high: int) -> list[int]:
    """Return whole rates, evenly spaced on logarithms; fewer if there are not enough between the two."""
    steps = (each / (CONFIRMING - 1) for each in range(CONFIRMING))
    return sorted({max(1, round(low * (high / low) ** step)) for step in steps})


def _rounded(rate: float) -> int:
    """Return the rate to three digits."""
    return int(float(f"{rate:.3g}"))
