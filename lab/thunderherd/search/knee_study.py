"""The studies that a search for knees runs, as TOML: made from what the user typed.

The first asks each design in a short closed loop how many requests a second it answers at all; the rates of
the second are shares of that. Where the user gives the rates there is no first. The third has rates close
around the knees that the second has found. Each is a whole study file, so that `thunderherd run` runs it
again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from thunderherd.engine.catalogue import USUAL_WAY, Catalogue, IntegerSetting, Setting, by_name, defaults
from thunderherd.engine.lines import LoadResult
from thunderherd.errors import UserError
from thunderherd.labs import USUAL
from thunderherd.labs.words import OPTION
from thunderherd.metrics.table import METRICS
from thunderherd.search.contenders import Common, contender
from thunderherd.search.written_study import Typed
from thunderherd.statistics.crossings import grid
from thunderherd.study.file.tables import LabTable
from thunderherd.study.lab_option import read as read_lab
from thunderherd.study.labs import lab_of
from thunderherd.study.resolved import KEPT
from thunderherd.text.quantities import NoQuantity, in_units, parse_quantity
from thunderherd.toml.file import unknown
from thunderherd.toml.write import toml_text

__all__ = [
    "ALPHA",
    "Asked",
    "Goal",
    "confirmation_study",
    "goal_of",
    "knee_study",
    "probe_study",
    "requests_per_second",
    "sketched_study",
    "typed_keys",
]

TIMES = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""Units of a goal, in nanoseconds."""

ALPHA = 0.05
OPEN, CLOSED = "open", "closed_connections"
WAIT = "wait"
"""The setting of an open load that says whether it sleeps until a request is due."""

FARTHEST = 1.04
"""Of what a closed loop came to, the highest rate: a little too much, so that the knee lies within."""
NEAREST = 0.3
"""The lowest."""
DENSER = 1.6
"""Rates lie denser towards the capacity, where latency rises: the power that says how much."""
CONFIRMING = 5
"""Rates around a knee, at which it is looked for again."""
MOST_MILLISECONDS = 60_000
PROBES = 3
WARM_UP_SHARE = 0.25
MARGIN = 1.2
"""By so much more requests than a percentile takes, as a Poisson process may have fewer than expected."""


@dataclass(frozen=True)
class Asked:
    """What the user typed. None and empty stand for what was left out."""

    designs: tuple[str, ...]
    percentiles: Mapping[str, str | None]
    """By option without its dashes, the goal that was typed."""
    rates: str | None = None
    workload: str | None = None
    clients: int | None = None
    """The most connections; None, as for the next: as many as an open load has by default."""
    connections: str | None = None
    milliseconds: int | None = None
    points: int | None = None
    blocks: int | None = None
    quick: bool = False
    lab: tuple[str, ...] = ()


@dataclass(frozen=True)
class Goal:
    """A percentile and the time within which it is to stay."""

    option: str
    """As it was typed: `p99`."""
    text: str
    seconds: float

    @property
    def metric(self) -> str:
        """Its metric."""
        return f"latency_{self.option}_seconds"


def goal_of(asked: Asked) -> Goal:
    """The one goal. Raises UserError where there is none, or more than one, or it is no time."""
    given = [(name, text) for name, text in asked.percentiles.items() if text is not None]
    options = ", ".join(f"--{name}" for name in asked.percentiles)
    if len(given) != 1:
        what = "none is" if not given else " and ".join(f"--{name}" for name, _ in given) + " are"
        raise UserError(f"knee: a search has one goal, and {what} given; give one of {options}: --p99 2ms")
    name, text = given[0]
    allowed = "a time above 0 with its unit (ns, us, ms, s), such as 500us or 2ms"
    is_negative = text.lstrip().startswith("-")
    try:
        nanoseconds = in_units(text.lstrip()[is_negative:], TIMES)
    except NoQuantity as error:
        raise UserError(f"knee: --{name} {text}: {error}; allowed: {allowed}") from None
    if is_negative or nanoseconds <= 0:
        raise UserError(f"knee: --{name} {text}; allowed: {allowed}")
    return Goal(name, text, float(nanoseconds / Fraction(10**9)))


