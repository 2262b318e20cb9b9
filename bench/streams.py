"""One TCP stream by message size, on loopback and over veth: ours compared with iperf3, netperf and neper.

Server and client have a CPU each and the same congestion control. Peers run in the same namespaces. Some
rounds choose the best form of each side, others judge it. Four comparisons separate the reasons of a gain:
one call a message, copied at both ends; any sender with a receiver that copies; any sender with a receiver
that discards; and the best of all forms. METHODOLOGY.md has more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

from common import MILLISECOND, PATIENCE_SECONDS, milliseconds
from compare import peers
from compare.contest import Comparison, Contest, Seen, held, middle
from compare.places import LABS, NAMES, Place, place
from thunderherd.engine.client import EngineError, OwnSnapshot, Server, catalogue, start_load
from thunderherd.engine.lines import LoadResult, Tally
from thunderherd.engine.setting_rules import SettingValue

SIZES = (64, 1 << 10, 16 << 10, 128 << 10, 1 << 20)
FROM_BYTES = 16 << 10
"""Smallest message for zero-copy senders, which make separate calls for each message."""
RECEIVE_BYTES = 128 << 10
"""Bytes that the server requests in a receive."""
AT_ONCE = 1024
"""Largest number of messages that a call gathers."""
WARM_UP_MILLISECONDS = 50
SLACK_MILLISECONDS = 60
"""Additional length of the window, so that both readings of the server are within it."""
CHOOSING_MILLISECONDS = 200
PEER_SECONDS = 1
"""The shortest run that all peers accept."""
OTHER_SECONDS = 0.2
"""Time of a run outside its length."""
EACH, COPYING, DISCARDING, ALL = "one call a message", "receiver copies", "receiver discards", "best of all"


@dataclass(frozen=True)
class Form:
    """Primitives and settings of a stream of ours."""

    primitive: str
    receive: str = "recv"
    at_once: int = 1
    source: str = "memory"
    uncopied: bool = False

    @property
    def name(self) -> str:
        gathered = f" ×{self.at_once}" if self.at_once > 1 else ""
        return f"{self.primitive}{gathered} → {self.receive}"

    @property
    def discards(self) -> bool:
        """True if the receive primitive discards the bytes, by the engine's registry."""
        receiver = catalogue().primitive(self.receive)
        return receiver is not None and not receiver.stores


