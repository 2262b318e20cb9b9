"""Caveats: facts that must be shown next to a figure, so that it is not misread.

- Sends that were to be zero-copy but that the kernel copied, as it always does over loopback and veth.
- Which side closes connections first and so keeps TIME_WAIT.
- Metrics extrapolated from events that took turns on the CPU's counters.
- Whether a latency counts from the intended or from the actual send time.
- What a study requests and this machine does not offer, with the reason that the trials gave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from thunderherd.engine.lines import Closings
from thunderherd.metrics.table import (
    COPIED_SHARE,
    CPU_PER_CONNECTION,
    METRICS,
    NOT_COPIED_SHARE,
    PAYLOAD_RATE,
    SIDES,
    Side,
    is_latency,
    made_of,
    metric_names,
)
from thunderherd.records.summary import TrialRecord
from thunderherd.statistics.columns import Values, known
from thunderherd.study.loading import Contender, Study
from thunderherd.text.figures import extrapolated, percent
from thunderherd.trial.busy_polling import OF_SERVER
from thunderherd.trial.counters import scaled_in_words, scaled_of_sides, unavailable_of_sides
from thunderherd.trial.faults import REQUESTS
from thunderherd.trial.observation import UNKNOWN

__all__ = [
    "MEANINGS",
    "NO_CONFORM",
    "PASSED_CASES",
    "Shares",
    "client_notes",
    "closing_notes",
    "conform_notes",
    "copied_after_all",
    "latency_notes",
    "not_reported",
    "not_told",
    "own_server_notes",
    "remarks",
    "root_notes",
    "scaled_metrics",
    "scaled_notes",
    "unavailable_counters",
    "unknown_cpu",
    "unknown_shares",
    "where_kept",
]


NO_CONFORM = "--no-conform"
"""The option of commands that leaves the check of such servers out."""
AS_USER = "--user NAME"
"""The option of commands that chooses the user of servers and clients."""
PASSED_CASES = "conformed"
"""The key of a run's machine with the cases that servers passed before the first trial: numbers by contender.

None: they were not checked. Missing: there is no such server.
"""

WHOSE: dict[Side, str] = {"server": "the server's", "client": "the clients'"}

ZERO_COPY_SENDS, ZERO_COPY_RECEIVES = "zero-copy sends", "zero-copy receives"

NO_COMPLETION = "no completion was read in the window, nor over the whole life of at least one trial"
SOME_WITHOUT = "no completion was read in some of its trials"
OF_LIFE = ", over the whole life if no completion was read in the window or the server was read late"
"""Follows a share that includes completions read outside the window."""


def copied_after_all(study: Study, values: Values, names: Collection[str] | None = None) -> tuple[str, ...]:
    """Return notes on zero-copy: by contender, the share that was copied, or why that is unknown.

    Parameters
    ----------
    study
        As resolved for the run.
    values
        The accepted blocks.
    names
        Only these contenders (default: all). The points of a sweep are summarised under their base, with the
        least and the largest share. They are named separately if the share of other points is unknown.
    """
    chosen = [each for each in study.contenders if names is None or each.name in names]
    shares: dict[tuple[str, str], list[float]] = {}
    of_life: set[tuple[str, str]] = set()
    notes: dict[str, list[str]] = {}
    for contender in chosen:
        for what, column, is_of_life in _shares(contender, values):
            shares.setdefault((contender.base, what), []).extend(column)
            of_life |= {(contender.base, what)} if is_of_life else set()
    for (base, what), column in shares.items():
        after = OF_LIFE if (base, what) in of_life else ""
        notes.setdefault(f"{_span(column)} of {what} were copied{after}", []).append(base)
    for words, those in _unknown(chosen, values).items():
        known_too = {each.base for each in chosen if each.name not in {one.name for one in those}}
        named = dict.fromkeys(each.name if each.base in known_too else each.base for each in those)
        notes.setdefault(words, []).extend(named)
    return tuple(f"{', '.join(bases)}: {words}" for words, bases in notes.items())


def unknown_shares(contender: Contender, values: Values) -> dict[str, str]:
    """Return metric → why the copied share of a contender's zero-copy sends is unknown."""
    completes = {"server": contender.completes, "client": contender.load.completes}
    is_measured = any(contender.name in of_all for of_all in values.values())
    found = {}
    for side in SIDES:
        metric, sent = f"{side}.{COPIED_SHARE}", _column(values, f"{side}.send_calls", contender)
        has_sent = is_measured and completes[side] and (not sent or any(sent))
        if has_sent and not _column(values, metric, contender):
            completed = _column(values, f"{side}.completions", contender)
            found[metric] = SOME_WITHOUT if any(completed) else NO_COMPLETION
    return found


