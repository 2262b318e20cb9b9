"""Comparing the clocks of very many hosts, and starting them together, over simulated paths.

The clocks are compared by `compared`, and the start is as far ahead as `start_ahead_ns` says, as in a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from common import SEED
from scale.merging import numbers_up_to
from scale.real import Calls
from thunderherd.engine.client import START_AHEAD_NS, start_ahead_ns
from thunderherd.hosts.cluster import PINGS_BEFORE_TRIAL
from thunderherd.statistics.clocks import Clock, Reading, compared
from thunderherd.trial.observation import LATE_SHARE

Times = NDArray[np.float64]
Path = Callable[[np.random.Generator, Times], tuple[Times, Times]]
"""Returns the delays to the host and back of calls with these round trips, in nanoseconds."""

REPEATED = 20
"""Simulated trials of each path and drift."""
BOOTS_NS = 10**15
"""Clocks differ by up to this much: 12 days between the boots of two hosts."""
DRIFTS = (0, 20, 500)
"""Parts per million: none, that of a usual crystal, and the fastest that NTP corrects a clock."""
QUEUE_SHARE, QUEUE_NS = 0.2, 1e6
"""The share of ways with a queue, and its mean."""


def symmetrical(drawn: np.random.Generator, round_trips: Times) -> tuple[Times, Times]:
    """Both ways take as long."""
    return round_trips / 2, round_trips / 2


def one_way(drawn: np.random.Generator, round_trips: Times) -> tuple[Times, Times]:
    """All of the delay but a tenth is on the way back."""
    return 0.1 * round_trips, 0.9 * round_trips


def queues(drawn: np.random.Generator, round_trips: Times) -> tuple[Times, Times]:
    """Either way has a queue now and then."""
    there, back = (
        round_trips / 2
        + drawn.exponential(QUEUE_NS, len(round_trips)) * (drawn.random(len(round_trips)) < QUEUE_SHARE)
        for _ in range(2)
    )
    return there, back


PATHS: Mapping[str, Path] = {
    "symmetrical": symmetrical,
    "a tenth there, the rest back": one_way,
    "with queues": queues,
}


@dataclass(frozen=True)
class Start:
    """One simulated trial: nanoseconds for each host."""

    errors: Times
    """How far the estimated clock was from the true one at the start."""
    claimed: Times
    """How far it could be off, by the lab's own error."""
    starts: Times
    """When it started, after the agreed time; the start was told in time."""
    starts_before: Times
    """The same if the start were `START_AHEAD_NS` ahead for any number of hosts."""
    seconds: float
    """From the first comparison of clocks to the start."""

    @property
    def too_small(self) -> float:
        """The share of hosts whose clock was off by more than claimed."""
        return float(np.mean(np.abs(self.errors) > self.claimed))


def simulated(drawn: np.random.Generator, calls: Calls, hosts: int, path: Path, ppm: float) -> Start:
    """Simulate one trial, from the comparison of the clocks to the start."""
    ahead = drawn.integers(-BOOTS_NS, BOOTS_NS, hosts)
    drift = drawn.uniform(-ppm, ppm, hosts) * 1e-6
    there, back = path(drawn, drawn.choice(calls.call, (hosts * PINGS_BEFORE_TRIAL)).astype(float))
    clocks, now = [], 0.0
    read_at = np.zeros(hosts)
    for host in range(hosts):
        readings = []
        for ping in range(host * PINGS_BEFORE_TRIAL, (host + 1) * PINGS_BEFORE_TRIAL):
            read = now + there[ping]
            shown = int(read * (1 + drift[host])) + int(ahead[host])
            readings.append(Reading(int(now), shown, int(read + back[ping])))
            now = read + back[ping]
        read_at[host] = now
        clocks.append(compared(readings))
    now += sum(drawn.choice(each, hosts).sum() for each in (calls.start_load, calls.connected))
    # Every call looks at all hosts.
    now += 2 * hosts * hosts * calls.check_ns
    there, back = path(drawn, drawn.choice(calls.call, hosts).astype(float))
    each_call = there + back + hosts * calls.check_ns
    told = np.cumsum(each_call) - back
    starts, errors = {}, np.zeros(0)
    for name, in_advance in {"now": start_ahead_of(clocks), "before": START_AHEAD_NS}.items():
        agreed = now + in_advance
        errors = np.array([each.ahead_ns - offset for each, offset in zip(clocks, ahead, strict=True)])
        errors = errors - agreed * drift
        late = drawn.choice(calls.late_ns, hosts)
        starts[name] = np.maximum(errors, told - in_advance) + late
    claimed = np.array([float(each.error_ns) for each in clocks])
    return Start(errors, claimed, starts["now"], starts["before"], (now + start_ahead_of(clocks)) / 1e9)