OURS = (
    Form("send_each"),
    Form("write_once", at_once=AT_ONCE),
    Form("sendmsg", at_once=AT_ONCE),
    Form("uring_send", at_once=AT_ONCE),
    Form("zerocopy", at_once=AT_ONCE, uncopied=True),
    Form("sendfile", source="file", uncopied=True),
    Form("splice", source="memfd", uncopied=True),
    Form("vmsplice", at_once=AT_ONCE, uncopied=True),
    Form("send_each", "recv_truncate"),
    Form("write_once", "recv_truncate", at_once=AT_ONCE),
    Form("sendfile", "recv_truncate", source="file", uncopied=True),
    Form("vmsplice", "recv_truncate", at_once=AT_ONCE, uncopied=True),
    Form("send_each", "busy_poll_truncate"),
    Form("sendfile", "busy_poll_truncate", source="file", uncopied=True),
    Form("vmsplice", "recv_zerocopy", at_once=AT_ONCE, uncopied=True),
)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("sizes", nargs="*", type=int, help="message sizes in bytes (default: 64 to 1 MiB)")
    parser.add_argument(
        "--places",
        nargs="+",
        choices=NAMES,
        default=LABS,
        help="places of the comparison (default: all labs)",
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


def sizes_of(given: argparse.Namespace) -> Sequence[int]:
    """Return the message sizes, one table row each."""
    return given.sizes or SIZES


def our_forms(size: int) -> list[Form]:
    """Return our forms for a size that this machine can run."""
    available = {each.name: each.available for each in catalogue().primitives}
    return [
        form
        for form in OURS
        if available[form.primitive] and available[form.receive] and (size >= FROM_BYTES or not form.uncopied)
    ]


def peer_forms(size: int) -> list[peers.Peer]:
    """Return the installed peers for a size; zero-copy ones only for messages that are large enough."""
    return [
        peer for peer in peers.STREAMS if peer.missing() is None and (size >= FROM_BYTES or not peer.uncopied)
    ]


def comparisons(ours: Sequence[Form], others: Sequence[peers.Peer]) -> list[Comparison]:
    """Return the comparisons.

    A comparison without a form of ours is left out. One without an installed peer shows ours alone.
    """
    copying, discarding = ([form for form in ours if form.discards == discards] for discards in (False, True))
    peers_copying, peers_discarding = (
        [peer for peer in others if peer.discards == discards] for discards in (False, True)
    )
    plain = [form for form in copying if not form.uncopied and form.at_once == 1]
    peers_plain = [peer for peer in peers_copying if not peer.uncopied]
    rows = (
        (EACH, plain, peers_plain),
        (COPYING, copying, peers_copying),
        (DISCARDING, discarding, peers_discarding),
        (ALL, ours, others),
    )
    return [
        Comparison(name, tuple(form.name for form in mine), tuple(peer.name for peer in theirs))
        for name, mine, theirs in rows
        if mine
    ]


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration."""
    peer, choosing, judging = (
        length + OTHER_SECONDS
        for length in (
            PEER_SECONDS,
            (CHOOSING_MILLISECONDS + WARM_UP_MILLISECONDS + SLACK_MILLISECONDS) / 1000,
            (given.milliseconds + WARM_UP_MILLISECONDS + SLACK_MILLISECONDS) / 1000,
        )
    )
    total = 0.0
    for size in sizes_of(given):
        ours, others = our_forms(size), peer_forms(size)
        total += given.choosing * (len(ours) * choosing + len(others) * peer)
        total += given.judging * 3 * (judging + (peer if others else 0))
    return total * len(given.places)


def not_here() -> list[str]:
    """Describe what is missing on this machine, and how to install it."""
    return [
        *peers.missing(peers.STREAMS),
        *(f"{each.name}: {each.reason}" for each in catalogue().primitives if not each.available),
    ]


def run(given: argparse.Namespace) -> None:
    """Measure and print the tables."""
    for name in given.places:
        with place(name, given.congestion) as where:
            show_head(where, given)
            contests = {}
            for size in sizes_of(given):
                contests[size] = cell(where, size, given)
                show(size, contests[size], where, given)
            show_forms(contests, where, given)


def cell(where: Place, size: int, given: argparse.Namespace) -> Contest:
    """Run all comparisons of one size in one place."""
    forms = {form.name: form for form in our_forms(size)}
    others = {peer.name: peer for peer in peer_forms(size)}

    def measured(name: str, choosing: bool) -> Seen:
        if name in others:
            return Seen(others[name].run(peers.Run(where, size, PEER_SECONDS, given.congestion)))
        milliseconds = CHOOSING_MILLISECONDS if choosing else given.milliseconds
        return ours(forms[name], where, size, milliseconds, given.congestion)

    wanted = comparisons(list(forms.values()), list(others.values()))
    return held(wanted, measured, given.choosing, given.judging, f"{where.name}, {size:,} bytes")


def ours(form: Form, where: Place, size: int, milliseconds: int, congestion: str) -> Seen:
    """Measure what the server received between two readings within the client's window.

    Raises `EngineError` if the machine was too busy for that, or a request failed.
    """
    looks = looked_at(form, where, size, milliseconds, congestion)
    result, before, after = looks.result, looks.before, looks.after
    if result.tally.errors:
        raise EngineError(f"{form.name}: {result.first_error}")
    # A late reading has all bytes until the end of the window, and a few packets that were under way.
    ended = min(after.monotonic_ns, result.window.ended_monotonic_ns) if looks.began and result.window else 0
    if ended <= before.monotonic_ns:
        raise EngineError(
            f"{form.name}: could not be read within the window: other processes keep the CPUs busy"
        )
    received = after.tally.bytes_received - before.tally.bytes_received
    if received <= 0:
        raise EngineError(f"{form.name}: nothing arrived in the window")
    copied = copied_share(form, before.tally, after.tally, result.tally)
    return Seen(received * 8e9 / (ended - before.monotonic_ns), copied)


@dataclass(frozen=True)
class Looks:
    """Readings of both sides. `began`: the client reported in time that its window began."""

    began: bool
    before: OwnSnapshot
    after: OwnSnapshot
    result: LoadResult


def looked_at(form: Form, where: Place, size: int, milliseconds: int, congestion: str) -> Looks:
    """Run a client of a form, and read the server twice, `milliseconds` apart.

    The server checks the first 64 bytes of each receive, unless it discards them.
    """
    with Server(
        "thread_per_client",
        workload="stream",
        receive=form.receive,
        settings={**of_sockets(congestion), "receive_size": RECEIVE_BYTES},
        cpus=where.server.cpus,
        listen=f"{where.address}:0",
        network_namespace=where.server.namespace,
    ) as server:
        load = start_load(
            "stream",
            f"{where.address}:{server.ready.port}",
            kind="closed_threads",
            primitive=form.primitive,
            settings={**of_sockets(congestion), **of_client(form, size, milliseconds)},
            cpus=where.client.cpus,
            network_namespace=where.client.namespace,
        )
        try:
            began = load.mark(PATIENCE_SECONDS)
            before = server.snapshot()
            time.sleep(milliseconds / 1000)
            after = server.snapshot()
            return Looks(began is not None, before, after, load.wait(PATIENCE_SECONDS))
        finally:
            load.end()


def of_sockets(congestion: str) -> dict[str, SettingValue]:
    """Return the settings of both sides' sockets. They do not set TCP_NODELAY, as peers do not."""
    return {"nodelay": False, "congestion": congestion}


def of_client(form: Form, size: int, milliseconds: int) -> dict[str, SettingValue]:
    """Return the settings of a client of this form whose window covers two readings."""
    settings: dict[str, SettingValue] = {
        "message_size": size,
        "clients": 1,
        "duration": (milliseconds + SLACK_MILLISECONDS) * MILLISECOND,
        "warm_up": WARM_UP_MILLISECONDS * MILLISECOND,
    }
    if form.at_once > 1:
        settings["messages_at_once"] = form.at_once
    if form.source != "memory":
        # The smallest possible file, so that it stays in the CPU's cache, as iperf3's does.
        settings |= {"source": form.source, "source_size": 1}
    return settings


def copied_share(form: Form, before: Tally, after: Tally, client: Tally) -> float | None:
    """Return the copied share, by completions of zero-copy sends or by the server's count of bytes."""
    if client.completions:
        return client.completions_copied / client.completions
    if form.discards:
        not_copied = after.bytes_not_copied - before.bytes_not_copied
        return 1 - not_copied / (after.bytes_received - before.bytes_received)
    return None


def show_head(where: Place, given: argparse.Namespace) -> None:
    """Print the title and the heads of the table."""
    print(
        f"One stream, {where.title}, {given.congestion}, a CPU for each side; Gbit/s received: median and "
        f"range\nof {given.judging} rounds that had no part in choosing the forms\n"
    )
    print(
        f"{'message':>9}  {'comparison':20}{'ours':>45}{'':23}{'best peer':>25}{'':23}{'ours : peer':>24}",
        flush=True,
    )


def show(size: int, contest: Contest, where: Place, given: argparse.Namespace) -> None:
    """Print a row for each comparison."""
    for outcome in contest.outcomes:
        mine, theirs = outcome.ours, outcome.peer
        figures = [f"{contest.figure(name, 1e9, digits(contest, name)):>23}" for name in (mine, theirs)]
        ours_named = "-" if mine is None else mine + copied(contest, mine)
        theirs_named = (
            "-" if theirs is None else theirs + peers.other_congestion(theirs, where, given.congestion)
        )
        print(
            f"{words(size):>9}  {outcome.comparison.name:20}{ours_named:>45}{figures[0]}"
            f"{theirs_named:>25}{figures[1]}{contest.compared(mine, theirs):>24}"
            f"{outcome.why_alone and f'  {outcome.why_alone}'}",
            flush=True,
        )


def copied(contest: Contest, name: str) -> str:
    """Write the copied share of a form, if available."""
    share = contest.copied(name)
    return "" if share is None else f" (copied {100 * share:.0f} %)"


def digits(contest: Contest, name: str | None) -> int:
    """Return the number of decimals: more for small figures."""
    return 1 if max(contest.values(name), default=0) >= 10e9 else 2


def words(size: int) -> str:
    """Write a size in the largest unit that divides it."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def show_forms(contests: dict[int, Contest], where: Place, given: argparse.Namespace) -> None:
    """Print every form that was tried, with its figures in the rounds that chose."""
    print(f"\nAll forms, {where.title}: median of the {given.choosing} rounds that chose, Gbit/s\n")
    print(f"{'':34}" + "".join(f"{words(size):>10}" for size in contests))
    for name in dict.fromkeys(name for contest in contests.values() for name in contest.choosing):
        row = f"{name + peers.other_congestion(name, where, given.congestion):34}"
        shares = []
        for contest in contests.values():
            seen = contest.choosing.get(name)
            row += f"{middle(seen) / 1e9:>10.2f}" if seen else f"{'-':>10}"
            shares += [] if (share := contest.copied(name)) is None else [f"{100 * share:.0f} %"]
        print(row + (f"  copied: {', '.join(shares)}" if shares else ""))
    print(
        "\n×1024: a call gathers up to 1,024 messages, of 64 KiB together at most."
        "\ncopied: the share of zero-copy sends or receives that the kernel copied after all; unavailable for"
        "\nsendfile, splice, vmsplice, and for peers."
    )
    for size, contest in contests.items():
        for name, reason in contest.failed.items():
            print(f"{words(size)}, {name}: {reason}")
    for reason in peers.missing(peers.STREAMS):
        print(f"missing: {reason}")
    print(flush=True)