def _unknown(contenders: Sequence[Contender], values: Values) -> dict[str, list[Contender]]:
    """Return reason, in words → the contenders whose copied share is unknown."""
    found: dict[str, list[Contender]] = {}
    for contender in contenders:
        reasons = unknown_shares(contender, values)
        for side, whose in WHOSE.items():
            if why := reasons.get(f"{side}.{COPIED_SHARE}"):
                found.setdefault(f"copied share of {whose} sends unknown: {why}", []).append(contender)
    return found


def _shares(contender: Contender, values: Values) -> Iterator[tuple[str, Sequence[float], bool]]:
    """Yield the name of a transfer, its copied shares, and whether some cover more than the window."""
    stores = {"server": contender.stores, "client": contender.load.stores}
    for side in SIDES:
        if sent := _column(values, f"{side}.{COPIED_SHARE}", contender):
            # A trial that was read late has no count for its window. If all were, the column is missing.
            completions = values.get(f"{side}.completions", {}).get(contender.name, [])
            is_of_life = not completions or not all(completions)
            yield f"{WHOSE[side]} {ZERO_COPY_SENDS}", sent, is_of_life
        if not stores[side] and (kept := _column(values, f"{side}.{NOT_COPIED_SHARE}", contender)):
            copied = [1 - share for share in kept]
            yield f"the bytes of {WHOSE[side]} {ZERO_COPY_RECEIVES}", copied, False


def _column(values: Values, metric: str, contender: Contender) -> Sequence[float]:
    return known(values.get(metric, {}).get(contender.name, []))


def _span(column: Sequence[float]) -> str:
    low, high = percent(min(column)), percent(max(column))
    return high if low == high else f"{low} to {high}"


SAME_SIZE = 1.1
"""The largest ratio of two contenders' bytes per request that is not worth a note."""


def own_server_notes(study: Study, trials: Sequence[TrialRecord]) -> Iterator[str]:
    """Yield what is different for servers that are not ours: their CPU time, counts, and replies."""
    own_servers = {each.base: each for each in study.contenders if each.own_server is not None}
    if not own_servers:
        return
    without: list[str] = []
    running: dict[bool, list[str]] = {}
    for base, contender in own_servers.items():
        if contender.own_server and contender.own_server.url is not None:
            ready = next((each.ready for each in trials if _base(each) == base and each.ready), None)
            known = ready is not None and ready.cpu_source != UNKNOWN
            running.setdefault(known, []).append(contender.own_server.url)
        if contender.load.generator is None and not _counts_requests(base, trials):
            without.append(contender.label if contender.sweep is None else base)
    for known, urls in running.items():
        whose = "that of the processes that listen there" if known else "unavailable"
        yield f"started outside this run, and not pinned; their CPU time is {whose}: {', '.join(urls)}"
    if without:
        yield (
            "only the clients' counts are checked, since these servers report none: "
            f"{', '.join(dict.fromkeys(without))}"
        )
    workloads = {each.workload for each in own_servers.values() if each.load.generator is None}
    compared = [
        each.base for each in study.contenders if each.load.generator is None and each.workload in workloads
    ]
    replies = {
        base: size
        for base in dict.fromkeys(compared)
        if (size := _bytes_per_request(base, trials)) is not None
    }
    if replies and max(replies.values()) > SAME_SIZE * min(replies.values()):
        labels = {each.base: each.label for each in study.main}
        each = "; ".join(f"{labels.get(base, base)} {size:,.0f}" for base, size in replies.items())
        yield f"replies differ in size, bytes received per request: {each}"


def conform_notes(study: Study, machine: Mapping[str, Any]) -> Iterator[str]:
    """Yield which cases servers that are not ours passed before they were timed, or that none was checked."""
    if PASSED_CASES not in machine:
        return
    passed = machine[PASSED_CASES]
    if passed is None:
        yield f"servers that are not ours were timed without conformance cases ({NO_CONFORM})"
        return
    labels = {each.base: each.label for each in study.main}
    by_cases: dict[str, list[str]] = {}
    for name, numbers in passed.items():
        by_cases.setdefault(", ".join(map(str, numbers)), []).append(labels.get(name, name))
    for numbers, names in by_cases.items():
        yield f"{', '.join(names)} passed conformance cases {numbers} before the first trial"


def root_notes(study: Study, machine: Mapping[str, Any]) -> Iterator[str]:
    """Yield which commands that are not ours ran as root, and how to run them as another user."""
    if machine.get("effective_user") != 0:
        return
    as_root = {
        each.label if each.sweep is None else each.base: None
        for each in study.contenders
        if each.lab.user is None
        and any(program and program.command for program in (each.own_server, each.load.generator))
    }
    if as_root:
        yield (
            f"commands that ran as root: {', '.join(as_root)}; {AS_USER} (in a study, lab.user) runs them as "
            "another user"
        )


