"""Round trips of a byte on one connection: ours compared with netperf, neper and sockperf.

There are three kinds, each compared separately. In the first, both sides sleep in their calls on a CPU each,
so that every message wakes a process on another CPU. In the second, both sleep on the same CPU. In the third,
both busy-poll on a CPU each. Some rounds choose the best form of each side, others judge it (METHODOLOGY.md).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from common import MILLISECOND, milliseconds
from compare import peers
from compare.contest import Comparison, Contest, Seen, held, middle
from compare.echoes import WARM_UP_MILLISECONDS, echoes, labelled, short
from compare.places import NAMES, Place, place
from streams import PEER_SECONDS
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.labs import USUAL

OTHER_SECONDS = 0.3
APART, TOGETHER, SPINNING = "sleeping, two CPUs", "sleeping, one CPU", "spinning, two CPUs"


@dataclass(frozen=True)
class Form:
    """A send and a receive primitive of ours."""

    primitive: str
    receive: str

    @property
    def name(self) -> str:
        return f"{self.primitive}, {self.receive}"


KINDS: dict[str, tuple[tuple[Form, ...], tuple[peers.Peer, ...]]] = {
    APART: ((Form("send_each", "recv"), Form("write_each", "recv_exact")), peers.BLOCKING),
    TOGETHER: ((Form("send_each", "recv"), Form("write_each", "recv_exact")), peers.BLOCKING),
    SPINNING: ((Form("send_each", "busy_poll"), Form("write_each", "busy_poll")), peers.SPINNING),
}
"""Kind → our forms, and the peers."""
AGAINST_SLEEPING = "spinning : sleeping"
"""Our best busy-polling form compared with the best sleeping peer, on two CPUs."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument(
        "--places",
        nargs="+",
        choices=NAMES,
        default=[USUAL.name],
        help=f"places of the comparison (default: {USUAL.name})",
    )
    parser.add_argument(
        "--congestion", default="cubic", help="congestion control of both sides (default: %(default)s)"
    )
    parser.add_argument(
        "--choosing", type=int, default=3, help="rounds that choose the forms (default: %(default)s)"
    )
    parser.add_argument(
        "--judging", type=int, default=6, help="rounds that judge the chosen forms (default: %(default)s)"
    )
    parser.add_argument(
        "--duration",
        dest="milliseconds",
        type=milliseconds,
        default="400ms",
        metavar="TIME",
        help="length of our window in rounds that judge (default: %(default)s)",
    )


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration."""
    mine = (given.milliseconds + WARM_UP_MILLISECONDS) / 1000 + OTHER_SECONDS
    total = 0.0
    for forms, others in KINDS.values():
        here = sum(peer.missing() is None for peer in others)
        total += given.choosing * (len(forms) * mine + here * (PEER_SECONDS + OTHER_SECONDS))
        total += given.judging * (mine + min(here, 1) * (PEER_SECONDS + OTHER_SECONDS))
    return total * len(given.places)


def not_here() -> list[str]:
    """Describe what is missing on this machine, and how to install it."""
    return peers.missing((*peers.BLOCKING, *peers.SPINNING))


def run(given: argparse.Namespace) -> None:
    """Measure and print the tables."""
    for name in given.places:
        with place(name, given.congestion) as where:
            show(cell(where, given), where, given)


def comparisons() -> list[Comparison]:
    """Return a comparison for each kind, and our best busy-polling form against the best sleeping peer."""
    names = {
        kind: (
            tuple(labelled(kind, form.name) for form in forms),
            tuple(labelled(kind, peer.name) for peer in others if peer.missing() is None),
        )
        for kind, (forms, others) in KINDS.items()
    }
    each = [Comparison(kind, mine, theirs) for kind, (mine, theirs) in names.items()]
    return [*each, Comparison(AGAINST_SLEEPING, names[SPINNING][0], names[APART][1])]


def cell(where: Place, given: argparse.Namespace) -> Contest:
    """Run all kinds in the same rounds, so that busy-polling and sleeping forms can be compared, too."""
    forms = {labelled(kind, form.name): (kind, form) for kind, (mine, _) in KINDS.items() for form in mine}
    others = {
        labelled(kind, peer.name): (kind, peer) for kind, (_, theirs) in KINDS.items() for peer in theirs
    }

    def measured(name: str, _choosing: bool) -> Seen:
        kind, form = forms[name] if name in forms else others[name]
        there = where.on_one_cpu() if kind == TOGETHER else where
        if isinstance(form, Form):
            return ours(form, there, given.milliseconds, given.congestion)
        return Seen(form.run(peers.Run(there, 1, PEER_SECONDS, given.congestion)))

    return held(comparisons(), measured, given.choosing, given.judging, where.name)


def ours(form: Form, where: Place, milliseconds: int, congestion: str) -> Seen:
    """Measure echoes of one byte on one persistent connection, one after another."""
    settings: dict[str, SettingValue] = {
        "bytes": 1,
        "clients": 1,
        "connections": "kept",
        "duration": milliseconds * MILLISECOND,
    }
    return echoes(
        form.name,
        where,
        design="thread_per_client",
        load="closed_threads",
        settings=settings,
        congestion=congestion,
        primitive=form.primitive,
        receive=form.receive,
    )


def show(contest: Contest, where: Place, given: argparse.Namespace) -> None:
    """Print a row for each kind, and every form that was tried."""
    print(
        f"Round trips of one byte a second, {where.title}, {given.congestion}: the median of {given.judging} "
        "rounds (least..most)\nthat had no part in choosing the forms\n"
    )
    print(f"{'':22}{'ours':>24}{'':26}{'best peer':>30}{'':26}{'ours : peer':>24}")
    for outcome in contest.outcomes:
        mine, theirs = outcome.ours, outcome.peer
        print(
            f"{outcome.comparison.name:22}{short(mine):>24}{figure(contest, mine):>26}"
            f"{remarked(theirs, where, given):>30}{figure(contest, theirs):>26}"
            f"{contest.compared(mine, theirs):>24}{outcome.why_alone and f'  {outcome.why_alone}'}"
        )
    print(f"\nAll forms: median of the {given.choosing} rounds that chose, a second\n")
    for name, seen in sorted(contest.choosing.items()):
        value = middle(seen)
        print(f"{name:50}{value:>10,.0f}{1e6 / value:>10.1f} µs")
    print(f"\nsockperf sends {peers.SOCKPERF_LEAST} bytes, its smallest message")
    for name, reason in contest.failed.items():
        print(f"{name}: {reason}")
    for reason in not_here():
        print(f"missing: {reason}")
    print(flush=True)


def figure(contest: Contest, name: str | None) -> str:
    """Write the round trips per second of a form, if there is one."""
    return contest.figure(name, 1, 0)


def remarked(name: str | None, where: Place, given: argparse.Namespace) -> str:
    """Write a peer's name, with its congestion control if it is not the chosen one."""
    return short(name) + peers.other_congestion(short(name), where, given.congestion)
