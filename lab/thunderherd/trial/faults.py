"""The reasons why a trial is invalid, in words.

Correctness comes before statistics. One wrong reply, one missing connection or one overflow of the listen
queue makes the trial invalid, with a reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from thunderherd.engine.lines import LoadResult
from thunderherd.study.resolved import BY_RESET, CLOSING, PIPELINE
from thunderherd.text.figures import count
from thunderherd.trial.load_validity import validity_faults
from thunderherd.trial.metrics import flow_of, total
from thunderherd.trial.observation import Observation, less, read_late, stands_late

NO_WINDOW = "load: it ends by time but reported no window"
RESET, BROKEN_PIPE = "reset", "broken_pipe"
"""The server's errors if a client closes a connection before it has read the reply, or if the server has
closed an idle connection on which a request was coming. The client then sends that request again."""
REQUESTS = "requests"
"""The count of a server that is not ours that is compared with that of its clients."""
THROTTLED = (
    "a CPU quota stopped the clients, or both sides, for more than 1 % of the time: run without a CPU limit; "
    "`thunderherd doctor` shows it"
)
SERVER_THROTTLED = (
    "a CPU quota of the server's own control group stopped the server for more than 1 % of the time: "
    "raise the quota"
)
MOST_THROTTLED = 0.01
"""The share of the time in which CPU quotas may stop a side of a valid trial."""
NO_REPLY, NO_BYTE = "load: no reply in the window", "load: no byte in the window"
OF_SERVER = ("server ", "server: ", "load: errors: ")
"""How the reasons begin that are a server's fault: what it did, and errors that its clients met."""


def server_failed(reasons: Iterable[str]) -> bool:
    """Return whether one of a trial's reasons is its server's fault, not that of a load or the machine."""
    return any(each.startswith(OF_SERVER) for each in reasons)


def faults_of(seen: Observation) -> list[str]:
    """Return all reasons why this trial is invalid, likely causes first."""
    return [
        *_load_faults(seen),
        *_window_faults(seen),
        *_quota_faults(seen),
        *validity_faults(seen),
        *_server_faults(seen),
        *_tally_faults(seen),
        *_own_counts_faults(seen),
        *_account_faults(seen),
        *_figure_faults(seen),
    ]


def _load_faults(seen: Observation) -> Iterator[str]:
    for what, results in (("warm-up", seen.warm_up), ("load", seen.loads)):
        for number, result in enumerate(results):
            for fault in _result_faults(result):
                yield f"{what}: {fault}{seen.on_host(number)}"


def _result_faults(result: LoadResult) -> Iterator[str]:
    if errors := _in_words(result.tally.errors):
        first = f" (first: {result.first_error})" if result.first_error else ""
        yield f"errors: {errors}{first}"
    if result.interrupted:
        yield "interrupted"
    if result.tally.workers_lost:
        yield f"{count(result.tally.workers_lost, 'client process', 'client processes')} died"
    if result.expected_requests not in (None, result.tally.requests):
        yield f"{result.tally.requests} correct replies of {result.expected_requests}"


def _window_faults(seen: Observation) -> Iterator[str]:
    """Check that a load that ends by time has a window with replies, and that the server was read in time."""
    windows = [result.window for result in seen.loads if result.window is not None]
    if seen.contender.load.has_window and len(windows) < len(seen.loads):
        yield NO_WINDOW
    by_requests = [load for load in seen.loads if load.measured_by == "requests"]
    if any(load.window and not load.window.requests for load in by_requests) or (
        seen.contender.load.generator is not None and not all(load.tally.requests for load in by_requests)
    ):
        yield NO_REPLY
    if (flow := flow_of(seen.loads, seen.before, seen.after)) is not None and flow.gigabits == 0:
        yield NO_BYTE
    if not stands_late(seen.contender.metric):
        yield from read_late(seen)


def _quota_faults(seen: Observation) -> Iterator[str]:
    """Check that no CPU quota stopped a side: that looks like a slow server."""
    if seen.samples is None:
        return
    for before, after in zip(*seen.samples, strict=True):
        server = after.server_throttled_seconds - before.server_throttled_seconds
        clients = after.throttled_seconds - before.throttled_seconds - server
        allowed = MOST_THROTTLED * (after.monotonic - before.monotonic)
        if clients > allowed:
            yield THROTTLED
        if server > allowed:
            yield SERVER_THROTTLED