def client_notes(study: Study) -> Iterator[str]:
    """Yield what is different for load generators that are not ours."""
    with_ours, alone = (
        {
            each.label if each.sweep is None else each.base: None
            for each in study.contenders
            if each.load.generator is not None and (each.own_server is None) == has_ours
        }
        for has_ours in (True, False)
    )
    if with_ours:
        are_all = len(with_ours) > 1 and all(each.load.generator is not None for each in study.contenders)
        yield (
            "load generators report latency and requests themselves: "
            f"{'all contenders' if are_all else ', '.join(with_ours)}. Bytes are not compared, and the "
            "server may count one more request for each in flight at the end"
        )
    if alone:
        yield f"unchecked figures of load generators, since neither end is ours: {', '.join(alone)}"


NOT_REPORTED = {
    **{name: "this latency" for name in METRICS if is_latency(name)},
    **dict.fromkeys(("connections", "connections_per_second", CPU_PER_CONNECTION), "connections"),
    **dict.fromkeys(
        (
            "requests", "requests_per_second", "server_cpu_per_request", "client_cpu_per_request",
            "machine_cpu_per_request",
        ),
        "requests",
    ),
    **dict.fromkeys(
        (PAYLOAD_RATE, "server_cpu_per_byte", "client_cpu_per_byte", "cpu_per_byte", "machine_cpu_per_byte"),
        "the bytes of a stream",
    ),
    **dict.fromkeys(("sends_per_second", "receives_per_second"), "calls"),
}  # fmt: skip
"""Metric → what a load generator must report for it."""


