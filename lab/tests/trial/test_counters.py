"""Figures of counters that are not plain differences: scaled ones, states, and counters with parts."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from thunderherd.engine.catalogue import Catalogue, Counter, CounterPart
from thunderherd.engine.client import Server, catalogue
from thunderherd.engine.counter_names import (
    called,
    figures_of_counters,
    how_to_write,
    may_be_asked_for,
    names_in,
    states_of_counters,
)
from thunderherd.engine.lines import Life, LoadResult, Multiplexing, Ready, Snapshot, Tally
from thunderherd.errors import UserError
from thunderherd.metrics.table import AskedCounters, metric, metric_names
from thunderherd.records.summary import TrialRecord
from thunderherd.study.loading import Contender, Study
from thunderherd.study.resolved import Measure
from thunderherd.trial.caveats import unavailable_counters
from thunderherd.trial.counters import (
    NOT_CERTAIN,
    none_came,
    scaled_in_words,
    scaled_of_sides,
    unavailable_of_sides,
)
from thunderherd.trial.metrics import Counting, of_side
from thunderherd.trial.observation import Observation, stands_late

COUNTERS = {"instructions": "instructions", "tcp_info.rtt": "nanoseconds", "task_clock": "nanoseconds"}


def snapshot(instructions: Multiplexing, rtt: int | None, task_clock: int) -> Snapshot:
    return Snapshot.model_construct(
        counters={"instructions": instructions.value, "tcp_info.rtt": rtt, "task_clock": task_clock},
        multiplexing={"instructions": instructions},
    )


def shared(counted: int, enabled: int, running: int) -> Multiplexing:
    return Multiplexing(counted=counted, enabled_ns=enabled, running_ns=running)


def seen(before: Snapshot, after: Snapshot, loads: list[LoadResult] | None = None) -> Observation:
    load = SimpleNamespace(is_timed=True)
    contender = cast(Contender, SimpleNamespace(trial="window", load=load))
    return Observation(
        contender, COUNTERS, frozenset({"tcp_info.rtt"}), before=before, after=after, loads=loads or []
    )


@pytest.mark.parametrize(
    ("reading", "value", "share"),
    [
        (shared(42, 1000, 1000), 42, 1.0),
        (shared(42, 1000, 250), 168, 0.25),
        (shared(0, 0, 0), 0, 1.0),
        (shared(0, 1000, 0), None, 0.0),
    ],
)
def test_the_engines_rule_of_scaling(reading: Multiplexing, value: int | None, share: float) -> None:
    assert (reading.value, reading.share) == (value, share)


def test_a_window_is_scaled_by_its_own_share_and_a_state_is_that_of_its_end() -> None:
    before = snapshot(shared(1_000_000, 1000, 1000), 900, 5)
    after = snapshot(shared(1_000_100, 2000, 1500), 400, 25)
    found = seen(before, after)
    assert found._counted_by_server() == {"instructions": 200, "tcp_info.rtt": 400, "task_clock": 20}
    found.during = snapshot(shared(1_000_050, 1500, 1250), 700, 15)
    assert found._counted_by_server() == {"instructions": 200, "tcp_info.rtt": 700, "task_clock": 20}
    gone = seen(before, snapshot(shared(1_000_100, 2000, 1500), None, 25))
    assert gone._counted_by_server()["tcp_info.rtt"] is None, "no connection was left"


def test_scaled_counts_are_marked_on_each_side() -> None:
    whole, half = snapshot(shared(10, 1000, 1000), 1, 1), snapshot(shared(20, 2000, 1500), 1, 1)
    loads = [
        LoadResult.model_construct(multiplexing={"instructions": shared(1, 100, running)})
        for running in (100, 40, 60)
    ]
    marked = scaled_of_sides(seen(whole, half, loads))
    assert marked == {"server": {"instructions": 0.5}, "client": {"instructions": 0.4}}
    (of_server, of_clients) = scaled_in_words(marked)
    assert "server" in of_server and "instructions (50 % " in of_server
    assert "client" in of_clients and "instructions (40 % " in of_clients
    plain = scaled_of_sides(seen(whole, snapshot(shared(20, 2000, 2000), 1, 1)))
    assert plain == {"server": {}, "client": {}} and list(scaled_in_words(plain)) == []
    # A whole life is scaled as a whole.
    life = Life.model_construct(multiplexing={"instructions": shared(5, 100, 25)})
    lived = seen(whole, half)
    lived.server_life = life
    assert scaled_of_sides(lived)["server"] == {"instructions": 0.25}


def test_zero_count_of_a_multiplexed_event_is_marked_uncertain() -> None:
    start = snapshot(shared(10, 1000, 1000), 1, 1)
    loads = [LoadResult.model_construct(multiplexing={"instructions": shared(0, 100, 7)}) for _ in range(2)]
    (of_server, of_clients) = none_came(seen(start, snapshot(shared(10, 2000, 1500), 1, 1), loads))
    for side, share, said in (("server", "50 %", of_server), ("client", "7 %", of_clients)):
        assert side in said and "instructions" in said and share in said and said.endswith(NOT_CERTAIN)
    loads.append(LoadResult.model_construct(multiplexing={"instructions": shared(1, 100, 7)}))
    assert [*none_came(seen(start, snapshot(shared(10, 2000, 2000), 1, 1), loads))] == [], (
        "some, or all the time"
    )


CATALOGUE = cast(
    Catalogue,
    SimpleNamespace(
        counters=(
            Counter(name="task_clock", summary="", unit="nanoseconds", countable=True, available=True),
            Counter(
                name="tcp_info", summary="", unit="connections", kind="state", countable=True, available=True,
                parts=(CounterPart(name="rtt", unit="nanoseconds"),),
            ),
        )
    ),
)  # fmt: skip


NAMES = cast(
    Catalogue,
    SimpleNamespace(
        counters=(
            Counter(
                name="cpu_cycles", summary="", unit="cycles", countable=True, available=True,
                names_of_perf=("cpu-cycles", "cycles"),
            ),
            Counter(name="cgroup_cpu", summary="", available=True),
        ),
        events_of_perf=("ref-cycles",),
    ),
)  # fmt: skip


def test_parts_have_their_own_units_and_are_requested_as_a_whole() -> None:
    names = ["task_clock", "tcp_info", "sched:sched_switch"]
    figures = figures_of_counters(names, CATALOGUE)
    assert figures == {
        "task_clock": "nanoseconds",
        "tcp_info": "connections",
        "tcp_info.rtt": "nanoseconds",
        "sched:sched_switch": "",
    }
    assert states_of_counters(names, CATALOGUE) == ["tcp_info", "tcp_info.rtt"]
    measure = Measure.model_construct(counters=figures)
    assert measure.counters_asked == names


TAKEN = [
        "sched:sched_switch", "sched:not_here", "cpu/cache-misses/", "msr/tsc/", "no-such-pmu/x/",
        "cpu/event=0x3c,umask=0x0/", "cpu/event=60,edge/", "r003c", "cycles", "ref-cycles", "cpu_cycles",
        "cpu/event=18446744073709551615/", "cpu/event=0x0000000000000000001/",
        "cpu/event=00000000000000000000060/", "cpu/event=0XffffffffffffffFF/", "rFFFFFFFFFFFFFFF0",
]  # fmt: skip
NO_NAMES = [
        "task", "a:b:c", "a/b/c/", "a:", "/x/", "a:b.c", "", "a b:c", "cpu/event=x/", "cpu/event=/", "cpu/,/",
        "r", "rx", "read", "ref_cycles", "sched", "cpu/event=99999999999999999999/", "cgroup_cpu", "sched:é",
        "cpu/event=18446744073709551616/", "cpu/event=0x10000000000000000/", "r00000000000000001",
        "rFFFFFFFFFFFFFFFF",
        "cpu/event=+1/", "cpu/event=0x+1/", "cpu/event=0x/", f"cpu/event={'1' * 5000}/",
]  # fmt: skip
OTHERWISE = [
    ("cycles:u", "write cycles"),
    ("cpu_cycles:k", "write cpu_cycles"),
    ("r003c:u", "write r003c"),
    ("sched:sched_switch:u", "write sched:sched_switch"),
    ("cpu/event=0x3c/ppk", "write cpu/event=0x3c/"),
    ("cpu/cache-misses", "write cpu/cache-misses/"),
    ("cpu/event=1,umask=2", "write cpu/event=1,umask=2/"),
]


@pytest.mark.parametrize("name", TAKEN)
def test_events_are_accepted_by_their_form(name: str) -> None:
    assert may_be_asked_for(name, NAMES)


@pytest.mark.parametrize("name", NO_NAMES)
def test_words_of_another_form_are_no_events(name: str) -> None:
    assert not may_be_asked_for(name, NAMES) and how_to_write(name, NAMES) is None


@pytest.mark.parametrize(("name", "written"), OTHERWISE)
def test_a_misspelt_event_is_refused_with_its_spelling(name: str, written: str) -> None:
    assert not may_be_asked_for(name, NAMES)
    assert written in (how_to_write(name, NAMES) or "")


@pytest.mark.parametrize("name", [*TAKEN, "dTLB-load-misses"])
def test_the_engine_takes_the_same_names(use_engine: Path, name: str) -> None:
    offered = catalogue(use_engine)
    assert may_be_asked_for(name, offered)
    with Server("epoll", workload="bytes", counters=[name]) as server:
        assert set(server.ready.counters) == {called(name, offered)}


@pytest.mark.parametrize("name", [*NO_NAMES, *(name for name, _ in OTHERWISE), "dTLB-load-mises"])
def test_the_engine_refuses_the_same_names(use_engine: Path, name: str) -> None:
    assert not may_be_asked_for(name, catalogue(use_engine))
    with pytest.raises(UserError), Server("epoll", workload="bytes", counters=[name]):
        pass


@pytest.mark.parametrize("names", [
    ("cs", "cpu/event=0x3c,umask=0x0/", "r003c"), ("cpu/edge,event=1/", "sched:sched_switch"), ("cycles",),
])  # fmt: skip
def test_the_engine_divides_a_list_at_the_same_commas(use_engine: Path, names: tuple[str, ...]) -> None:
    together = ",".join(names)
    assert names_in(together) == names
    with Server("epoll", workload="bytes", counters=[together]) as server:
        assert set(server.ready.counters) == {called(name, catalogue(use_engine)) for name in names}


def test_perf_names_of_a_counter_mean_that_counter() -> None:
    assert figures_of_counters(["cycles", "cpu_cycles", "cpu-cycles"], NAMES) == {"cpu_cycles": "cycles"}
    assert figures_of_counters(["ref-cycles"], NAMES) == {"ref-cycles": ""}
    words = metric("server.cpu/event=0x3c,umask=0x0/_per_request").words
    assert words.startswith("cpu/event=0x3c,umask=0x0/ ")
    assert metric("client.sched:sched_switch").words.startswith("sched:sched_switch ")


def test_a_part_is_unavailable_for_the_reason_of_its_counter() -> None:
    asked = AskedCounters(("tcp_info", "tcp_info.rtt"), frozenset({"tcp_info", "tcp_info.rtt"}))
    study = cast(Study, SimpleNamespace(measure=SimpleNamespace(asked=asked)))
    trial = TrialRecord.model_construct(
        ready=Ready.model_construct(counters={"tcp_info": "no sock_diag"}),
        summary=None, server_life=None, loads=[], client_lives=[],
    )  # fmt: skip
    reasons = unavailable_counters(study, [trial])
    assert reasons == {"server.tcp_info": "no sock_diag", "server.tcp_info.rtt": "no sock_diag"}
    assert "client.tcp_info.rtt" not in reasons


def test_unavailability_of_a_state_is_read_within_the_window() -> None:
    def at(rtt: int | None) -> Snapshot:
        none = (
            {} if rtt else {"tcp_info.rtt": "no TCP connection", "tcp_info.retransmits": "no TCP connection"}
        )
        return Snapshot.model_construct(
            counters={"tcp_info.rtt": rtt, "tcp_info.retransmits": 0 if rtt else None},
            multiplexing={}, unavailable=none,
        )  # fmt: skip

    found = seen(at(None), at(None))
    assert unavailable_of_sides(found)["server"]["tcp_info.rtt"] == "no TCP connection"
    (said,) = found.warnings()
    assert "tcp_info.rtt, tcp_info.retransmits" in said and said.endswith(": no TCP connection")
    found.during = at(900)
    assert unavailable_of_sides(found)["server"] == {} and found.warnings() == []
    found.during, found.after = at(None), at(900)
    assert unavailable_of_sides(found)["server"] == at(None).unavailable


# Denominators -----------------------------------------------------------------------------------------------

COUNTED = {
    "task_clock": 0.5, "cpu_cycles": 1_500_000_000, "instructions": 3_000_000_000,
    "branch_instructions": 600_000_000, "branch_misses": 6_000_000,
    "cache_references": 4_000_000, "cache_misses": 1_000_000,
    "l1_dcache_loads": 800_000_000, "l1_dcache_load_misses": 40_000_000,
    "llc_loads": 2_000_000, "llc_load_misses": 500_000, "context_switches": 1000,
    "memory": 1 << 20,
}  # fmt: skip
"""Of half a second of CPU time, in two seconds."""

BY = Counting(2000, 4000.0, 2.0, tuple(COUNTED), frozenset({"memory"}))


def test_derived_figures_are_those_of_perf_stat() -> None:
    """Known answers: the figures that `perf stat` prints next to such counts."""
    found = of_side("server", COUNTED, BY)
    expected = {
        "cpus_utilized": 0.25, "gigahertz": 3.0, "instructions_per_cycle": 2.0, "branch_miss_share": 0.01,
        "cache_miss_share": 0.25, "l1_dcache_load_miss_share": 0.05, "llc_load_miss_share": 0.25,
        "context_switches_per_second": 500.0, "context_switches_per_cpu_second": 2000.0,
        "cpu_cycles_per_request": 750_000.0, "cpu_cycles_per_byte": 187.5,
        "task_clock_per_request": 0.00025, "task_clock_per_byte": 6.25e-8,
    }  # fmt: skip
    assert {name: found[f"server.{name}"] for name in expected} == pytest.approx(expected)
    names = metric_names(AskedCounters(tuple(COUNTED), frozenset({"memory"})))
    assert {name for name in found if name.startswith("server.")} <= set(names), "each may be asked for"
    assert metric("server.gigahertz").unit == "GHz"
    assert metric("server.context_switches_per_second").unit == "1/s"
    assert metric("server.llc_load_miss_share").unit == "share"


def test_a_state_is_divided_by_nothing_and_memory_by_connections_alone() -> None:
    found = of_side("server", COUNTED, BY)
    assert [name for name in found if name.startswith("server.memory")] == ["server.memory"]
    names = metric_names(AskedCounters(tuple(COUNTED), frozenset({"memory"})))
    of_memory = [name for name in names if ".memory" in name]
    assert of_memory == ["server.memory", "client.memory", "server.memory_per_connection"]
    assert metric("server.memory_per_connection").unit == "bytes"
    assert metric("server.memory.kernel_per_connection").words.startswith("memory.kernel ")


def test_count_without_a_known_time_has_no_rate() -> None:
    without = of_side("client", {"context_switches": 5}, Counting(1, counters=("context_switches",)))
    assert without["client.context_switches_per_second"] is None
    assert "client.context_switches_per_cpu_second" not in without, "CPU time is not asked for"


def test_memory_per_connection_is_the_growth_over_open_connections() -> None:
    def at(memory: int | None, connections: int, closed: int) -> Snapshot:
        tally = Tally.model_construct(connections=connections, closed=closed)
        return Snapshot.model_construct(counters={"memory": memory}, tally=tally)

    load = SimpleNamespace(is_timed=True)
    contender = cast(Contender, SimpleNamespace(trial="window", load=load))
    found = Observation(contender, {"memory": "bytes"}, frozenset({"memory"}))
    found.rest_before, found.during = at(1_000_000, 20, 20), at(1_500_000, 30, 20)
    assert found._held_per_connection() == {"server.memory_per_connection": 50_000}
    found.during = at(1_500_000, 30, 30)
    assert found._held_per_connection() == {"server.memory_per_connection": None}, "none is open"
    found.during = at(None, 30, 20)
    assert found._held_per_connection() == {"server.memory_per_connection": None}
    found.during = None
    assert found._held_per_connection() == {"server.memory_per_connection": None}, "it ends by count"
    assert stands_late("server.memory_per_connection") and not stands_late("server_cpu_per_connection")