def _server_faults(seen: Observation) -> Iterator[str]:
    last = seen.summary or seen.rest_after
    if last is not None and last.tally is not None:
        sent_again = sum(load.tally.sent_again for load in (*seen.warm_up, *seen.loads))
        spare = {RESET: _in_flight(seen, 1) + _ended_by_reset(seen) + sent_again, BROKEN_PIPE: sent_again}
        unexpected = {kind: max(0, number - spare.get(kind, 0)) for kind, number in last.tally.errors.items()}
        if errors := _in_words(unexpected):
            yield f"server: errors: {errors}"
        if last.tally.workers_lost:
            yield f"server: {count(last.tally.workers_lost, 'worker')} died"
    if seen.summary is not None and seen.summary.died:
        yield f"server: {seen.summary.died}"
    if (drops := seen.listen_drops()) > 0:
        yield (
            f"listen queue overflowed: {drops} connections dropped; raise server.settings.backlog "
            "or net.core.somaxconn"
        )


def _tally_faults(seen: Observation) -> Iterator[str]:
    """Check that both ends counted the same connections, and requests if the server distinguishes them."""
    if not seen.loads:
        return
    if seen.is_whole_life:
        counted = seen.summary.tally if seen.summary else None
    elif seen.rest_before and seen.rest_after and seen.rest_before.tally and seen.rest_after.tally:
        counted = less(seen.rest_after.tally, seen.rest_before.tally)
    else:
        counted = None
    if counted is not None:
        sent = sum(load.tally.requests for load in seen.loads)
        spare = _in_flight(seen, int(seen.contender.load.settings.get(PIPELINE, 1)))
        if seen.contender.counts_requests and not sent <= counted.requests <= sent + spare:
            yield f"server counted {counted.requests} requests in the window, its clients {sent}"
        opened = sum(load.tally.connections for load in seen.loads)
        if seen.contender.load.generator is None and counted.connections != opened:
            yield f"server counted {counted.connections} connections in the window, its clients {opened}"
    elif not seen.contender.own_server:
        return
    planned = seen.contender.load.requests_per_trial
    expected = total(load.expected_requests for load in seen.loads)
    if planned is not None and expected != planned:
        yield f"the clients planned {expected} requests, the study {planned}"


def _in_flight(seen: Observation, per_client: int) -> int:
    """Return how much the server may see that its clients do not count: so much for each client.

    A load generator that is not ours may end with requests in flight. The server has answered some of them,
    and the generator resets the connections of others.
    """
    load = seen.contender.load
    return load.processes * load.clients * per_client if load.generator is not None else 0


def _ended_by_reset(seen: Observation) -> int:
    """Return the most connections that our clients ended by RST, as the study says."""
    if seen.contender.load.settings.get(CLOSING) != BY_RESET:
        return 0
    return sum(load.tally.connections for load in (*seen.warm_up, *seen.loads))


def _own_counts_faults(seen: Observation) -> Iterator[str]:
    """Check that a server that is not ours counted the requests of its clients over its whole life."""
    counts = (seen.summary.counts if seen.summary else None) or {}
    if REQUESTS not in counts:
        return
    loads = (*seen.warm_up, *seen.loads)
    sent = sum(load.tally.requests for load in loads)
    # The server may have answered what was sent again, in flight at the end, or given up by its client.
    spare = sum(load.tally.sent_again + sum(load.tally.errors.values()) for load in loads)
    spare += _in_flight(seen, int(seen.contender.load.settings.get(PIPELINE, 1)))
    if not sent <= counts[REQUESTS] <= sent + spare:
        yield f"server counted {counts[REQUESTS]} requests, its clients {sent}"


def _account_faults(seen: Observation) -> Iterator[str]:
    """Check that the accounts of both ends over the server's whole life agree on every shared entry."""
    if seen.summary is None:
        return
    if seen.summary.account_fault:
        yield f"server: its account does not balance: {seen.summary.account_fault}"
    clients: dict[str, int] = {}
    for load in (*seen.warm_up, *seen.loads):
        for name, amount in load.account.items():
            clients[name] = clients.get(name, 0) + amount
    for name, amount in seen.summary.account.items():
        if name in clients and clients[name] != amount:
            yield f"account: {name}: the server has {amount}, its clients {clients[name]}"


def _figure_faults(seen: Observation) -> Iterator[str]:
    """Check that no figure is below the study's minimum (`at_least`), which would be a miscount."""
    metrics = seen.metrics() or {} if seen.contender.at_least else {}
    for name, least in seen.contender.at_least.items():
        value = metrics.get(name)
        if value is not None and value < least:
            yield f"{name} = {value:g}, below the minimum of {least:g}"


def _in_words(errors: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}" for kind, number in errors.items() if number)
