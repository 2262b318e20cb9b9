"""What the comparisons of round trips have in common: an echo of ours as one run, and how forms are named."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from common import PATIENCE_SECONDS
from compare.contest import Seen
from compare.places import Place, Side
from thunderherd.engine.client import EngineError, Server, start_load
from thunderherd.engine.lines import LoadResult
from thunderherd.engine.setting_rules import SettingValue

WARM_UP_MILLISECONDS = 100


def labelled(kind: str, name: str) -> str:
    """A form under its kind; the same may be in several."""
    return f"{kind}: {name}"


def short(name: str | None) -> str:
    """A form without its kind; "-" where none was chosen."""
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
    asking: Sequence[Side] = (),
) -> Seen:
    """Echoes a second in the window of a load, every byte checked, with TCP_NODELAY as peers have it.

    `settings` are the load's, `serving` the design's. `taking` is how a load receives where that is not how
    its server does; if it leaves the bytes to the kernel it only counts them. `asking` says where there are
    to be several loads at a time, whose rates are added; otherwise one is where the place has the client.

    `EngineError`: a request failed, or none was answered.
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
        told = {**settings, "congestion": congestion, "warm_up_milliseconds": WARM_UP_MILLISECONDS}
        with contextlib.ExitStack() as at_the_end:
            loads = []
            for side in asking or [where.client]:
                loads.append(
                    start_load(
                        "echo",
                        connect,
                        kind=load,
                        primitive=primitive,
                        receive=taking or receive,
                        settings=told,
                        cpus=side.cpus,
                        network_namespace=side.namespace,
                    )
                )
                at_the_end.callback(loads[-1].end)
            results = [each.wait(PATIENCE_SECONDS) for each in loads]
    return Seen(sum(rate(name, result) for result in results))


def rate(name: str, result: LoadResult) -> float:
    """Replies a second in a load's window."""
    window = result.window
    if result.tally.errors:
        raise EngineError(f"{name}: {result.first_error}")
    if window is None or not window.requests:
        raise EngineError(f"{name}: no reply came in the window: others keep the CPUs busy")
    return window.requests_per_second
