"""The study cse638-pa02 reproduces the experiment and the claims of its source.

The figures of the source's own machine give the expected verdicts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest

from thunderherd.claims.claim_file import Claim, load_claims, load_questions
from thunderherd.engine import client as engine_client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.judge.claims.claims import judge
from thunderherd.labs.words import is_like
from thunderherd.records.directory import TRIALS
from thunderherd.records.summary import ClaimSummary, Summary
from thunderherd.records.trial import TrialRecord
from thunderherd.run.runner import run_study
from thunderherd.statistics.comparisons import first_look_blocks
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.caveats import OF_LIFE, ZERO_COPY_SENDS
from thunderherd.trial.observation import read_late

WAYS = {"two_copy": "send_each", "one_copy": "sendmsg", "zero_copy": "zerocopy"}
SOURCES = {"a1": "two_copy", "a2": "one_copy", "a3": "zero_copy"}
SIZES, THREADS = (64, 256, 1024, 4096), (1, 2, 4, 8)
EVENTS = ("cpu_cycles", "cache_misses", "llc_load_misses", "l1_dcache_load_misses")
"""Of the processor: cycles and misses."""
BLOCKS = 22
Row = dict[str, str]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return engine_client.catalogue()


@pytest.fixture(scope="module")
def full(catalogue: Catalogue) -> Study:
    return load_study("cse638-pa02", "full", (), catalogue)


def rows(of: Study, name: str) -> list[Row]:
    with (of.path.parent / name).open(newline="") as file:
        return list(csv.DictReader(file))


# What is asked ----------------------------------------------------------------------------------------------


def test_study_matches_the_sources_experiment(full: Study) -> None:
    for base, primitive in WAYS.items():
        for size in (*SIZES, 16384, 65536):
            for threads in THREADS:
                each = full.contender(f"{base}@sizes_{threads}={size}")
                load = each.load
                assert (each.design, each.primitive, each.receive) == ("thread_per_client", primitive, "recv")
                assert (load.primitive, load.receive, load.kind) == ("send_each", "recv", "closed_threads")
                assert (load.settings["clients"], load.settings["connections"]) == (threads, "kept")
                assert each.settings["field_size"] == load.settings["field_size"] == size
                assert (each.settings["nodelay"], load.settings["nodelay"]) == (False, False)
                assert each.settings["backlog"] == 32
                assert is_like(each.lab.kind, each.lab.settings, {"kind": "veth", "mtu": 1500})
                assert load.is_timed


def test_study_has_the_sources_further_experiments_and_own_ones(full: Study) -> None:
    points = {sweep.name: [point.name for point in sweep.points] for sweep in full.sweeps}
    assert points["screenshots"] == ["256x4", "1024x8", "2048x8"]
    assert points["threads"] == ["1", "2", "4", "8"]
    assert points["second_report"] == ["64", "256", "1024", "8192"]
    assert {"epoll", "poll", "select"} <= set(points["designs"])
    where = {
        name: full.contender(f"two_copy@{name}=4096").lab for name in ("nodelay", "large_mtu", "loopback")
    }
    assert {name: (lab.kind, lab.settings.get("mtu")) for name, lab in where.items()} == {
        "nodelay": ("veth", 1500), "large_mtu": ("veth", 65535), "loopback": ("loopback", None),
    }  # fmt: skip
    assert full.contender("two_copy_nodelay@loopback=64").settings["nodelay"] is True
    assert full.contender("two_copy@loopback=64").settings["nodelay"] is False


def test_each_plot_of_the_source_has_its_figures(full: Study) -> None:
    has = {(each.sweep, each.metric, each.base, each.point) for each in full.paper}
    for base in WAYS:
        for metric in ("gigabits_per_second", "client.cache_misses", "client.cpu_cycles_per_byte"):
            assert {("sizes_8", metric, base, str(size)) for size in SIZES} <= has
        assert {("threads", "duration_per_message", base, str(threads)) for threads in THREADS} <= has
    drawn = {sweep.name: sweep for sweep in full.sweeps}
    assert drawn["sizes_8"].axis == "logarithmic"
    assert drawn["sizes_8"].logarithmic == ("client.cache_misses",), "misses are drawn log-log"
    assert drawn["threads"].metric == "duration_per_message"


def test_sizes_have_the_described_extent(catalogue: Catalogue, full: Study) -> None:
    quick = load_study("cse638-pa02", "quick", (), catalogue)
    assert len(quick.contenders) < 40
    assert quick.looks[0].blocks == 11
    matrix = load_study("cse638-pa02", "matrix", (), catalogue)
    assert len(matrix.contenders) < 70
    assert [look.blocks for look in matrix.looks] == [first_look_blocks(len(matrix.comparisons), 0.05)]
    assert max(each.load.settings["duration"] for each in matrix.contenders) <= 350 * 10**6
    assert {each.name for each in quick.contenders} < {each.name for each in matrix.contenders}
    report = load_study("cse638-pa02", "report", (), catalogue)
    assert report.repetitions == 1
    assert {each.load.settings["duration"] for each in report.contenders} == {10**10}
    for each in (matrix, report):
        cells = [own for own in each.contenders if (own.sweep or "").startswith("sizes_")]
        assert len(cells) == len(WAYS) * len(SIZES) * len(THREADS)
    assert len(full.contenders) > 150


# The source's data ------------------------------------------------------------------------------------------


def test_the_sources_figures_fit_each_other(full: Study) -> None:
    """Messages of threads add up to those of a cell; rates follow from them by the report's formulas."""
    threads = rows(full, "thread_messages.csv")
    for cell in rows(full, "screenshots.csv"):
        of_cell = [
            int(each["messages"])
            for each in threads
            if (each["impl"], each["field_size"], each["threads"])
            == (cell["impl"], cell["field_size"], cell["threads"])
        ]
        messages, size = int(cell["messages_total"]), int(cell["field_size"])
        assert (sum(of_cell), len(of_cell)) == (messages, int(cell["threads"]))
        assert cell["cell"] == f"{cell['field_size']}x{cell['threads']}"
        rate = messages * 8 * size * 8 / 10 / 1e9
        assert float(cell["throughput_gbps_doc_formula"]) == pytest.approx(rate, rel=1e-3)
        assert float(cell["latency_us_doc_formula"]) == pytest.approx(10e6 / messages, rel=1e-3)
    for name, runs in (("veth.csv", 1), ("loopback.csv", 3)):
        found = rows(full, name)
        assert len(found) == 48 * runs
        for row in found:
            if float(row["throughput_gbps"]) > 0.01:  # the others have too few digits
                messages = 10e6 / float(row["latency_us"])
                rate = messages * 64 * int(row["field_size"]) / 10 / 1e9
                assert float(row["throughput_gbps"]) == pytest.approx(rate, rel=1e-2), row
            per_byte = int(row["cycles"]) / (float(row["throughput_gbps"]) * 1e9 / 8 * 10)
            assert float(row["cycles_per_byte"]) == pytest.approx(per_byte, rel=1e-3)