# The studies ------------------------------------------------------------------------------------------------


def probe_study(asked: Asked, catalogue: Catalogue) -> str:
    """Each design in a closed loop: how many requests a second it answers."""
    tables = _contenders(asked, catalogue)
    study = {
        **_common_tables(asked, catalogue),
        "name": "knee-probe",
        "title": "What each design answers in a closed loop",
        "question": "Between which rates is a knee to be looked for?",
        # Rates are read from it, and judged by nothing: a client that is the slower end is no fault here.
        "measure": {"metric": "server_cpu_per_request", "limits_milliseconds": 0},
        "load": _load(asked, catalogue, CLOSED, 300, {}),
        "sizes": {"quick": {"repetitions": PROBES}},
        "noise": {"steal_percent": 100, "foreign_percent": 100},
        "comparisons": {"all_pairs": False} if len(tables) == 1 else {},
        "contenders": tables,
    }
    return toml_text({key: value for key, value in study.items() if value})


def knee_study(asked: Asked, catalogue: Catalogue, capacities: Mapping[str, float] | None) -> str:
    """Each design at each of its rates. `capacities` are by contender, where the user gave no rates.

    Raises UserError for rates that are none, or at which a percentile would take too long.
    """
    tables = _contenders(asked, catalogue)
    points = asked.points or (5 if asked.quick else 8)
    rates = {
        each["name"]: _rates(asked, catalogue, points, (capacities or {}).get(each["name"]))
        for each in tables
    }
    return _study(asked, catalogue, tables, rates, "knee")


def sketched_study(asked: Asked, catalogue: Catalogue) -> str:
    """The same before anybody knows what the designs can do, at the highest rates that a load takes: what is
    wrong with it would be wrong at any others."""
    rate = _rate_setting(catalogue)
    most = (rate.maximum if isinstance(rate, IntegerSetting) else 1e6) / FARTHEST
    return knee_study(asked, catalogue, {each["name"]: most for each in _contenders(asked, catalogue)})


def confirmation_study(asked: Asked, catalogue: Catalogue, around: Mapping[str, tuple[int, int]]) -> str:
    """The designs for which a knee was found, at rates between these two, which lie to both sides of it."""
    tables = [each for each in _contenders(asked, catalogue) if each["name"] in around]
    rates = {name: _between(low, high) for name, (low, high) in around.items()}
    return _study(asked, catalogue, tables, rates, "knee-confirmation")


def _between(low: int, high: int) -> list[int]:
    """Whole rates, evenly on logarithms; fewer where there are not as many between the two."""
    steps = (each / (CONFIRMING - 1) for each in range(CONFIRMING))
    return sorted({max(1, round(low * (high / low) ** step)) for step in steps})


def _study(
    asked: Asked,
    catalogue: Catalogue,
    tables: Sequence[dict[str, Any]],
    rates: Mapping[str, Sequence[int]],
    name: str,
) -> str:
    goal = goal_of(asked)
    words = METRICS[goal.metric].words
    milliseconds = _milliseconds(asked, goal, min(min(each) for each in rates.values()))
    common = _common_tables(asked, catalogue)
    # A load that sleeps is late by a wake-up, which many machines take longer for than a load may be late.
    awake = {WAIT: catalogue.never_sleeps[WAIT]} if _has_own_cpus(common["lab"], catalogue) else {}
    study = {
        **common,
        "name": name,
        "title": f"The highest rate at which {goal.option} of the latency is at most {goal.text}",
        "question": f"Up to which rate is the {words} of each design at most {goal.text}?",
        "measure": {"metric": goal.metric, "overload": "counts", "limits_milliseconds": 0, "alpha": ALPHA},
        "load": _load(asked, catalogue, OPEN, milliseconds, awake),
        "sizes": {"quick": {"repetitions": _blocks(asked, len(asked.designs))}},
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
            for table in tables
        ],
    }
    return toml_text({key: value for key, value in study.items() if value})


