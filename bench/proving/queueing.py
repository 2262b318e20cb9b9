"""Latencies of simple servers, by theory. Pure functions; times are in any one unit, rates per that unit.

The first server stalls. Its formulas are those of the fluid limit: requests are so many and so small that
they flow like a fluid. The second has Poisson arrivals and constant service (M/D/1). Its mean wait is by
Pollaczek and Khinchine, its moments by Takács's recursion (L. Kleinrock, Queueing Systems, volume 1, 1975,
sections 5.6 and 5.7).
"""

from __future__ import annotations

import math


def stalled_wait(share: float, stall: float, every: float, utilisation: float) -> float:
    """Return the wait that this share of all requests does not exceed.

    The server stalls for `stall` once in `every`, and is busy for `utilisation` of its other time. Raises
    ValueError if it cannot work off the backlog of a stall before the next.
    """
    return max(0.0, stall - (1 - share) * (1 - _utilisation(stall, every, utilisation)) * every)


def stalled_share(wait: float, stall: float, every: float, utilisation: float) -> float:
    """Return the share of requests to the same server that wait longer than `wait`."""
    return max(0.0, stall - wait) / (1 - _utilisation(stall, every, utilisation)) / every


def _utilisation(stall: float, every: float, utilisation: float) -> float:
    if not 0 <= utilisation < 1 or stall > every * (1 - utilisation):
        raise ValueError(
            f"a server busy for {utilisation:g} of its time does not work off in {every:g} "
            f"what comes in {stall:g}"
        )
    return utilisation


def mean_wait(rate: float, service: float) -> float:
    """Return the mean wait of M/D/1, without the service. Raises ValueError if it grows for ever."""
    return wait_moments(rate, service)[1]


def set_up_delay(rate: float, set_up: float) -> float:
    """Return how much a set-up time before the first service of every busy period adds to the mean latency.

    It is nearly the set-up time itself (M/G/1 with a set-up time; P. Welch, Operations Research 12, 1964).
    """
    return set_up * (2 + rate * set_up) / (2 * (1 + rate * set_up))


def wait_moments(rate: float, service: float) -> list[float]:
    """Return the means of 1, wait, wait² and wait³ of M/D/1."""
    utilisation = rate * service
    if not 0 <= utilisation < 1:
        raise ValueError(f"a utilisation is between 0 and 1, got {utilisation:g}")
    moments = [1.0]
    for power in (1, 2, 3):
        terms = (
            math.comb(power, each) * service ** (each + 1) / (each + 1) * moments[power - each]
            for each in range(1, power + 1)
        )
        moments.append(rate / (1 - utilisation) * sum(terms))
    return moments


def standard_error_of_mean_wait(rate: float, service: float, requests: float) -> float:
    """Return the standard error of the mean wait of many successive requests to M/D/1.

    It is far larger than that of independent requests, since a long wait has neighbours with long waits.
    After a wait W, the next wait is V = max(0, W + service - gap). With c = rate / 2 / (1 - utilisation), the
    function g(w) = c w² + 2 c w / rate solves Poisson's equation: g(W) - E(g(V) | W) = W - E(W). So the
    variance, times the number of requests, is 2 E((W - E(W)) g(W)) - Var(W) (S. Meyn, R. Tweedie, Markov
    Chains and Stochastic Stability, 1993, chapter 17).
    """
    _, first, second, third = wait_moments(rate, service)
    scale = rate / 2 / (1 - rate * service)
    with_itself = scale * (third - first * second) + 2 * scale / rate * (second - first**2)
    return math.sqrt((2 * with_itself - (second - first**2)) / requests)


def requests_needed(error: float, rate: float, service: float) -> int:
    """Return how many requests give a mean wait with this standard error."""
    return math.ceil((standard_error_of_mean_wait(rate, service, 1) / error) ** 2)