def test_the_sources_figures_are_those_of_its_claims(full: Study) -> None:
    by_cell = {(row["impl"], row["field_size"], row["threads"]): row for row in rows(full, "veth.csv")}

    def ahead(a: str, b: str, column: str = "throughput_gbps") -> int:
        return sum(
            float(by_cell[a, str(size), str(threads)][column])
            > float(by_cell[b, str(size), str(threads)][column])
            for size in SIZES
            for threads in THREADS
        )

    assert (ahead("a1", "a2"), ahead("a1", "a3")) == (5, 6)  # H18
    assert ahead("a2", "a3", "cycles_per_byte") == 0  # H20: a3 is lower in none
    assert ahead("a3", "a2", "cache_misses") == 8  # H26
    assert by_cell["a1", "64", "8"]["cycles_per_byte"] == "202.9"
    assert by_cell["a1", "64", "1"]["cycles_per_byte"] == "237.2"


# Claims -----------------------------------------------------------------------------------------------------


def test_has_its_claims_and_questions(full: Study, catalogue: Catalogue) -> None:
    claims = load_claims(full)
    assert [claim.id for claim in claims] == [f"H{number}" for number in range(18, 40)]
    assert not any(claim.unmet or claim.outside or claim.left_out for claim in claims)
    quick = load_claims(load_study("cse638-pa02", "quick", (), catalogue))
    assert {claim.id for claim in quick if claim.outside} == {
        "H18", "H19", "H20", "H23", "H24", "H25", "H26", "H32", "H33", "H34",
    }  # fmt: skip
    matrix = load_claims(load_study("cse638-pa02", "matrix", (), catalogue))
    assert [claim.id for claim in matrix] == [claim.id for claim in claims]
    assert not any(claim.unmet or claim.outside or claim.left_out for claim in matrix)
    assert [question.id for question in load_questions(full)] == [f"Q{number}" for number in range(1, 7)]
    assert {claim.id for claim in claims if any("per_byte" in each.metric for each in claim.figures)} >= {
        "H20", "H21", "H22", "H23",
    }  # fmt: skip


