"""What arithmetic allows a contender, whatever the machine: no more requests a second than can be served at
once, divided by the time that one takes.

It is known where workers are made beforehand and a request's time does not depend on the CPU: where the
service's delays are time on the clock.
"""

from __future__ import annotations

from thunderherd.study import Contender


def queueing_bound(contender: Contender) -> float | None:
    """Requests a second, at most: those served at once / mean delay. None where either is not known.

    Served at once are as many as there are workers, but no more than clients, since each of these waits for
    its reply before it asks again. A server that makes a worker for every client has no bound of its own.
    """
    at_once, delay = served_at_once(contender), mean_delay_seconds(contender)
    return at_once / delay if at_once and delay else None


def served_at_once(contender: Contender) -> int | None:
    """The most requests that a pool has in service at a time; None for a design without a pool."""
    if "pool" not in contender.settings:
        return None
    load = contender.load
    clients = load.clients * int(load.settings.get("clients", load.settings.get("children", 1)))
    return min(clients, int(contender.settings["pool"]))


def mean_delay_seconds(contender: Contender) -> float | None:
    """The mean of the delays that are asked for, on the clock; None where a delay is none of the clock's."""
    settings, load = contender.settings, contender.load.settings
    if settings.get("busy") != "wall_clock":
        return None
    mean = (int(load["delay_minimum"]) + int(load["delay_maximum"])) / 2
    return mean * int(settings["unit_microseconds"]) / 1e6
