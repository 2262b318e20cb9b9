"""What very many hosts take: merging their results, comparing their clocks, and starting them together.

One real load gives the cost of a request, and the result that all simulated hosts vary. A few real agents on
this machine give the time of each call. The rest is a simulation with fixed seeds. It runs the lab's own code
(`merged_loads`, `compared`, `start_ahead_ns`) for so many hosts, and replaces only the paths and the clocks.

The part fails if merged percentiles differ from those of all requests by more than a histogram rounds.
"""

from __future__ import annotations

import argparse

from scale import merging, real, starting
from thunderherd.errors import UserError

SECONDS, REAL_SECONDS = 40.0, 15.0
"""The duration of all with the usual number of hosts, and of the measurements before the simulation."""

MOST = {"hosts": 10_000, "requests": 100_000}
"""The largest numbers. Both together need more memory than most machines have."""


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument(
        "--hosts", type=int, default=1000, help="simulated hosts of the load (default: %(default)s)"
    )
    parser.add_argument(
        "--requests", type=int, default=10_000, help="requests of a simulated host (default: %(default)s)"
    )


def seconds(given: argparse.Namespace) -> float:
    """Estimate the duration. Raises `UserError` for a number that cannot be simulated."""
    for name, most in MOST.items():
        if not 1 <= getattr(given, name) <= most:
            raise UserError(
                f"--{name} {getattr(given, name)} is out of range",
                code=f"bench.bad_{name}",
                hint=f"type a number from 1 to {most}",
            )
    hosts: int = given.hosts
    return REAL_SECONDS + (SECONDS - REAL_SECONDS) * hosts / 1000


def run(given: argparse.Namespace) -> None:
    """Measure, simulate and print the tables, each after its answer."""
    cost = real.cost_of_a_request()
    merging.show(cost.result, given.hosts, given.requests)
    calls = real.calls_to_agents()
    starting.show(calls, given.hosts)
    real.show(cost, calls)