@pytest.mark.parametrize("override", ["server.settings.nodelay=true", "lab.kind=loopback"])
def test_other_conditions_leave_claims_unmet(override: str, catalogue: Catalogue) -> None:
    claims = load_claims(load_study("cse638-pa02", "full", (override,), catalogue))
    assert {claim.id for claim in claims if claim.unmet} >= {"H18", "H19", "H31", "H33", "H36"}


def source_values(of: Study, noise: float = 0.02) -> dict[str, dict[str, list[float]]]:
    """Blocks around the source's own figures, as if its machine had run the study."""
    generator = np.random.default_rng(638)
    columns = {
        "gigabits_per_second": ("throughput_gbps", 1.0),
        "duration_per_message": ("latency_us", 1e-6),
        "client.cpu_cycles_per_byte": ("cycles_per_byte", 1.0),
        "client.cache_misses": ("cache_misses", 1.0),
        "client.llc_load_misses": ("llc_misses", 1.0),
        "client.context_switches": ("context_switches", 1.0),
    }
    values: dict[str, dict[str, list[float]]] = {}
    for row in rows(of, "veth.csv"):
        name = f"{SOURCES[row['impl']]}@sizes_{row['threads']}={row['field_size']}"
        for metric, (column, factor) in columns.items():
            column_values = float(row[column]) * factor * np.exp(generator.normal(0, noise, BLOCKS))
            values.setdefault(metric, {})[name] = column_values.tolist()
    return values


def judged(of: Study, values: Mapping[str, Mapping[str, list[float]]]) -> dict[str, ClaimSummary]:
    claims = [claim for claim in load_claims(of) if needed_by(claim) <= values.keys()]
    return {each.id: each for each in judge(of, values, claims=claims)}


def needed_by(claim: Claim) -> set[str]:
    return {metric for test in claim.tests for metric in test.metrics()}


def test_sources_own_figures_give_the_expected_verdicts(full: Study) -> None:
    """What paper_data_supports has of each claim comes out of the source's own figures."""
    found = judged(full, source_values(full))
    verdicts = {name: each.verdict for name, each in found.items()}
    assert {name for name, verdict in verdicts.items() if verdict == "supported"} == {
        "H19", "H21", "H22", "H23", "H25", "H26", "H27", "H30", "H31", "H35", "H37", "H38",
    }, verdicts  # fmt: skip
    assert {name for name, verdict in verdicts.items() if verdict == "refuted"} == {
        "H18", "H20", "H24", "H32", "H33", "H34", "H36",
    }, verdicts  # fmt: skip
    assert re.findall(r"\d+", found["H19"].why)[:3] == ["11", "16", "9"]


def at_each(names: Iterable[str], value: float, metric: str) -> dict[str, dict[str, list[float]]]:
    noise = np.random.default_rng(1)
    return {metric: {name: (value * np.exp(noise.normal(0, 0.02, BLOCKS))).tolist() for name in names}}


def round_trips(stalled: Iterable[str], prompt: Iterable[str]) -> dict[str, dict[str, list[float]]]:
    metric = "latency_mean_seconds"
    slow, fast = at_each(stalled, 0.0412, metric), at_each(prompt, 40e-6, metric)
    return {metric: slow[metric] | fast[metric]}


STALLED = ["two_copy@nodelay=64", "two_copy@loopback=64", "two_copy@loopback=4096", "two_copy@large_mtu=4096"]
PROMPT = [
    "two_copy@nodelay=4096", "two_copy_nodelay@nodelay=64", "two_copy_nodelay@loopback=4096",
]  # fmt: skip


def test_size_matrix_gives_the_verdicts_of_the_full_size(full: Study, catalogue: Catalogue) -> None:
    """With the source's own figures both sizes give the same verdicts."""
    matrix = load_study("cse638-pa02", "matrix", (), catalogue)
    blocks = matrix.looks[0].blocks
    values = {
        metric: {name: own[:blocks] for name, own in by_name.items()}
        for metric, by_name in source_values(matrix).items()
    }
    found, whole = judged(matrix, values), judged(full, source_values(full))
    assert {"H18", "H19", "H20", "H24", "H25", "H26", "H32", "H33", "H34", "H35", "H36"} <= found.keys()
    assert {name: each.verdict for name, each in found.items()} == {
        name: each.verdict for name, each in whole.items()
    }


