"""Proofs of the load generator: a server that stalls, a known delay, M/D/1, each against its formula.

An attempt counts as it comes out if the machine was quiet meanwhile, by what was stolen from it and what
others used of it, which is measured around the attempt and before its figures are looked at; otherwise it is
made again, so many times. A proof that does not hold makes the exit status 1; of one whose attempts were all
disturbed it says that it is not decided.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from proving import trials
from proving.trials import Attempt, Finding
from thunderherd.engine.client import EngineError
from thunderherd.errors import UserError
from thunderherd.machine import noise
from thunderherd.records.summary import Noise


@dataclass(frozen=True)
class Proof:
    """What can be proved, each by attempts of its own."""

    made: Callable[[float, int], Attempt]
    """One attempt, by its scale and its seed."""
    about: str
    seconds: float
    """Of an attempt at full length."""
    steal_percent: float
    """What may be stolen from the machine beside an attempt."""


QUEUE_STEAL_PERCENT = 0.7
"""Stolen time comes in pauses of some milliseconds, each of which makes a queue: a share s in pauses of
length d adds s d / 2 (1 - utilisation) to the mean. At a utilisation of 0.5 and 5 ms that are 35 µs for
0.7 %, of the 66 µs that it may be off by, and 50 for 1 %. The limit was set after the first of the attempts
that METHODOLOGY.md tells of, and before the three runs that it names by their seeds."""


def _by_docstring(
    made: Callable[..., Attempt], seconds: float, steal_percent: float, **settings: float
) -> Proof:
    about = (made.__doc__ or "").splitlines()[0]
    return Proof(partial(made, **settings), about, seconds, steal_percent)


def _queue(utilisation: float, seconds: float) -> Proof:
    tolerance = trials.UTILISATIONS[utilisation]
    given = {"utilisation": utilisation, "tolerance": tolerance}
    return _by_docstring(trials.queue, seconds, QUEUE_STEAL_PERCENT, **given)


PROOFS = {
    "freeze": _by_docstring(trials.freeze, 48.0, 1.0),
    "delay": _by_docstring(trials.delay, 86.0, 1.0),
    "queue_0.3": _queue(0.3, 76.0),
    "queue_0.5": _queue(0.5, 162.0),
    "queue_0.7": _queue(0.7, 114.0),
}
LOOK_SECONDS = 0.5
"""How long the machine is looked at before an attempt: what is busy now spares the attempt."""


@dataclass(frozen=True)
class Quiet:
    """What the machine may do beside an attempt, percent of all its CPUs' time."""

    steal_percent: float
    foreign_percent: float


@dataclass(frozen=True)
class Outcome:
    """What became of a proof."""

    attempt: Attempt | None
    """The one that counts; None: the machine was never quiet."""
    beside: Noise | None
    """What the machine did meanwhile."""
    disturbed: list[str]
    """Why earlier attempts do not count."""

    @property
    def holds(self) -> bool | None:
        """None: it is not decided."""
        if self.attempt is None:
            return None
        return all(each.holds is not False for each in self.attempt.findings)