def typed_keys(asked: Asked, catalogue: Catalogue) -> Typed:
    """The options of these studies' keys."""
    goal = goal_of(asked)
    options = {
        "server.workload": ("--workload", asked.workload),
        "load.settings.clients": ("--clients", asked.clients),
        "load.settings.connections": ("--connections", asked.connections),
        "load.settings.milliseconds": ("--milliseconds", asked.milliseconds),
        "measure.metric": (f"--{goal.option}", goal.text),
        "sizes.quick.repetitions": ("--blocks", asked.blocks),
    }
    keys = {key: option if value is None else f"{option} {value}" for key, (option, value) in options.items()}
    keys |= {f"lab.{key}": f"{OPTION} {text}" for text in asked.lab for key in read_lab([text])}
    for typed, table in zip(asked.designs, _contenders(asked, catalogue), strict=True):
        keys |= dict.fromkeys((f"contenders.{table['name']}", f"sweeps.{table['name']}"), typed)
        if asked.rates is not None:
            keys[f"sweeps.{table['name']}.values"] = f"--rates {asked.rates}"
    return Typed("knee", keys)


def requests_per_second(loads: Sequence[LoadResult]) -> float:
    """Replies a second in the windows of a trial's load processes."""
    return sum(load.window.requests_per_second for load in loads if load.window is not None)


def _common_tables(asked: Asked, catalogue: Catalogue) -> dict[str, Any]:
    _check_milliseconds(asked, catalogue)
    lab = read_lab(asked.lab, command="knee: ")
    if len(os.sched_getaffinity(0)) > 1 and not {"placement", "server_cpus", "client_cpus"} & lab.keys():
        lab["placement"] = "apart"  # a load that shares its server's CPU is late whenever that is busy
    return {"server": {"workload": _workload(asked, catalogue)}, "lab": lab}


def _has_own_cpus(lab: Mapping[str, Any], catalogue: Catalogue) -> bool:
    """Whether its clients are on CPUs that their server has no part in."""
    try:
        placed = lab_of(LabTable(**lab), catalogue)
    except ValidationError:
        return False  # the study is refused for it
    server, clients = set(placed.server_cpus or ()), set(placed.client_cpus or ())
    return bool(server and clients) and not server & clients


def _workload(asked: Asked, catalogue: Catalogue) -> str:
    known = [each.name for each in catalogue.workloads if each.measured_by == "requests"]
    name = asked.workload or known[0]
    if name not in known:
        raise UserError(f"knee: {unknown('workload that is asked request by request', name, known)}")
    return name


def _connections(asked: Asked, catalogue: Catalogue) -> tuple[int, str]:
    """How many there are at the most, and whether they are kept."""
    load = catalogue.load(OPEN)
    usual = defaults(by_name(load.settings)) if load else {}
    return asked.clients or int(usual["clients"]), asked.connections or str(usual["connections"])


def _load(
    asked: Asked, catalogue: Catalogue, kind: str, milliseconds: int, more: Mapping[str, str]
) -> dict[str, Any]:
    clients, connections = _connections(asked, catalogue)
    settings = {
        "clients": clients,
        "connections": connections,
        "milliseconds": milliseconds,
        "warm_up_milliseconds": math.ceil(milliseconds * WARM_UP_SHARE),
        **more,
    }
    return {"kind": kind, "processes": 1, "settings": settings}


def _contenders(asked: Asked, catalogue: Catalogue) -> list[dict[str, Any]]:
    """The tables of the designs, with as many workers as there are connections where these are kept: a worker
    that serves one connection at a time has none left for the others."""
    way = USUAL_WAY
    common = Common(
        catalogue=catalogue, workload=_workload(asked, catalogue), load=OPEN,
        design=catalogue.designs[0].name, server_way=way, load_way=way, side=None,
        lab=read_lab(asked.lab, command="knee: ").get("kind", USUAL.name), command="knee",
    )  # fmt: skip
    clients, connections = _connections(asked, catalogue)
    found: list[dict[str, Any]] = []
    for typed in asked.designs:
        table = contender(typed, common, {})
        if "load" in table:
            raise UserError(f"knee: {typed}: the load is the search's own; give designs, with their settings")
        design = catalogue.design(table["design"])
        if connections == KEPT and design and design.serves_one_by_one:
            known = common.settings_of_server(table)
            settings = table.setdefault("settings", {})
            if (workers := design.most_workers) and isinstance(usual := known[workers], IntegerSetting):
                settings.setdefault(workers, min(max(usual.default, clients), usual.maximum))
            if why := design.starved(clients, settings):
                raise UserError(f"knee: {typed}: {why}")
        found.append(table)
    names = [table["name"] for table in found]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"knee: {twice} is given twice; give each design once")
    return found