def test_delayed_acknowledgement_is_distinguished_from_overhead(full: Study) -> None:
    found = judged(full, round_trips(STALLED, PROMPT))
    assert (found["H28"].verdict, found["H29"].verdict) == ("refuted", "supported")
    overhead = round_trips([*STALLED, *PROMPT], [])
    other = judged(full, overhead)
    assert (other["H28"].verdict, other["H29"].verdict) == ("supported", "refuted")


@pytest.mark.parametrize(("share", "verdict"), [(1.0, "refuted"), (0.01, "supported")])
def test_zero_copy_is_proved_or_denied_by_its_completions(full: Study, share: float, verdict: str) -> None:
    names = [f"zero_copy@sizes_8={size}" for size in (64, 1024, 4096)]
    values = {"server.copied_share": {name: [share] * BLOCKS for name in names}}
    assert judged(full, values)["H39"].verdict == verdict


def events_of(claim: Claim) -> set[str]:
    """The processor's events that decide it."""
    return {event for event in EVENTS for metric in needed_by(claim) if f".{event}" in metric}


def shown_of(claim: Claim, side: str, event: str) -> list[tuple[dict[str, float], dict[str, float] | None]]:
    """Of which contenders its figures show a side's event."""
    metrics = (f"{side}.{event}", f"{side}.{event}_per_byte")
    return [(figure.weights, figure.over) for figure in claim.figures if figure.metric in metrics]


def test_claims_on_cycles_and_misses_show_client_server_and_both(full: Study) -> None:
    """They are judged by the client's, as in the report, which counted nothing else."""
    claims = {claim.id: claim for claim in load_claims(full) if events_of(claim)}
    assert claims
    for claim in claims.values():
        assert all(f"client.{event}" in " ".join(needed_by(claim)) for event in events_of(claim)), claim.id
        for event in events_of(claim):
            client, server, both = (shown_of(claim, side, event) for side in ("client", "server", "both"))
            assert client and client == server == both, f"{claim.id}: {event}"
    # They are distinguished: a byte costs the client 1, the server 2, both 3.
    amounts = {"client": 1.0, "server": 2.0, "both": 3.0}
    contrasts = [each for claim in claims.values() for each in (*claim.tests, *claim.figures)]
    names = {name for each in contrasts for name in each.contenders()}
    values = {
        metric: {name: [amounts.get(metric.partition(".")[0], 4.0)] * BLOCKS for name in names}
        for metric in {metric for each in contrasts for metric in each.metrics()}
    }
    found = {each.id: each for each in judge(full, values, claims=list(claims.values()))}
    for name, claim in claims.items():
        lines = found[name].our_figure.splitlines()
        for figure in claim.figures:
            [line] = [line for line in lines if line.startswith(f"{figure.label}: ")]
            side = figure.metric.partition(".")[0]
            if side in amounts and not figure.over:
                assert line.startswith(f"{figure.label}: {amounts[side]:.2f} "), line


def test_claims_on_unavailable_counters_have_a_reason(full: Study) -> None:
    """Every claim remains, with its reason and its substitute."""
    hardware = {claim.id for claim in load_claims(full) if events_of(claim)}
    values = source_values(full)
    missing = {name: values.pop(name) for name in list(values) if name.startswith("client.c")}
    reasons = dict.fromkeys(missing, "hidden")
    cpu = {f"{base}@sizes_{t}={s}": [2e-9] * BLOCKS for base in WAYS for t in THREADS for s in SIZES}
    found = {each.id: each for each in judge(full, {**values, "cpu_per_byte": cpu}, unavailable=reasons)}
    assert hardware
    for name in hardware:
        assert found[name].verdict == "not testable here", name
        assert "hidden" in found[name].why, name
    assert ": 2.00 ns" in found["H20"].our_figure
    assert found["H31"].verdict == "supported"


