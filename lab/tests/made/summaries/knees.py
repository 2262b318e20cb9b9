"""Searches for knees that never happened."""

from __future__ import annotations

from itertools import combinations

from thunderherd.records.knee import DesignKnee, KneePair, KneePoint, KneeSummary

KNEES = {"epoll": 12_400.0, "prefork": 8_900.0, "thread_per_client": 4_100.0}
RATES = (1000, 2115, 4472, 9457, 20_000)
GOAL = 0.005
LATE = (
    "invalid in 3 of {} blocks; last: load: send_lag = {} ms, allowed: at most {} µs: time by which one "
    "request in a hundred was sent late, at least: the load itself was late; keep other work off its CPU"
)


def _point(rate: int, knee: float) -> KneePoint:
    latency = None if rate > 2 * knee else GOAL * (rate / knee) ** 1.5
    ends = (None, None) if latency is None else (0.9 * latency, 1.2 * latency)
    return KneePoint(
        rate=rate, latency_seconds=latency, low=ends[0], high=ends[1], trials=10,
        overloaded=10 if latency is None else 0,
    )  # fmt: skip


def _design(name: str) -> DesignKnee:
    knee = KNEES[name]
    return DesignKnee(
        name=name, outcome="one", rate=knee, low=0.94 * knee, high=1.03 * knee, confidence=0.978, blocks=10,
        between_rates=2 if name == "prefork" else 0, points=[_point(rate, knee) for rate in RATES],
        left_out={40_000: LATE.format(5, 7.9, 313)} if name == "epoll" else {}, why=None,
    )  # fmt: skip


def _late(name: str) -> DesignKnee:
    left_out = {rate: LATE.format(3 + place, 7.05 + place, 105 + place) for place, rate in enumerate(RATES)}
    left_out[40_000] = "the load already failed at 1,000"
    why = f"even at 1,000 requests a second the load did not measure its server: {left_out[1000]}"
    return DesignKnee(
        name=name, outcome=None, rate=None, low=None, high=None, confidence=None, blocks=6, between_rates=0,
        points=[], left_out=left_out, why=why,
    )  # fmt: skip


def _pair(a: str, b: str) -> KneePair:
    ratio = KNEES[a] / KNEES[b]
    return KneePair(
        a=a, b=b, ratio=ratio, low=0.94 * ratio, high=1.04 * ratio, confidence=0.978, p_adjusted=0.006,
        p_equivalent_adjusted=1.0, verdict="higher", blocks=10,
    )  # fmt: skip


def made_knees(*names: str, late: bool = False) -> KneeSummary:
    """The knees of these designs, in the order of their rates; with `late`, no load kept its schedule."""
    designs = [(_late if late else _design)(name) for name in names]
    notes = [
        "latency is that of an open loop, from when a request was due, even if earlier ones had no reply yet",
        *(
            f"{each.name}@{each.name}={rate} was given up: {why}"
            for each in designs
            for rate, why in each.left_out.items()
        ),
    ]
    return KneeSummary(
        workload="bytes", metric="latency_p99_seconds", goal_seconds=GOAL, alpha=0.05, equivalence_percent=3,
        seed=7, command=["thunderherd", "knee", *names], capacities=None, notes=notes, designs=designs,
        pairs=[] if late else [_pair(a, b) for a, b in combinations(names, 2)],
    )  # fmt: skip
