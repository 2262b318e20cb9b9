"""Small requests on many connections at a time: our server and load compared with neper and with netbench.

There are three kinds, each compared separately. Connections are persistent, or each request has a connection.
The client ends it with RST, or with FIN, and then keeps the port in TIME_WAIT. With FIN our load uses several
source addresses, so that ports do not limit it.

There are two arrangements. In one, each side has a thread and a CPU. In the other, both sides have a thread
on each of the two CPUs, and a connection stays on one CPU. There our server steers connections by CPU and has
two loads. For a peer, the benchmark starts a server and a client on each CPU, since no peer does this itself.
Both sides are compared in the same arrangement. In addition, our best form, whose client may discard replies
in the kernel, is compared with the best peer in the first arrangement.

Our server sleeps until a request comes, as the peers' do, or busy-polls, since waking it costs the client
time. Our client does the same. Some rounds choose the best form of each side, others judge it. METHODOLOGY.md
has more.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from common import MILLISECOND, milliseconds
from compare import peers
from compare.contest import Comparison, Contest, Seen, held, middle
from compare.echoes import WARM_UP_MILLISECONDS, echoes, labelled, short
from compare.places import NAMES, OWN_LOOPBACK, Place, place
from streams import PEER_SECONDS
from thunderherd.engine.setting_rules import SettingValue

OTHER_SECONDS = 0.4
KEPT, RESET, FIN = "connections kept", "connection each, RST", "connection each, FIN"
ENDS = {KEPT: "fin", RESET: "reset", FIN: "fin"}
"""The way in which our clients close connections."""


@dataclass(frozen=True)
class Form:
    """A server of ours with a client of ours."""

    design: str
    back_end: str
    wait: str | None = None
    """The server's way of waiting; None for its default."""
    on_each_cpu: bool = False
    """Both sides are on both CPUs, and a connection stays on one CPU."""
    taking: str | None = None
    """The receive primitive of a client that discards replies."""

    @property
    def name(self) -> str:
        how = f" {self.wait}s" if self.wait else peers.ON_EACH_CPU if self.on_each_cpu else ""
        return f"{self.design}{how}, load {self.back_end}" + (f" {self.taking}" if self.taking else "")

    @property
    def is_alike(self) -> bool:
        """True if its client reads replies, as peers do."""
        return self.taking is None


WAITING, STEERING, NEVER_SLEEPS = ("epoll", "io_uring"), ("reuseport", "polling"), "polling"
"""Our designs on one CPU, which may sleep or busy-poll; those on each CPU; and the one that always
busy-polls."""
SOURCES = 8
"""Source addresses of our clients that keep ports in TIME_WAIT."""
BY_FIN = (
    f"With FIN ours connect from {SOURCES} addresses and a peer from one. Its ports in TIME_WAIT may limit "
    "it,\nso those ratios do not compare costs."
)
WAITS, BACK_ENDS = ("sleep", "spin"), ("epoll", "io_uring", "polling")
KINDS: dict[str, tuple[peers.Peer, ...]] = {
    KEPT: peers.MANY_KEPT,
    RESET: peers.MANY_RESET,
    FIN: peers.MANY_FIN,
}
WORDS = {"kept": KEPT, "reset": RESET, "fin": FIN}
"""The options that name the kinds."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument(
        "--kinds", nargs="+", choices=WORDS, default=[*WORDS], help="kinds of connections (default: all)"
    )
    parser.add_argument(
        "--places",
        nargs="+",
        choices=NAMES,
        default=[OWN_LOOPBACK],
        help=f"places of the comparison (default: {OWN_LOOPBACK})",
    )
    parser.add_argument(
        "--congestion", default="reno", help="congestion control of both sides (default: %(default)s)"
    )
    parser.add_argument(
        "--bytes", type=int, default=64, help="bytes of a request and of its reply (default: %(default)s)"
    )
    parser.add_argument(
        "--waits", nargs="+", choices=WAITS, default=WAITS, help="how our servers wait (default: both)"
    )
    parser.add_argument(
        "--choosing", type=int, default=3, help="rounds that choose the forms (default: %(default)s)"
    )
    parser.add_argument(
        "--judging", type=int, default=7, help="rounds that judge the chosen forms (default: %(default)s)"
    )
    parser.add_argument(
        "--duration",
        dest="milliseconds",
        type=milliseconds,
        default="1s",
        metavar="TIME",
        help="length of our window (default: %(default)s)",
    )


def kinds_of(given: argparse.Namespace) -> list[str]:
    """Return the requested kinds."""
    return [kind for word, kind in WORDS.items() if word in given.kinds]


def forms_of(given: argparse.Namespace) -> list[Form]:
    """Return our forms."""
    forms = [Form(*each) for each in product(WAITING, BACK_ENDS, given.waits)]
    forms += [Form(NEVER_SLEEPS, back_end) for back_end in BACK_ENDS]
    forms += [Form(*each, on_each_cpu=True) for each in product(STEERING, BACK_ENDS)]
    forms += [Form(NEVER_SLEEPS, "polling", on_each_cpu=True, taking="recv_truncate")]
    return [form for form in forms if form.design != NEVER_SLEEPS or "spin" in given.waits]


def peers_of(kind: str) -> list[peers.Peer]:
    """Return the installed peers, as usual and on each CPU."""
    here = [peer for peer in KINDS[kind] if peer.missing() is None]
    return [*here, *map(peers.on_each_cpu, here)]


def comparisons_of(kind: str, given: argparse.Namespace) -> list[Comparison]:
    """Return the comparisons in both arrangements, and of our best form with the peers as usual."""
    forms, others = forms_of(given), [peer.name for peer in peers_of(kind)]

    def comparison(name: str, of_ours: Sequence[Form], of_peers: Sequence[str]) -> Comparison:
        mine, theirs = [form.name for form in of_ours], of_peers
        return Comparison(name, *(tuple(labelled(kind, each) for each in side) for side in (mine, theirs)))

    alike = [form for form in forms if form.is_alike]
    on_each = [each for each in others if each.endswith(peers.ON_EACH_CPU)]
    as_they_come = [each for each in others if each not in on_each]
    return [
        comparison(f"{kind}: a CPU a side", [form for form in alike if not form.on_each_cpu], as_they_come),
        comparison(f"{kind}: both on each", [form for form in alike if form.on_each_cpu], on_each),
        comparison(f"{kind}: our best", forms, as_they_come),
    ]


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration."""
    mine = (given.milliseconds + WARM_UP_MILLISECONDS) / 1000 + OTHER_SECONDS
    total = 0.0
    for kind in kinds_of(given):
        here = len(peers_of(kind))
        total += given.choosing * (len(forms_of(given)) * mine + here * (PEER_SECONDS + OTHER_SECONDS))
        total += given.judging * (3 * mine + min(here, 2) * (PEER_SECONDS + OTHER_SECONDS))
    return total * len(given.places)


