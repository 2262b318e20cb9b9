"""One run of our echo server and load, and the names of forms, for the comparisons of round trips."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from common import MILLISECOND, PATIENCE_SECONDS
from compare.contest import Seen
from compare.places import Place, Side
from thunderherd.engine.client import EngineError, Server, start_load
from thunderherd.engine.lines import LoadResult
from thunderherd.engine.setting_rules import SettingValue

WARM_UP_MILLISECONDS = 100


def labelled(kind: str, name: str) -> str:
    """Name a form within its kind, since several kinds may have the same form."""
    return f"{kind}: {name}"


def short(name: str | None) -> str:
    """Return the name of a form without its kind; "-" for no form."""
    return "-" if name is None else name.partition(": ")[2]


def echoes(
    name: str,
    where: Place,
    *,
    design: str,
    load: str,
    settings: Mapping[str, SettingValue],
    congestion: str,
    serving: Mapping[str, SettingValue] | None = None,
    primitive: str | None = None,
    receive: str | None = None,
    taking: str | None = None,
    load_sides: Sequence[Side] = (),
) -> Seen:
    """Measure echoes per second in the window of a load, with every byte checked.

    Both sides set TCP_NODELAY, as peers do. `settings` are the load's, `serving` the design's. `taking` is
    the load's receive primitive if it differs from the server's; a primitive that discards bytes only counts
    them. `load_sides` has the sides of several loads at a time, whose rates are added. By default one load
    runs on the client's side of the place.

    Raises `EngineError` if a request failed, or none was answered.
    """
    with Server(
        design,
        workload="echo",
        primitive=primitive,
        receive=receive,
        settings={**(serving or {}), "congestion": congestion},
        cpus=where.server.cpus,
        listen=f"{where.address}:0",
        network_namespace=where.server.namespace,
    ) as server:
        connect = f"{where.address}:{server.ready.port}"
        load_settings = {**settings, "congestion": congestion, "warm_up": WARM_UP_MILLISECONDS * MILLISECOND}
        with contextlib.ExitStack() as at_the_end:
            loads = []
            for side in load_sides or [where.client]:
                loads.append(
                    start_load(
                        "echo",
                        connect,
                        kind=load,
                        primitive=primitive,
                        receive=taking or receive,
                        settings=load_settings,
                        cpus=side.cpus,
                        network_namespace=side.namespace,
                    )
                )
                at_the_end.callback(loads[-1].end)
            results = [each.wait(PATIENCE_SECONDS) for each in loads]
    return Seen(sum(rate(name, result) for result in results))


def rate(name: str, result: LoadResult) -> float:
    """Return the replies per second in a load's window."""
    window = result.window
    if result.tally.errors:
        raise EngineError(f"{name}: {result.first_error}")
    if window is None or not window.requests:
        raise EngineError(f"{name}: no reply in the window: other processes keep the CPUs busy")
    return window.requests_per_second