def not_reported(contender: Contender, trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Return metric → reason, for figures that a load generator that is not ours does not report."""
    if contender.load.generator is None:
        return {}
    seen = [trial.metrics for trial in trials if trial.metrics is not None]
    return {
        name: f"{contender.load.parser} does not report {what}"
        for name, what in NOT_REPORTED.items()
        if seen and all(each.get(name) is None for each in seen)
    }


def unknown_cpu(trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Return metric → reason, for metrics of a server whose processes are unknown."""
    for trial in trials:
        if trial.ready is not None and trial.ready.cpu_source == UNKNOWN:
            return dict.fromkeys(OF_SERVER, trial.ready.cpu_source_reason or "its processes are unknown")
    return {}


def _base(trial: TrialRecord) -> str:
    return trial.contender.partition("@")[0]


def _bytes_per_request(base: str, trials: Sequence[TrialRecord]) -> float | None:
    tallies = [load.tally for trial in trials if _base(trial) == base and trial.valid for load in trial.loads]
    requests = sum(each.requests for each in tallies)
    return sum(each.bytes_received for each in tallies) / requests if requests else None


def _counts_requests(base: str, trials: Sequence[TrialRecord]) -> bool:
    """True if a server that is not ours counted its requests itself in every trial that it ended."""
    ended = [each.summary.counts or {} for each in trials if _base(each) == base and each.summary]
    return bool(ended) and all(REQUESTS in counts for counts in ended)


LEAST = 0.05
"""Smaller shares of the sampled connections are not reported: a few of thousands mean nothing."""

AT_CLIENTS, AT_SERVER, NOWHERE = "at the clients", "at the server", "at neither end, being reset"


def closing_notes(study: Study, trials: Iterable[TrialRecord]) -> list[str]:
    """Return notes on where closed connections stay in TIME_WAIT, and of which contenders.

    There is no note if all stay at the clients, as usual: no server closes after its reply. Trials whose
    loads do not report it are ignored.
    """
    bases = {contender.name: contender.base for contender in study.contenders}
    seen: dict[str, list[Closings]] = {}
    for trial in trials:
        closings = [load.closings for load in trial.loads if load.closings is not None]
        seen.setdefault(bases[trial.contender], []).extend(closings)
    whose: dict[str, list[str]] = {}
    for base, parts in seen.items():
        if parts:
            whose.setdefault(where_kept(Closings.together(parts)), []).append(base)
    if set(whose) <= {AT_CLIENTS}:
        return []
    each = [where + (f" ({', '.join(names)})" if len(whose) > 1 else "") for where, names in whose.items()]
    return [f"ended connections stay in TIME_WAIT {'; '.join(each)}"]


def where_kept(closings: Closings) -> str:
    """Return `at the clients`, or shares such as `90 % at the clients, 10 % at the server`.

    At least one connection must have been sampled.
    """
    counts = {
        AT_CLIENTS: closings.closed_by_load,
        AT_SERVER: closings.closed_by_server,
        NOWHERE: closings.reset_by_load + closings.reset_by_server,
    }
    every = sum(counts.values())
    shares = {where: count / every for where, count in counts.items() if count >= LEAST * every}
    if len(shares) == 1:
        return next(iter(shares))
    return ", ".join(f"{100 * share:.0f} % {where}" for where, share in shares.items())


Shares = Mapping[str, Mapping[str, float]]
"""Contender → metric → the least share of the time in which it was counted."""


def scaled_metrics(study: Study, trials: Iterable[TrialRecord]) -> dict[str, float]:
    """Return metric → least share of the time counted, for metrics that any trial extrapolates."""
    least: dict[tuple[str, str], float] = {}
    for trial in trials:
        for side, shares in scaled_of_sides(trial).items():
            for counter, share in shares.items():
                least[side, counter] = min(share, least.get((side, counter), 1.0))
    names = metric_names(study.measure.asked) if least else []
    found: dict[str, float] = {}
    for (side, counter), share in least.items():
        for name in made_of(side, counter, names):
            found[name] = min(share, found.get(name, 1.0))
    return found


def scaled_notes(trials: Sequence[TrialRecord]) -> Iterator[str]:
    """Yield notes on extrapolated events, one per side, with each event's least share of the time counted.

    They replace the warnings of single trials.
    """
    found: dict[str, dict[str, float]] = {}
    count: Counter[str] = Counter()
    for trial in trials:
        for side, shares in scaled_of_sides(trial).items():
            count[side] += bool(shares)
            least = found.setdefault(side, {})
            for name, share in shares.items():
                least[name] = min(share, least.get(name, 1.0))
    for side, least in found.items():
        yield from (
            f"{count[side]} of {len(trials)} trials: {each}" for each in scaled_in_words({side: least})
        )


def remarks(scaled: Shares, metrics: Iterable[str], contenders: Iterable[str]) -> Iterator[str]:
    """Yield the caveat of a figure that rests on these metrics of these contenders; none if nothing is
    extrapolated."""
    wanted = {*metrics}
    shares = [
        share for name in contenders for metric, share in scaled.get(name, {}).items() if metric in wanted
    ]
    if note := extrapolated(shares):
        yield note


MEANINGS = {
    "sent": "that of a closed loop, from when a request was sent. Each client waits for the reply before its "
    "next request, so a server that stalls gets fewer requests, which hides the stall",
    "intended": "that of an open loop, from when a request was due, even if earlier ones had no reply yet",
}
"""The engine's word for where a latency starts → its meaning."""


def latency_notes(study: Study, trials: Iterable[TrialRecord]) -> list[str]:
    """Return which kind of latency the study shows; with names if contenders differ."""
    shown = _shown(study)
    bases = {
        contender.name: contender.base
        for contender in study.contenders
        if any(is_latency(name) for name in shown[contender.sweep])
    }
    found: dict[str, dict[str, None]] = {}
    for trial in trials:
        if trial.contender not in bases:
            continue
        starts = {load.latency.starts for load in trial.loads if load.latency is not None}
        for start in starts:
            found.setdefault(start, {})[bases[trial.contender]] = None
    whose = {
        start: "latency is" if len(found) == 1 else f"latency of {', '.join(names)} is"
        for start, names in found.items()
    }
    return [f"{whose[start]} {MEANINGS[start]}" for start in MEANINGS if start in found]


def _shown(study: Study) -> dict[str | None, tuple[str, ...]]:
    """Return the metrics that each sweep shows, and those of the main table by None."""
    of_main = (study.measure.metric, *study.measure.further_metrics)
    return {sweep.name: (sweep.metric, *sweep.metrics) for sweep in study.sweeps} | {None: of_main}


def unavailable_counters(study: Study, trials: Iterable[TrialRecord]) -> dict[str, str]:
    """Return metric → the engine's reason, for metrics that this machine does not offer."""
    names = metric_names(study.measure.asked)
    reasons: dict[str, str] = {}
    for side, counter, why in dict.fromkeys(_unavailable(trials)):
        for name in made_of(side, counter, names):
            reasons.setdefault(name, why)
    return reasons


def _unavailable(trials: Iterable[TrialRecord]) -> Iterator[tuple[str, str, str]]:
    """Yield side, counter and reason."""
    for trial in trials:
        for side, counters in unavailable_of_sides(trial).items():
            yield from ((side, name, why) for name, why in counters.items())


def not_told(study: Study, unavailable: Mapping[str, str]) -> dict[str, str]:
    """Return `SIDE.COUNTER` → reason, for requested counters that are unavailable."""
    names = (f"{side}.{figure}" for side in SIDES for figure in study.measure.counters)
    return {name: why for name in names if (why := unavailable.get(name))}