def not_here() -> list[str]:
    """Describe what is missing on this machine, and how to install it."""
    return peers.missing([peer for others in KINDS.values() for peer in others])


def run(given: argparse.Namespace) -> None:
    """Measure and print the tables."""
    for name in given.places:
        with place(name, given.congestion) as where:
            show(cell(where, given), where, given)


def cell(where: Place, given: argparse.Namespace) -> Contest:
    """Run all kinds in the same rounds."""
    kinds = kinds_of(given)
    forms = {labelled(kind, form.name): (kind, form) for kind in kinds for form in forms_of(given)}
    others = {labelled(kind, peer.name): peer for kind in kinds for peer in peers_of(kind)}

    def measured(name: str, _choosing: bool) -> Seen:
        if name in forms:
            return ours(*forms[name], where, given)
        return Seen(others[name].run(peers.Run(where, given.bytes, PEER_SECONDS, given.congestion)))

    comparisons = [each for kind in kinds for each in comparisons_of(kind, given)]
    return held(comparisons, measured, given.choosing, given.judging, where.name)


def ours(kind: str, form: Form, where: Place, given: argparse.Namespace) -> Seen:
    """Measure echoes on as many connections at a time."""
    cpus = where.cpus if form.on_each_cpu else []
    serving: dict[str, SettingValue] = {"wait": form.wait} if form.wait else {}
    if cpus:
        serving |= {"pool": len(cpus), "steer": "cpu"}
    settings: dict[str, SettingValue] = {
        "bytes": given.bytes,
        "clients": peers.FLOWS // max(len(cpus), 1),
        "connections": "kept" if kind == KEPT else "per_request",
        "closing": ENDS[kind],
        "source_addresses": SOURCES if kind == FIN else 1,
        "back_end": form.back_end,
        "duration": given.milliseconds * MILLISECOND,
    }
    return echoes(
        form.name,
        where.both_on(cpus) if cpus else where,
        design=form.design,
        serving=serving,
        load="closed_connections",
        settings=settings,
        congestion=given.congestion,
        taking=form.taking,
        load_sides=[where.client.on([cpu]) for cpu in cpus],
    )


def show(contest: Contest, where: Place, given: argparse.Namespace) -> None:
    """Print a row for each comparison, and every form that was tried."""
    print(
        f"Requests of {given.bytes} bytes a second, on {peers.FLOWS} connections at a time, {where.title}, "
        f"{given.congestion}:\nmedian and range of {given.judging} rounds that had no part in choosing the "
        "forms\n"
    )
    print(f"{'':36}{'ours':>42}{'':28}{'best peer':>40}{'':28}{'ours : peer':>20}")
    for outcome in contest.outcomes:
        mine, theirs = outcome.ours, outcome.peer
        peer = short(theirs) + peers.other_congestion(short(theirs), where, given.congestion)
        print(
            f"{outcome.comparison.name:36}{short(mine):>42}{contest.figure(mine, 1, 0):>28}"
            f"{peer:>40}{contest.figure(theirs, 1, 0):>28}"
            f"{contest.compared(mine, theirs):>20}{outcome.why_alone and f'  {outcome.why_alone}'}"
        )
    if "fin" in given.kinds:
        print(f"\n{BY_FIN}")
    print(f"\nAll forms: median of the {given.choosing} rounds that chose, a second\n")
    for name, seen in sorted(contest.choosing.items()):
        print(f"{name:60}{middle(seen):>10,.0f}")
    for name, reason in contest.failed.items():
        print(f"{name}: {reason}")
    for reason in peers.missing([peer for kind in kinds_of(given) for peer in KINDS[kind]]):
        print(f"missing: {reason}")
    print(flush=True)