def start_ahead_of(clocks: list[Clock]) -> int:
    """Return how far ahead the start of these hosts is."""
    return start_ahead_ns([2 * each.error_ns for each in clocks])


def telling_ns(drawn: np.random.Generator, calls: Calls, hosts: int) -> float:
    """Return how long it takes to tell so many hosts of their start, one after another."""
    return float(drawn.choice(calls.call, hosts).sum() + hosts * hosts * calls.check_ns)


def most_hosts(calls: Calls, in_advance: Callable[[int], float]) -> int:
    """Return the most hosts that hear of a start that is so far ahead of them in time, in all trials."""

    def told(hosts: int) -> bool:
        drawn = np.random.default_rng(SEED)
        return all(telling_ns(drawn, calls, hosts) <= in_advance(hosts) for _ in range(REPEATED))

    low, high = 1, 2
    while high < 1 << 17 and told(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if told(middle) else (low, middle)
    return low


def show(calls: Calls, hosts: int) -> None:
    """Print the tables of preparation, clocks and starts, after their answer."""
    quickest = float(
        np.mean(
            [
                min(calls.call[at : at + PINGS_BEFORE_TRIAL])
                for at in range(0, len(calls.call), PINGS_BEFORE_TRIAL)
            ]
        )
    )
    fixed = most_hosts(calls, lambda number: START_AHEAD_NS)
    growing = most_hosts(calls, lambda number: start_ahead_ns([int(quickest)] * number))
    mean_call = float(np.mean(calls.call))
    print(
        f"The start of a trial scales to {growing:,} hosts: it is further ahead with every host. If it were "
        f"{START_AHEAD_NS / 1e6:.0f} ms ahead\nof any number, {fixed:,} would hear of it in time, since they "
        f"are told one after another, each in {mean_call / 1e6:.1f} ms.\n"
    )
    print(
        f"{'hosts':>8}{'clocks, s':>11}{'start loads, s':>16}{'all connected, s':>18}{'told of start, s':>18}"
        f"{'start ahead, s':>16}{'marks read, s':>15}{'shortest window, s':>20}"
    )
    for number in numbers_up_to(hosts):
        looked = number * calls.check_ns
        clocks, loads, connected, told, marks = (
            number * (time + looked * checked) / 1e9
            for time, checked in (
                (PINGS_BEFORE_TRIAL * mean_call, 0),
                (float(np.mean(calls.start_load)), 1),
                # The hosts work at the same time, so waits for them do not add up.
                (float(np.median(calls.connected)), 1),
                (mean_call, 1),
                (float(np.median(calls.mark)), 1),
            )
        )
        ahead = start_ahead_ns([int(quickest)] * number) / 1e9
        print(
            f"{number:>8,}{clocks:>11.2f}{loads:>16.2f}{connected:>18.2f}{told:>18.3f}{ahead:>16.2f}"
            f"{marks:>15.3f}{marks / LATE_SHARE:>20.2f}"
        )
    print(
        f"\nThe shortest window is the one of which the marks of all hosts take {LATE_SHARE:.0%}: the server "
        "is read after the last,\nand a later reading makes the trial invalid.\n"
    )
    print(
        f"{'path':<30}{'drift, ppm':>11}{'clock off, ms':>15}{'at most':>9}{'claimed, ms':>13}"
        f"{'claim too small':>17}{'skew, ms':>10}{'if 200 ms':>11}{'seconds':>9}"
    )
    for name, path in PATHS.items():
        for ppm in DRIFTS:
            drawn = np.random.default_rng(SEED)
            seen = [simulated(drawn, calls, hosts, path, ppm) for _ in range(REPEATED)]
            errors = np.abs(np.concatenate([each.errors for each in seen])) / 1e6
            claimed = np.concatenate([each.claimed for each in seen]) / 1e6
            skew, before = (
                float(np.median([np.ptp(starts) for starts in each])) / 1e6
                for each in ([s.starts for s in seen], [s.starts_before for s in seen])
            )
            print(
                f"{name:<30}{ppm:>11}{np.median(errors):>15.3f}{errors.max():>9.2f}{np.median(claimed):>13.3f}"
                f"{np.mean([each.too_small for each in seen]):>17.1%}{skew:>10.2f}{before:>11.1f}"
                f"{np.median([each.seconds for each in seen]):>9.1f}"
            )
    print(
        f"\n{hosts:,} hosts, {REPEATED} trials each. Seconds: from the first comparison of clocks to the "
        "start. Skew: from the first\nstart to the last.\n"
    )