# What a run makes of it -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_window_of_few_messages_has_the_share_of_the_whole_life(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    """Blocking sockets read completions from 16 sends in flight on, and when the connection ends."""
    slow = load_study(
        "cse638-pa02", "quick",
        ("parts=['sizes_1']", "sizes.quick.repetitions=1", "steal=100%", "foreign=100%",
         "load.settings.duration=200ms", "load.settings.think=50ms", "limits=0",
         "counting_cost.trials=0"),
        catalogue,
    )  # fmt: skip
    assert {each.base for each in slow.contenders if each.completes} == {"zero_copy"}
    # On a busy machine the server is read so late that the window has the completions of its end.
    for seed in range(1, 6):
        out = tmp_path / f"out{seed}"
        run_study(slow, out, seed=seed)
        summary = Summary.model_validate_json((out / "summary.json").read_text())
        zero_copy = next(each.metrics for each in summary.contenders if each.name == "zero_copy@sizes_1=64")
        if zero_copy["server.completions"].value == 0:
            break
    assert zero_copy["server.send_calls"].value > 0
    assert zero_copy["server.completions"].value == 0, "or there is nothing to be seen here"
    (remark,) = summary.sweeps[0].remarks
    assert remark.startswith("zero_copy: 100 % ")
    assert ZERO_COPY_SENDS in remark and remark.endswith(OF_LIFE)
    with (out / "original.csv").open(newline="") as file:
        assert [line["copied_share"] for line in csv.DictReader(file)] == ["", "", "1"]


def test_runs_end_to_end_with_the_delayed_acknowledgement_and_the_sources_csv(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    """Real sockets in real namespaces: a reply that is smaller than a segment waits 40 ms, unless TCP_NODELAY
    is on."""
    small = load_study(
        "cse638-pa02", "quick",
        ("parts=['nodelay', 'loopback', 'sizes_1']", "sizes.quick.repetitions=1", "steal=100%",
         "foreign=100%", "load.settings.duration=500ms", "limits=0",
         "counting_cost.trials=1", "counting.contenders=['zero_copy@sizes_1=64']"),
        catalogue,
    )  # fmt: skip
    run_study(small, tmp_path / "out", seed=1)
    summary = Summary.model_validate_json((tmp_path / "out" / "summary.json").read_text())
    found = {each.name: each.metrics for each in summary.contenders}
    trips = {name: metrics["latency_mean_seconds"].value for name, metrics in found.items()}
    for name in ("two_copy@nodelay=64", "two_copy@loopback=64", "two_copy@loopback=4096"):
        assert trips[name] > 0.03, trips
    for name in ("two_copy_nodelay@nodelay=64", "two_copy_nodelay@loopback=4096", "two_copy@nodelay=4096"):
        assert trips[name] < 0.03, trips
    assert found["zero_copy@sizes_1=64"]["server.copied_share"].value == 1.0
    assert any(" 100 % " in each and ZERO_COPY_SENDS in each for each in summary.study.notes)
    with (tmp_path / "out" / "original.csv").open(newline="") as file:
        lines = list(csv.reader(file))
    # If this machine lacks something, a last column names it.
    assert ",".join(lines[0]).removesuffix(",remarks") == (
        "impl,field_size,threads,throughput_gbps,latency_us,cycles,cache_misses,llc_misses,context_switches"
        ",copied_share"
    )
    assert [line[9] for line in lines[1:]] == ["", "", "1"], "a zero-copy figure never stands without it"
    assert [line[:3] for line in lines[1:]] == [["a1", "64", "1"], ["a2", "64", "1"], ["a3", "64", "1"]]
    for line in lines[1:]:
        assert float(line[3]) * 1e3 == pytest.approx(64 * 64 / float(line[4]), rel=0.02)
    sweep = next(each for each in summary.sweeps if each.name == "sizes_1")
    if "client.cpu_cycles_per_byte" in sweep.unavailable:
        assert sweep.substitutes["client.cpu_cycles_per_byte"] == "client.task_clock_per_byte"
        assert all(line[5] == "" and line[10].startswith("cycles") for line in lines[1:])
    kept = [
        TrialRecord.model_validate_json(line) for line in (tmp_path / "out" / TRIALS).read_text().splitlines()
    ]
    if not any(read_late(each) for each in kept if each.contender == "one_copy@sizes_1=64"):
        assert found["one_copy@sizes_1=64"]["cpu_per_byte"].value > 0
    if "client.cpu_cycles_per_byte" not in sweep.unavailable:
        cost = summary.counting_cost
        assert cost is not None and "cpu_cycles" in cost.events
        assert [each.contender for each in cost.contenders] == list(small.counting_cost.contenders)
        assert all(ratio.value > 0 and ratio.pairs == 1 for each in cost.contenders for ratio in each.ratios)
