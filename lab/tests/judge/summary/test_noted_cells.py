"""Each empty cell of `trials.csv` has its reason, and each extrapolated one its share.

The machine is made up: `counters_by_decree`.
"""

from __future__ import annotations

import polars
import pytest
from made.summaries.counters_by_decree import Counters

from thunderherd.engine import client
from thunderherd.judge.summary.noted_cells import (
    NO_MEANING,
    TOO_FEW,
    extrapolated_cells,
    unavailable_cells,
    write_noted_cells,
)
from thunderherd.records.directory import RunInfo, SavedRun
from thunderherd.run.results_folder import FILES
from thunderherd.study.loading import Study, load_study

HIDDEN = "the stand-in is configured without them"
MACHINE = Counters(
    lambda contender, side, counter: 1e6, hidden={"bus_cycles": HIDDEN}, shares={"cpu_cycles": 0.4}
)


@pytest.fixture(scope="module")
def study() -> Study:
    asked = "measure.counters=['cycles', 'instructions', 'bus-cycles', 'task-clock']"
    return load_study("self-test", "quick", [asked], client.catalogue())


@pytest.fixture(scope="module")
def results(study: Study, tmp_path_factory: pytest.TempPathFactory) -> SavedRun:
    info = RunInfo(
        study=study.model_dump(mode="json"), digest="", seed=1, overrides=[], command=[],
        started="2025-01-02T03:04:05+00:00", version="0.1.0", machine={},
    )  # fmt: skip
    trials = MACHINE.trials(study)
    invalid = trials[0].model_copy(update={"valid": False, "invalid_reasons": ["it was not answered"]})
    path = tmp_path_factory.mktemp("run")
    return SavedRun(path, info, [invalid, *trials], MACHINE.summary(study))


def test_each_empty_cell_of_a_valid_trial_has_its_reason(study: Study, results: SavedRun) -> None:
    results.write_tidy()
    write_noted_cells(study, results)
    table = polars.read_csv(results.path / "trials.csv", infer_schema_length=None).filter(polars.col("valid"))
    why = polars.read_csv(results.path / "unavailable.csv")
    told = {(row["contender"], row["column"]): 0 for row in why.iter_rows(named=True)}
    for row in why.iter_rows(named=True):
        told[row["contender"], row["column"]] += row["trials"]
    figures = [
        name for name in table.columns if name == "requests" or "." in name or name in {*why["column"]}
    ]
    for contender in {*table["contender"]}:
        own = table.filter(polars.col("contender") == contender)
        for name in figures:
            assert told.get((contender, name), 0) == own[name].null_count(), (contender, name)
    reasons = {(row["contender"], row["column"]): row["why"] for row in why.iter_rows(named=True)}
    for name in ("server.bus_cycles", "client.bus_cycles_per_request", "both.bus_cycles_per_request"):
        assert reasons["prefork", name] == HIDDEN
    assert reasons["prefork", "clients_per_worker_sd"] == NO_MEANING
    assert reasons["prefork", "latency_p50_seconds"].startswith(TOO_FEW.format(20))


def test_each_extrapolated_cell_is_named_with_its_share(results: SavedRun) -> None:
    found = extrapolated_cells(results)
    assert {*found["counter"]} == {"server.cpu_cycles", "client.cpu_cycles"}
    assert found["share_of_time"].to_list() == pytest.approx([0.4] * len(found))
    assert len(found) == 2 * len(results.trials)
    columns = found.filter(polars.col("counter") == "server.cpu_cycles")["columns"][0].split()
    assert {"server.cpu_cycles", "server.cpu_cycles_per_request", "server.instructions_per_cycle"} <= {
        *columns
    }
    assert not {"server.instructions", "client.cpu_cycles"} & {*columns}
    assert {*columns} <= {*results.frame().columns}


def test_table_of_extrapolated_cells_is_empty_if_all_are_exact(study: Study, results: SavedRun) -> None:
    exact = SavedRun(results.path, results.run, Counters(lambda *_: 1e6).trials(study), None)
    assert extrapolated_cells(exact).is_empty()
    assert extrapolated_cells(exact).columns == extrapolated_cells(results).columns
    assert HIDDEN not in {*unavailable_cells(study, exact)["why"]}


def test_readme_of_a_results_directory_names_both_files_of_noted_cells() -> None:
    assert {"extrapolated.csv", "unavailable.csv"} <= {*FILES}
