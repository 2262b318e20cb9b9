"""Claims that need the processor's counters: decided on a machine that has them, explained on one that hides
them.

The counts come from a stand-in that is marked as such (`counters_by_decree`).
"""

from __future__ import annotations

from functools import cache

import pytest
from made.summaries.counters_by_decree import OF_A_PROCESSOR, Counters
from made.summaries.hidden_counters import HIDDEN, by_the_report, cse232, table

from thunderherd.claims.claim_file import Claim, load_claims
from thunderherd.engine import client
from thunderherd.metrics.table import counters_of
from thunderherd.records.summary import ClaimSummary, Summary
from thunderherd.study.loading import Contender, Study, load_study


def needs_a_processor(claim: Claim) -> bool:
    """Whether one of its tests needs an event of the processor."""
    metrics = {metric for test in claim.tests for metric in test.metrics()}
    return any(set(counters_of(metric)) & set(OF_A_PROCESSOR) for metric in metrics)


def of_a_processor(of: Study, summary: Summary) -> dict[str, ClaimSummary]:
    wanted = {claim.id for claim in load_claims(of) if needs_a_processor(claim)}
    return {claim.id: claim for claim in summary.claims if claim.id in wanted}


# CSE 232 A2 -------------------------------------------------------------------------------------------------


def cse232_on(counters: Counters) -> dict[str, ClaimSummary]:
    return of_a_processor(cse232(), counters.summary(cse232()))


def test_source_counts_decide_the_claims_of_cse232() -> None:
    """The report's own figures, as if every run had counted them: only H06 fails with them."""
    found = cse232_on(Counters(by_the_report, requests=lambda contender: 4, noise=0.001))
    assert {name: claim.verdict for name, claim in found.items()} == {
        **dict.fromkeys(("H03", "H04", "H05", "H07", "H08", "H10", "H11"), "supported"),
        "H06": "refuted",
    }


def test_cse232_claims_are_not_testable_without_processor_counters() -> None:
    found = cse232_on(Counters(by_the_report, hidden=dict.fromkeys(OF_A_PROCESSOR, HIDDEN)))
    assert {claim.verdict for claim in found.values()} == {"not testable here"}
    assert all(HIDDEN in claim.why for claim in found.values())


# CSE 638 PA02 -----------------------------------------------------------------------------------------------


@cache
def cse638() -> Study:
    parts = "parts=['sizes_1', 'sizes_2', 'sizes_4', 'sizes_8']"
    return load_study("cse638-pa02", "matrix", (parts, "looks=[20]"), client.catalogue())


IMPLEMENTATIONS = {"two_copy": "a1", "one_copy": "a2", "zero_copy": "a3"}
COLUMNS = {"cpu_cycles": "cycles", "llc_load_misses": "llc_misses", "l1_dcache_load_misses": "cache_misses"}


@cache
def cells() -> dict[tuple[str, str, str], dict[str, str]]:
    return {(row["impl"], row["field_size"], row["threads"]): row for row in table(cse638(), "veth.csv")}


def cell(contender: Contender) -> dict[str, str]:
    size, threads = contender.settings["field_size"], contender.load.settings["clients"]
    return cells()[IMPLEMENTATIONS[contender.base], str(size), str(threads)]


def by_the_data(contender: Contender, side: str, counter: str) -> float:
    """The author's counts of the client; the server, which the author does not report, is given the same. CPU
    time, which was not counted, assumes 3 GHz."""
    if counter == "task_clock":
        return float(cell(contender)["cycles"]) / 3
    return float(cell(contender)[COLUMNS.get(counter, counter)])


def machine_of_cse638(**changes: object) -> Counters:
    return Counters(
        by_the_data,
        requests=lambda contender: round(10e6 / float(cell(contender)["latency_us"])),
        payload=lambda contender: 8 * int(contender.settings["field_size"]),
        seconds=lambda contender: 10.0,
        **changes,  # type: ignore[arg-type]
    )


def test_source_counts_decide_the_claims_of_cse638() -> None:
    found = of_a_processor(cse638(), machine_of_cse638().summary(cse638()))
    assert {name: claim.verdict for name, claim in found.items()} == {
        **dict.fromkeys(("H21", "H22", "H23", "H25", "H26", "H37"), "supported"),
        **dict.fromkeys(("H20", "H24", "H32"), "refuted"),
    }


@pytest.mark.thorough
def test_cse638_claims_are_not_testable_without_processor_counters() -> None:
    hidden = dict.fromkeys(OF_A_PROCESSOR, HIDDEN)
    found = of_a_processor(cse638(), machine_of_cse638(hidden=hidden).summary(cse638()))
    assert {claim.verdict for claim in found.values()} == {"not testable here"}
    assert all(HIDDEN in claim.why for claim in found.values())
