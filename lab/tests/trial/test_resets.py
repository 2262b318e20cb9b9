"""Trials whose clients end their connections by RST: resets that the study asks for are no errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.small_studies import one_block

from thunderherd.engine import client
from thunderherd.study.loading import Study, load_study
from thunderherd.trial import faults
from thunderherd.trial.trial import run_trial

SETTINGS = 'clients = 4, duration = "200ms", warm_up = "50ms", bytes = 64'
# A metric of the clients: on a busy machine the server may be read too late for one of its own.
METRIC = "requests_per_second"
STUDY = (
    one_block("resets", workload="echo", kind="closed_connections", settings=SETTINGS, metric=METRIC)
    + """\
[[contenders]]
name = "epoll"
design = "epoll"
"""
)

pytestmark = pytest.mark.usefixtures("use_engine")


def study(directory: Path, *settings: str) -> Study:
    path = directory / "resets.toml"
    path.write_text(STUDY)
    return load_study(str(path), "quick", [f"load.settings.{each}" for each in settings], client.catalogue())


@pytest.mark.parametrize("connections", ["per_request", "kept"])
def test_connections_that_clients_end_by_rst_are_no_errors(connections: str, tmp_path: Path) -> None:
    made = study(tmp_path, "closing=reset", f"connections={connections}")
    found = run_trial(made, made.contenders[0], block=1, position=1, seed=1)
    assert found.valid, found.invalid_reasons
    assert found.summary and found.summary.tally and found.summary.tally.errors.get("reset", 0) > 0


def test_a_reset_that_the_study_does_not_ask_for_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = study(tmp_path, "closing=reset", "connections=per_request")
    monkeypatch.setattr(faults, "BY_RESET", "no such way")
    found = run_trial(made, made.contenders[0], block=1, position=1, seed=1)
    assert found.summary and found.summary.tally
    number = found.summary.tally.errors["reset"]
    assert [reason for reason in found.invalid_reasons if f"{number} reset" in reason]


def test_a_connection_that_the_server_closes_as_idle_while_a_request_comes_is_no_error(
    tmp_path: Path,
) -> None:
    """The client sends that request again."""
    path = tmp_path / "idle.toml"
    text = STUDY.replace('"echo"\n', '"http"\nsettings = { idle_timeout = "20ms" }\n')
    text = text.replace('clients = 4, duration = "200ms", warm_up = "50ms", bytes = 64', SLOW)
    path.write_text(text)
    made = load_study(str(path), "quick", (), client.catalogue())
    found = run_trial(made, made.contenders[0], block=1, position=1, seed=1)
    assert found.valid, found.invalid_reasons
    (load,) = found.loads
    assert load.tally.closed_idle + load.tally.sent_again > 0 and load.tally.errors == {}


SLOW = 'clients = 16, connections = "kept", think = "27ms", duration = "1s", warm_up = "50ms"'
