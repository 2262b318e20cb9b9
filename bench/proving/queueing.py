"""What theory says that latencies are, of servers simple enough to be computed. Pure functions; times in any
one unit, rates per that unit.

A server that stalls, in the fluid limit: requests are so many and so small that they come and are served as a
fluid is. One server, Poisson arrivals, constant service (M/D/1): Pollaczek and Khinchine; the moments by
Takács's recursion (L. Kleinrock, Queueing Systems, volume 1, 1975, sections 5.6 and 5.7).
"""

from __future__ import annotations

import math


def stalled_wait(share: float, stall: float, every: float, utilisation: float) -> float:
    """The wait that this share of all requests at most has, of a server that stalls for `stall` once in
    `every`, and is busy for `utilisation` of its time otherwise.

    Raises ValueError where a stall's backlog is not worked off by the next.
    """
    return max(0.0, stall - (1 - share) * (1 - _utilisation(stall, every, utilisation)) * every)


def stalled_share(wait: float, stall: float, every: float, utilisation: float) -> float:
    """Of the same server, the share of requests that wait longer than `wait`."""
    return max(0.0, stall - wait) / (1 - _utilisation(stall, every, utilisation)) / every


def _utilisation(stall: float, every: float, utilisation: float) -> float:
    if not 0 <= utilisation < 1 or stall > every * (1 - utilisation):
        raise ValueError(
            f"a server busy for {utilisation:g} of its time does not work off in {every:g} "
            f"what comes in {stall:g}"
        )
    return utilisation


def mean_wait(rate: float, service: float) -> float:
    """The mean wait of M/D/1, without the service itself. Raises ValueError where it grows for ever."""
    return wait_moments(rate, service)[1]


def set_up_delay(rate: float, set_up: float) -> float:
    """By how much the mean latency rises where the first service of every busy period begins so much later
    (M/G/1 with a set-up time; P. Welch, Operations Research 12, 1964): nearly the set-up time itself."""
    return set_up * (2 + rate * set_up) / (2 * (1 + rate * set_up))


def wait_moments(rate: float, service: float) -> list[float]:
    """The means of 1, wait, wait² and wait³ of M/D/1."""
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
    """By how much the mean wait of so many requests of M/D/1 that follow each other scatters, when they are
    many. Far more than of independent ones: who waits long has neighbours who do.

    Of a wait W, the next is V = max(0, W + service - gap), and with c = rate / 2 / (1 - utilisation) the
    function g(w) = c w² + 2 c w / rate solves Poisson's equation: g(W) - E(g(V) | W) = W - E(W). So the
    variance, times the requests, is 2 E((W - E(W)) g(W)) - Var(W) (S. Meyn, R. Tweedie, Markov Chains and
    Stochastic Stability, 1993, chapter 17).
    """
    _, first, second, third = wait_moments(rate, service)
    scale = rate / 2 / (1 - rate * service)
    with_itself = scale * (third - first * second) + 2 * scale / rate * (second - first**2)
    return math.sqrt((2 * with_itself - (second - first**2)) / requests)


def requests_needed(error: float, rate: float, service: float) -> int:
    """How many requests have a mean wait with this standard error."""
    return math.ceil((standard_error_of_mean_wait(rate, service, 1) / error) ** 2)
