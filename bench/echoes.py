"""What the comparisons of round trips have in common: an echo of ours as one run, and how forms are named."""

from __future__ import annotations

from collections.abc import Mapping

from common import PATIENCE_SECONDS
from contest import Seen
from places import Place
from thunderherd.agreements import SettingValue
from thunderherd.engine import EngineError, Server, start_load

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
) -> Seen:
    """Echoes a second in the window of a load, every byte checked, with TCP_NODELAY as peers have it.

    `settings` are the load's, `serving` the design's.

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
        asking = start_load(
            "echo",
            f"{where.address}:{server.ready.port}",
            kind=load,
            primitive=primitive,
            receive=receive,
            settings={
                **settings,
                "congestion": congestion,
                "warm_up_milliseconds": WARM_UP_MILLISECONDS,
            },
            cpus=where.client.cpus,
            network_namespace=where.client.namespace,
        )
        try:
            result = asking.wait(PATIENCE_SECONDS)
        finally:
            asking.end()
    window = result.window
    if result.tally.errors:
        raise EngineError(f"{name}: {result.first_error}")
    if window is None or not window.requests:
        raise EngineError(f"{name}: no reply came in the window: others keep the CPUs busy")
    return Seen(window.requests_per_second)
