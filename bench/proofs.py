"""Proofs of the load generator: a server that stalls, a known delay, M/D/1, each against its formula.

An attempt counts, whatever its result, if the machine was quiet meanwhile. Quiet means that steal and the use
by other processes stayed below limits. Both are measured around the attempt, before its figures are read.
Otherwise the attempt is repeated, up to a limit. The exit status is 1 if a proof does not hold. A proof is
not decided if all its attempts were disturbed.
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
    """A proof, and what an attempt at it needs."""

    made: Callable[[float, int], Attempt]
    """Makes one attempt, from a scale and a seed."""
    about: str
    seconds: float
    """Duration of an attempt at full length."""
    steal_percent: float
    """Largest steal during an attempt."""


QUEUE_STEAL_PERCENT = 0.7
"""Stolen time comes in pauses of some milliseconds, and each pause makes a queue. A share s in pauses of
length d adds s d / 2 (1 - utilisation) to the mean. At a utilisation of 0.5 and 5 ms this is 35 µs for 0.7
%, and 50 µs for 1 %, while the tolerance is 66 µs. The limit was set after the first of the attempts in
docs/methodology, and before the three runs that it names by their seeds."""


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
"""The time for which noise is measured before an attempt, to skip attempts on a busy machine."""


@dataclass(frozen=True)
class Quiet:
    """Limits of noise during an attempt, in percent of the time of all CPUs."""

    steal_percent: float
    others_percent: float


@dataclass(frozen=True)
class Outcome:
    """The outcome of a proof."""

    attempt: Attempt | None
    """The attempt that counts; None: the machine was never quiet."""
    beside: Noise | None
    """The noise during the attempt."""
    disturbed: list[str]
    """The reasons why earlier attempts were rejected."""

    @property
    def holds(self) -> bool | None:
        """True if all findings hold; None: not decided."""
        if self.attempt is None:
            return None
        return all(each.holds is not False for each in self.attempt.findings)


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("proofs", nargs="*", metavar="PROOF", help=f"{', '.join(PROOFS)} (default: all)")
    parser.add_argument(
        "--attempts",
        type=int,
        default=3,
        help="maximum attempts at a proof, if disturbed (default: %(default)s)",
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="length of an attempt, as a multiple (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="seed of the arrivals (default: %(default)s)")
    parser.add_argument(
        "--steal-percent",
        type=float,
        help="largest steal (default: "
        + ", ".join(f"{name} {proof.steal_percent:g}" for name, proof in PROOFS.items())
        + ")",
    )
    parser.add_argument(
        "--others-percent",
        type=float,
        default=3.0,
        help="largest use by other processes (default: %(default)s)",
    )


def chosen(given: argparse.Namespace) -> list[str]:
    """Return the requested proofs. Raises `UserError` for an unknown name."""
    unknown = sorted(set(given.proofs) - set(PROOFS))
    if unknown:
        raise UserError(
            f"no proof is called {unknown[0]!r}",
            code="bench.unknown_proof",
            hint=f"there are {', '.join(PROOFS)}",
        )
    if not 0 < given.scale <= 10:
        raise UserError(
            f"--scale {given.scale:g} is out of range",
            code="bench.bad_scale",
            hint="type a number above 0, at most 10",
        )
    if not 1 <= given.attempts <= 100:
        raise UserError(
            f"--attempts {given.attempts} is out of range",
            code="bench.bad_attempts",
            hint="type a number from 1 to 100",
        )
    return [name for name in PROOFS if not given.proofs or name in given.proofs]


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration on a quiet machine."""
    return float(sum(given.scale * PROOFS[name].seconds for name in chosen(given)))


def run(given: argparse.Namespace) -> None:
    """Make the proofs and print them. Raises `EngineError` if one does not hold."""
    refuted = []
    for name in chosen(given):
        print(f"{name}: {PROOFS[name].about}")
        stolen = PROOFS[name].steal_percent if given.steal_percent is None else given.steal_percent
        limits = Quiet(stolen, given.others_percent)
        outcome = decided(partial(attempt, name, given), given.attempts, limits)
        show(outcome)
        if outcome.holds is False:
            refuted.append(name)
    if refuted:
        raise EngineError(f"does not hold: {', '.join(refuted)}")


def attempt(name: str, given: argparse.Namespace, number: int) -> Attempt:
    """Make one attempt at a proof. Each attempt has other arrivals."""
    return PROOFS[name].made(given.scale, given.seed + number)


def decided(made: Callable[[int], Attempt], attempts: int, limits: Quiet) -> Outcome:
    """Try until the machine was quiet during a whole attempt.

    That attempt counts, whatever its result. `made` receives the number of the attempt, from 0.
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
    """Print a line for each finding, and the remarks."""
    for number, reason in enumerate(outcome.disturbed, 1):
        print(f"  attempt {number} was rejected, the machine was not quiet: {reason}")
    if outcome.attempt is None or outcome.beside is None:
        print("  NOT DECIDED: the machine was not quiet\n", flush=True)
        return
    print(f"  {'':48}{'predicted':>14}{'measured':>14}{'off by':>10}{'allowed':>8}")
    for line in map(row, outcome.attempt.findings):
        print(f"  {line}")
    for remark in outcome.attempt.remarks:
        print(f"  {remark}")
    print(
        f"  meanwhile: {outcome.beside.steal_share:.2%} of the machine stolen, "
        f"{outcome.beside.foreign_share:.2%} used by others (± {outcome.beside.foreign_uncertainty:.2%})"
    )
    print(f"  {'HOLDS' if outcome.holds else 'DOES NOT HOLD'}\n", flush=True)


def row(finding: Finding) -> str:
    """Write a finding in a line."""
    figures = "".join(
        f"{f'{value:,.3f} {finding.unit}':>14}" for value in (finding.predicted, finding.measured)
    )
    allowed = "-" if finding.tolerance is None else f"{100 * finding.tolerance:g} %"
    verdict = {None: "", True: "  holds", False: "  does not hold"}[finding.holds]
    return f"{finding.what:48}{figures}{100 * finding.deviation:>8.2f} %{allowed:>8}{verdict}"