def options(parser: argparse.ArgumentParser) -> None:
    """What may be asked of it."""
    parser.add_argument("proofs", nargs="*", metavar="PROOF", help=f"of {', '.join(PROOFS)} (default: all)")
    parser.add_argument(
        "--attempts", type=int, default=3, help="the most at each, of disturbed ones (default: %(default)s)"
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of each attempt's length (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the arrivals (default: %(default)s)")
    parser.add_argument(
        "--steal-percent",
        type=float,
        help="that may be stolen (default: "
        + ", ".join(f"{name} {proof.steal_percent:g}" for name, proof in PROOFS.items())
        + ")",
    )
    parser.add_argument(
        "--foreign-percent", type=float, default=3.0, help="that others may use (default: %(default)s)"
    )


def chosen(given: argparse.Namespace) -> list[str]:
    """The proofs that are asked for. Raises `UserError` where there is none of such a name."""
    unknown = sorted(set(given.proofs) - set(PROOFS))
    if unknown:
        raise UserError(f"no proof is called {unknown[0]!r}; there are {', '.join(PROOFS)}")
    if not 0 < given.scale <= 10:
        raise UserError(f"--scale {given.scale:g}: a length is above 0, and 10 times the usual one at most")
    if not 1 <= given.attempts <= 100:
        raise UserError(f"--attempts {given.attempts}: 1 to 100")
    return [name for name in PROOFS if not given.proofs or name in given.proofs]


def seconds(given: argparse.Namespace) -> float:
    """How long it will take, if the machine is quiet."""
    return float(sum(given.scale * PROOFS[name].seconds for name in chosen(given)))


def run(given: argparse.Namespace) -> None:
    """Makes the proofs, and prints them. Raises `EngineError` where one does not hold."""
    refuted = []
    for name in chosen(given):
        print(f"{name}: {PROOFS[name].about}")
        stolen = PROOFS[name].steal_percent if given.steal_percent is None else given.steal_percent
        limits = Quiet(stolen, given.foreign_percent)
        outcome = decided(partial(attempt, name, given), given.attempts, limits)
        show(outcome)
        if outcome.holds is False:
            refuted.append(name)
    if refuted:
        raise EngineError(f"does not hold: {', '.join(refuted)}")


def attempt(name: str, given: argparse.Namespace, number: int) -> Attempt:
    """One attempt at a proof, each with arrivals of its own."""
    return PROOFS[name].made(given.scale, given.seed + number)


def decided(made: Callable[[int], Attempt], attempts: int, limits: Quiet) -> Outcome:
    """Tries until the machine was quiet from the beginning of an attempt to its end.

    That one counts, whatever it came to. An attempt is told its number, from 0.
    """
    disturbed: list[str] = []
    for number in range(attempts):
        before = noise.sample()
        time.sleep(LOOK_SECONDS)
        if reason := noise.describe(noise.between(before, noise.sample(), 0.0), limits):
            disturbed.append(f"before it began: {reason}")
            continue
        before = noise.sample()
        try:
            came_to: Attempt | EngineError = made(number)
        except EngineError as error:
            came_to = error
        # Every process of the attempt has been reaped, so its CPU time is that of ended children.
        beside = noise.between(before, noise.sample(), 0.0)
        if not (reason := noise.describe(beside, limits)):
            if isinstance(came_to, EngineError):
                raise came_to
            return Outcome(came_to, beside, disturbed)
        disturbed.append(reason)
    return Outcome(None, None, disturbed)


def show(outcome: Outcome) -> None:
    """A line for each finding, and what it rests on."""
    for number, reason in enumerate(outcome.disturbed, 1):
        print(f"  attempt {number} does not count, the machine was not quiet: {reason}")
    if outcome.attempt is None or outcome.beside is None:
        print("  NOT DECIDED: the machine was not quiet\n", flush=True)
        return
    print(f"  {'':48}{'predicted':>14}{'measured':>14}{'off by':>10}{'may be':>8}")
    for line in map(row, outcome.attempt.findings):
        print(f"  {line}")
    for remark in outcome.attempt.remarks:
        print(f"  {remark}")
    print(
        f"  beside it: {outcome.beside.steal_share:.2%} of the machine stolen, "
        f"{outcome.beside.foreign_share:.2%} used by others (± {outcome.beside.foreign_uncertainty:.2%})"
    )
    print(f"  {'HOLDS' if outcome.holds else 'DOES NOT HOLD'}\n", flush=True)


def row(finding: Finding) -> str:
    """A finding in a line."""
    figures = "".join(
        f"{f'{value:,.3f} {finding.unit}':>14}" for value in (finding.predicted, finding.measured)
    )
    allowed = "-" if finding.tolerance is None else f"{100 * finding.tolerance:g} %"
    verdict = {None: "", True: "  holds", False: "  does not hold"}[finding.holds]
    return f"{finding.what:48}{figures}{100 * finding.deviation:>8.2f} %{allowed:>8}{verdict}"
