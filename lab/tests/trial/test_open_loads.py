"""Open loads with the real engine: their reports, and the consequences of a missed schedule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from made.small_studies import head

import layers
from thunderherd.engine import client
from thunderherd.engine.lines import Check, Closings, LoadResult, Validity
from thunderherd.metrics.table import METRICS, is_of_open_loop
from thunderherd.records.summary import TrialRecord
from thunderherd.statistics.histograms import merged, percentile_ns
from thunderherd.study.loading import Study, load_study
from thunderherd.trial.caveats import AT_CLIENTS, AT_SERVER, MEANINGS, NOWHERE, closing_notes, latency_notes
from thunderherd.trial.faults import faults_of
from thunderherd.trial.load_validity import (
    BUSY,
    CLIENT_LIMITED,
    CUT,
    FOLLOWS,
    GAVE_UP,
    OUTPACED,
    OVERLOADED,
    are_client_limited,
    in_words,
    is_client_limited,
    validity_faults,
    validity_warnings,
    was_overloaded,
)
from thunderherd.trial.observation import Observation
from thunderherd.trial.trial import run_trial

OPEN = head(
    "open", metric="latency_p50_seconds", kind="open", load="processes = 1\n",
    settings='rate = 2000, clients = 4, connections = "kept", duration = "400ms", bytes = 100',
) + """\
[sizes.quick]
repetitions = 1
[[contenders]]
name = "slow"
design = "epoll"
settings = { compute = "2ms" }
[[contenders]]
name = "closed"
design = "epoll"
load = { kind = "closed_connections", settings = { clients = 4, connections = "kept", duration = "1s" } }
[[contenders]]
name = "two"
design = "epoll"
[contenders.load]
kind = "closed_connections"
processes = 2
settings = { clients = 4, connections = "kept", duration = "300ms" }
"""  # fmt: skip


@pytest.fixture(scope="module")
def study(real_engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    file = tmp_path_factory.mktemp("open") / "open.toml"
    file.write_text(OPEN)
    return load_study(str(file), "quick", [], client.catalogue())


@pytest.fixture(scope="module")
def overloaded(study: Study) -> TrialRecord:
    """Requests that take 2 ms arrive every half a millisecond."""
    # On a busy machine the load itself may be late, which is then the first reason.
    for _ in range(15):
        found = run_trial(study, study.contender("slow"), block=1, position=1, seed=1)
        if was_overloaded(found.loads):
            break
    return found


@pytest.fixture(scope="module")
def closed(study: Study) -> TrialRecord:
    return run_trial(study, study.contender("closed"), block=1, position=1, seed=1)


def test_latency_runs_from_when_a_request_was_due(overloaded: TrialRecord) -> None:
    metrics = overloaded.metrics
    assert metrics is not None
    p50, service, wait = (
        float(metrics[f"{name}_p50_seconds"] or 0) for name in ("latency", "service_time", "connection_wait")
    )
    assert p50 > 0.1, "the queue grows for all of 0.4 s"
    assert 0.002 <= service < 0.5 * p50, "four connections at most are in service"
    assert service + wait == pytest.approx(p50, rel=0.3)
    assert metrics["offered_per_second"] == 2000
    assert float(metrics["share_of_offered"] or 0) < 0.5
    assert float(metrics["waited_share"] or 0) > 0.5
    assert float(metrics["in_system"] or 0) > 4
    assert float(metrics["generator_share"] or 0) < 0.95
    assert metrics["latency_p999_seconds"] is None


def test_unachieved_rate_makes_the_trial_invalid(overloaded: TrialRecord) -> None:
    assert not overloaded.valid
    assert overloaded.invalid_reasons[0].startswith("load: achieved_rate = 0.")
    assert "lower load.settings.rate" in overloaded.invalid_reasons[0]
    assert "--" not in overloaded.invalid_reasons[0]


def test_checks_are_called_as_the_engine_calls_them(overloaded: TrialRecord) -> None:
    """Some checks are attributed to the server by name; under another name they would count against the
    load."""
    validity = overloaded.loads[0].validity
    assert validity is not None
    known = {"errors", BUSY, CUT, *OUTPACED, *FOLLOWS, *layers.NEEDED}
    assert known <= {check.name for check in validity.checks}


def test_histograms_are_kept_whole(overloaded: TrialRecord) -> None:
    kept = TrialRecord.model_validate_json(overloaded.model_dump_json(by_alias=True))
    assert kept == overloaded
    (load,) = kept.loads
    assert load.scheduled is not None
    for times in (load.latency, load.scheduled.service_time, load.scheduled.send_lag, load.scheduled.gaps):
        assert times is not None
        assert times.histogram
        both = merged([times.histogram, times.histogram])
        assert both.total_count == 2 * times.requests
        assert percentile_ns(both, 0.5) == pytest.approx(times.p50_ns, rel=2e-3, abs=2)
        assert both.get_max_value() == pytest.approx(times.maximum_ns, rel=2e-3)


def test_a_percentile_of_several_load_processes_is_that_of_all_their_requests(study: Study) -> None:
    trial = run_trial(study, study.contender("two"), block=1, position=1, seed=1)
    assert trial.metrics is not None and len(trial.loads) == 2
    times = [each.latency for each in trial.loads if each.latency is not None]
    together = merged([each.histogram for each in times if each.histogram is not None])
    assert together.total_count == sum(each.requests for each in times)
    for name, part in (("p50", 0.5), ("p99", 0.99)):
        found = float(trial.metrics[f"latency_{name}_seconds"] or 0)
        assert found == (percentile_ns(together, part) or 0) / 1e9
        # A busy machine may leave one of them too few requests for its own.
        own = [value / 1e9 for each in times if (value := getattr(each, f"{name}_ns")) is not None]
        if len(own) == len(times):
            assert min(own) * 0.998 <= found <= max(own) * 1.002


def test_closed_load_has_no_open_load_metrics(closed: TrialRecord) -> None:
    metrics = closed.metrics
    assert metrics is not None
    told = [name for name in METRICS if is_of_open_loop(name) and metrics[name] is not None]
    assert told == []
    assert metrics["latency_p50_seconds"]
    # Requests that stand still at an edge of the window, as on a busy machine, are not counted in whole.
    assert metrics["in_system"] == pytest.approx(4, rel=0.5)


def test_latency_notes_name_the_kind_of_latency(
    study: Study, overloaded: TrialRecord, closed: TrialRecord
) -> None:
    of_closed, of_open = latency_notes(study, [overloaded, closed])
    assert "closed" in of_closed and of_closed.endswith(MEANINGS["sent"])
    assert "slow" in of_open and of_open.endswith(MEANINGS["intended"])
    (alone,) = latency_notes(study, [closed])
    assert alone.endswith(MEANINGS["sent"]) and len(alone) < len(of_closed)


def test_closing_notes_name_ends_other_than_the_clients(
    study: Study, overloaded: TrialRecord, closed: TrialRecord
) -> None:
    assert closing_notes(study, [overloaded, closed]) == []

    def kept(trial: TrialRecord, at_clients: int = 0, at_server: int = 0, reset: int = 0) -> TrialRecord:
        (load,) = trial.loads
        assert load.closings is not None
        own = Closings(
            closed_by_load=at_clients, closed_by_server=at_server, reset_by_load=reset, reset_by_server=0
        )
        return trial.model_copy(update={"loads": [load.model_copy(update={"closings": own})]})

    both_alike = [kept(overloaded, at_server=1), kept(closed, at_server=16)]
    (of_both,) = closing_notes(study, both_alike)
    assert of_both.endswith(f" {AT_SERVER}")
    said = of_both.removesuffix(f" {AT_SERVER}")
    differing = [overloaded, kept(closed, reset=3)]
    assert closing_notes(study, differing) == [f"{said} {AT_CLIENTS} (slow); {NOWHERE} (closed)"]
    now_and_then = [kept(overloaded, 600), kept(overloaded, at_server=300, reset=100), closed]
    assert closing_notes(study, now_and_then) == [
        f"{said} 60 % {AT_CLIENTS}, 30 % {AT_SERVER}, 10 % {NOWHERE} (slow); {AT_CLIENTS} (closed)"
    ]
    assert closing_notes(study, [kept(overloaded, 1000, 1, 1), closed]) == [], "some of thousands"
    assert closing_notes(study, [kept(overloaded, 1, 1000)]) == [of_both]
    of_an_older_engine = closed.loads[0].model_copy(update={"closings": None})
    assert closing_notes(study, [closed.model_copy(update={"loads": [of_an_older_engine]})]) == []


def test_a_closed_load_whose_clients_are_the_limit_is_valid_and_said_to_be_limited(
    study: Study, closed: TrialRecord
) -> None:
    (load,) = closed.loads
    busy = saturated(load)
    seen = Observation(study.contender("closed"), loads=[busy])
    assert list(validity_faults(seen)) == [] and list(validity_warnings(seen)) == [CLIENT_LIMITED]
    assert is_client_limited([load, busy]) and not is_client_limited([load])
    stream = [busy.model_copy(update={"measured_by": "bytes_to_clients"})]
    assert not is_client_limited(stream), "to receive is the clients' part of what is measured"


def test_rates_are_lower_bounds_if_more_than_a_tenth_of_the_trials_were_limited(closed: TrialRecord) -> None:
    limited = closed.model_copy(update={"loads": [saturated(closed.loads[0])]})
    assert not are_client_limited([limited, *[closed] * 9])
    assert are_client_limited([limited, *[closed] * 8])


def test_an_open_load_whose_generator_was_busy_is_invalid(study: Study, overloaded: TrialRecord) -> None:
    busy = saturated(overloaded.loads[0])
    reasons = list(validity_faults(Observation(study.contender(overloaded.contender), loads=[busy])))
    assert reasons[0].startswith("load: generator_cpu = 0.99, ") and " 0.95: " in reasons[0]
    assert "more load.settings.threads" in reasons[0] and "lab.client_cpus" in reasons[0]
    assert not is_client_limited([busy])


@pytest.mark.parametrize(("names", "cause"), [([CUT], CUT), ([GAVE_UP], GAVE_UP), ([GAVE_UP, CUT], CUT)])
def test_load_whose_clients_gave_up_invalidates_its_trial(
    names: list[str], cause: str, study: Study, closed: TrialRecord
) -> None:
    (contender,) = (each for each in study.contenders if each.name == closed.contender)
    checks = [Check(name=name, value=0.9, limit=0.0, holds=False, words="clients gave up") for name in names]
    validity = Validity(valid=False, checks=checks, generators=[], in_system=None)
    load = closed.loads[0].model_copy(update={"validity": validity})
    (reason,) = validity_faults(Observation(contender, loads=[load]))
    assert reason.startswith(f"load: {cause} = 0.9, ") and reason.endswith(" 0: clients gave up")
    *_, second = validity_faults(Observation(contender, loads=[load, load], load_hosts=("a", "b")))
    assert second == f"{reason}, on b"


def test_a_fault_of_a_load_names_its_host_if_there_are_several(study: Study, closed: TrialRecord) -> None:
    (load,) = closed.loads
    failed = [load.model_copy(update={"interrupted": each}) for each in (False, True, True)]

    def faults(*hosts: str) -> list[str]:
        seen = Observation(study.contender("closed"), loads=failed, load_hosts=hosts)
        return [each for each in faults_of(seen) if "interrupted" in each]

    assert faults("a", "b") == ["load: interrupted, on b", "load: interrupted, on a"]
    assert faults("a") == faults() == ["load: interrupted"] * 2


def saturated(load: LoadResult) -> LoadResult:
    assert load.validity is not None
    words = "the client may be what was measured; more --threads, a CPU of its own (--cpus), or a lower rate"
    check = Check(name="generator_cpu", value=0.99, limit=0.95, holds=False, words=words)
    return load.model_copy(
        update={"validity": Validity(valid=None, checks=[check], generators=[], in_system=4.0)}
    )


def test_clients_that_saturate_their_cpus_are_warned_about(study: Study, closed: TrialRecord) -> None:
    """For loads without an event loop, by the CPU time of all their processes."""
    contender = study.contender("closed")
    pinned = contender.model_copy(update={"lab": contender.lab.model_copy(update={"client_cpus": (1,)})})
    (load,) = closed.loads
    # CPU time after the last reply is in their figure, and so is the time that it is compared with.
    times = {"elapsed_ns": 900_000, "counted_from_ns": 1, "counted_to_ns": 1_000_001}
    own = {"validity": None, "system_ns": 0, **times}
    for used, told in ((960_000, 1), (940_000, 0)):
        result = load.model_copy(update={**own, "user_ns": used})
        assert len(list(validity_warnings(Observation(pinned, loads=[result])))) == told
        assert list(validity_warnings(Observation(contender, loads=[result]))) == []


def test_overloaded_trials_are_valid_if_the_study_counts_overload(
    study: Study, overloaded: TrialRecord
) -> None:
    contender, loads = study.contender("slow"), overloaded.loads
    seen = Observation(contender, overload_counts=True, loads=loads)
    assert list(validity_faults(seen)) == []
    assert list(validity_warnings(seen)) == [OVERLOADED]
    # If the load itself was late, the cause of the rest is unknown.
    (load,) = loads
    assert load.validity is not None
    late = Check(name="send_lag", value=1e6, limit=1e5, holds=False, words="the load itself was late")
    validity = load.validity.model_copy(update={"checks": [*load.validity.checks, late]})
    seen = Observation(
        contender, overload_counts=True, loads=[load.model_copy(update={"validity": validity})]
    )
    assert [each.partition(" =")[0] for each in validity_faults(seen)] == ["load: send_lag"]


def test_a_reason_has_times_as_times_and_shares_as_shares() -> None:
    def said(name: str, value: float, limit: float, words: str) -> str:
        return in_words(Check(name=name, value=value, limit=limit, holds=False, words=words))

    late = "nanoseconds by which one request in a hundred was sent too late, or more: more --threads"
    shown = said("send_lag", 1.697e7, 5.435e5, late)
    assert re.match(r"load: send_lag = 17 ms, .* 544 µs: ", shown)
    assert "nanoseconds" not in shown and shown.endswith("more load.settings.threads")
    assert re.match(r"load: gap_mean = 0\.3, .* 0\.05: ", said("gap_mean", 0.3, 0.05, "share by which"))