# Rates and lengths ------------------------------------------------------------------------------------------


def _rates(asked: Asked, catalogue: Catalogue, points: int, capacity: float | None) -> list[int]:
    if asked.rates is not None:
        first, dots, last = asked.rates.partition("..")
        option = f"knee: --rates {asked.rates}"
        if not dots:
            raise UserError(f"{option}: it takes LOW..HIGH, such as 1k..50k")
        low, high = (parse_quantity(each, option) for each in (first, last))
        setting = _rate_setting(catalogue)
        if low >= high or (setting and not (setting.accepts(low) and setting.accepts(high))):
            allowed = setting.allowed() if setting else "a whole number above 0"
            raise UserError(f"{option}: allowed: LOW below HIGH, each {allowed}, such as 1k..50k")
        return [int(rate) for rate in grid(low, high, points, whole=True)]
    assert capacity is not None, "either the rates are given, or each design was probed"
    shares = [FARTHEST - (FARTHEST - NEAREST) * (1 - each / (points - 1)) ** DENSER for each in range(points)]
    return sorted({max(1, _rounded(capacity * share)) for share in shares})


def _rate_setting(catalogue: Catalogue) -> Setting | None:
    load = catalogue.load(OPEN)
    return next((each for each in load.settings if each.name == "rate"), None) if load else None


def _rounded(rate: float) -> int:
    """To three digits."""
    return int(float(f"{rate:.3g}"))


def _check_milliseconds(asked: Asked, catalogue: Catalogue) -> None:
    """A trial and its warm-up are no longer than a load may be."""
    load = catalogue.load(OPEN)
    shares = {"milliseconds": 1.0, "warm_up_milliseconds": WARM_UP_SHARE}
    bounds = [each for each in load.settings if isinstance(each, IntegerSetting)] if load else []
    most = min(
        (int(each.maximum / shares[each.name]) for each in bounds if each.name in shares), default=None
    )
    if most is not None and asked.milliseconds is not None and asked.milliseconds > most:
        raise UserError(f"knee: --milliseconds {asked.milliseconds}; allowed: at most {most}")


def _milliseconds(asked: Asked, goal: Goal, lowest: int) -> int:
    """How long a trial measures: as asked, but as long as the percentile takes at the lowest rate."""
    fewest = METRICS[goal.metric].fewest_requests
    requests = MARGIN * fewest + 20
    needed = math.ceil(1000 * requests / lowest)
    if needed > MOST_MILLISECONDS or (asked.milliseconds and needed > asked.milliseconds):
        least = math.ceil(1000 * requests / (asked.milliseconds or MOST_MILLISECONDS))
        raise UserError(
            f"knee: --{goal.option} takes {fewest:,} requests in a trial, at {lowest:,} a second {needed:,} "
            f"ms; give --rates from {least:,} upward"
            + (f", or --milliseconds {needed}" if needed <= MOST_MILLISECONDS else "")
            + ", or a lower percentile"
        )
    return asked.milliseconds or max(needed, 500 if asked.quick else 1000)


def _blocks(asked: Asked, designs: int) -> int:
    """So many that each pair can be told apart: the smallest p of n blocks is 2^(1-n)."""
    least = max(6, math.ceil(1 + math.log2(max(1, math.comb(designs, 2)) / ALPHA)))
    if asked.blocks is not None and asked.blocks < least:
        raise UserError(
            f"knee: --blocks {asked.blocks} are too few: with {designs} designs nothing could be shown; give "
            f"{least} or more"
        )
    return asked.blocks or max(least, 6 if asked.quick else 10)
