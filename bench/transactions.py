"""Small requests on many connections at a time, ours on both sides beside neper and netbench on both sides.

Each side has a thread and a CPU. Three kinds, which are not to be mixed up: connections are kept; or each
request has one of its own, which its client ends with RST, or with FIN, and then keeps the port in TIME_WAIT.
A server of ours sleeps until something comes, as the peers' do, or spins: to wake it is the client's work. So
does a client of ours, or it polls.
Some rounds choose the best form of each side, others judge it. METHODOLOGY.md has more.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import product

import peers
from contest import Comparison, Contest, Seen, held, middle
from echoes import WARM_UP_MILLISECONDS, echoes, labelled, short
from places import NAMES, Place, place
from streams import PEER_SECONDS
from thunderherd.agreements import SettingValue
from thunderherd.labs import USUAL

OTHER_SECONDS = 0.4
KEPT, RESET, FIN = "connections kept", "connection each, RST", "connection each, FIN"
ENDS = {KEPT: "fin", RESET: "reset", FIN: "fin"}
"""How our clients end their connections."""


@dataclass(frozen=True)
class Form:
    """One of our servers with one of our clients."""

    design: str
    wait: str
    """How the server waits."""
    back_end: str

    @property
    def name(self) -> str:
        return f"{self.design} {self.wait}s, load {self.back_end}"


DESIGNS, WAITS, BACK_ENDS = ("epoll", "io_uring"), ("sleep", "spin"), ("epoll", "io_uring", "polling")
KINDS: dict[str, tuple[peers.Peer, ...]] = {
    KEPT: peers.MANY_KEPT,
    RESET: peers.MANY_RESET,
    FIN: peers.MANY_FIN,
}


def options(parser: argparse.ArgumentParser) -> None:
    """What may be asked of it."""
    parser.add_argument(
        "--places", nargs="+", choices=NAMES, default=[USUAL.name], help=f"default: {USUAL.name}"
    )
    parser.add_argument("--congestion", default="cubic", help="for both sides (default: %(default)s)")
    parser.add_argument(
        "--bytes", type=int, default=64, help="of a request and its reply (default: %(default)s)"
    )
    parser.add_argument(
        "--waits", nargs="+", choices=WAITS, default=WAITS, help="how our servers wait (default: either way)"
    )
    parser.add_argument("--choosing", type=int, default=3, help="rounds that choose (default: %(default)s)")
    parser.add_argument("--judging", type=int, default=7, help="rounds that judge (default: %(default)s)")
    parser.add_argument(
        "--milliseconds", type=int, default=1000, help="window of ours (default: %(default)s)"
    )


def forms_of(given: argparse.Namespace) -> list[Form]:
    """Ours that are tried."""
    return [Form(*each) for each in product(DESIGNS, given.waits, BACK_ENDS)]


def seconds(given: argparse.Namespace) -> float:
    """How long it will take."""
    mine = (given.milliseconds + WARM_UP_MILLISECONDS) / 1000 + OTHER_SECONDS
    total = 0.0
    for others in KINDS.values():
        here = sum(peer.missing() is None for peer in others)
        total += given.choosing * (len(forms_of(given)) * mine + here * (PEER_SECONDS + OTHER_SECONDS))
        total += given.judging * (mine + min(here, 1) * (PEER_SECONDS + OTHER_SECONDS))
    return total * len(given.places)


def not_here() -> list[str]:
    """What will be missing, and why."""
    return peers.missing([peer for others in KINDS.values() for peer in others])


def run(given: argparse.Namespace) -> None:
    """Measures, and prints its tables."""
    for name in given.places:
        with place(name, given.congestion) as where:
            show(cell(where, given), where, given)


def cell(where: Place, given: argparse.Namespace) -> Contest:
    """All kinds together."""
    forms = {labelled(kind, form.name): (kind, form) for kind in KINDS for form in forms_of(given)}
    others = {
        labelled(kind, peer.name): peer
        for kind, theirs in KINDS.items()
        for peer in theirs
        if peer.missing() is None
    }

    def measured(name: str, _choosing: bool) -> Seen:
        if name in forms:
            return ours(*forms[name], where, given)
        return Seen(others[name].run(peers.Run(where, given.bytes, PEER_SECONDS, given.congestion)))

    comparisons = [
        Comparison(
            kind,
            tuple(labelled(kind, form.name) for form in forms_of(given)),
            tuple(labelled(kind, peer.name) for peer in theirs if peer.missing() is None),
        )
        for kind, theirs in KINDS.items()
    ]
    return held(comparisons, measured, given.choosing, given.judging, where.name)


def ours(kind: str, form: Form, where: Place, given: argparse.Namespace) -> Seen:
    """Echoes on as many connections at a time."""
    settings: dict[str, SettingValue] = {
        "bytes": given.bytes,
        "clients": peers.FLOWS,
        "connections": "kept" if kind == KEPT else "per_request",
        "closing": ENDS[kind],
        "back_end": form.back_end,
        "milliseconds": given.milliseconds,
    }
    return echoes(
        form.name,
        where,
        design=form.design,
        serving={"wait": form.wait},
        load="closed_connections",
        settings=settings,
        congestion=given.congestion,
    )


def show(contest: Contest, where: Place, given: argparse.Namespace) -> None:
    """A row for each kind, and every form that was tried."""
    print(
        f"Requests of {given.bytes} bytes a second, on {peers.FLOWS} connections at a time, {where.title}, "
        f"{given.congestion}:\nthe median of {given.judging} rounds (least..most) apart from the choice\n"
    )
    print(f"{'':22}{'ours':>26}{'':30}{'best peer':>30}{'':30}{'ours : peer':>24}")
    for outcome in contest.outcomes:
        mine, theirs = outcome.ours, outcome.peer
        peer = short(theirs) + peers.other_congestion(short(theirs), where, given.congestion)
        print(
            f"{outcome.comparison.name:22}{short(mine):>26}{contest.figure(mine, 1, 0):>30}"
            f"{peer:>30}{contest.figure(theirs, 1, 0):>30}"
            f"{contest.compared(mine, theirs):>24}{outcome.why_alone and f'  {outcome.why_alone}'}"
        )
    print(f"\nAll forms: median of the {given.choosing} rounds that chose, a second\n")
    for name, seen in sorted(contest.choosing.items()):
        print(f"{name:60}{middle(seen):>10,.0f}")
    for name, reason in contest.failed.items():
        print(f"{name}: {reason}")
    for reason in not_here():
        print(f"not here: {reason}")
    print(flush=True)
