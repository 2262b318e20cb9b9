"""The soak in a short form: designs among hostile clients, and a server that has to be found at fault."""

from __future__ import annotations

import random

import pytest
from started import bench

import soak
from thunderherd.engine.client import catalogue

pytestmark = pytest.mark.usefixtures("use_engine")


def test_designs_outlast_hostile_clients() -> None:
    some = [each.name for each in catalogue().designs if each.available][::8]
    # On a busy machine, no honest client may have a reply within a second.
    printed = bench("soak", *some, "--seconds", "3")
    for name in some:
        (row,) = (line.split() for line in printed.splitlines() if line.startswith(name + " "))
        assert int(row[1].replace(",", "")) > 0 and int(row[5].replace(",", "")) > 0, printed


def test_a_server_that_idle_clients_hold_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(soak, "IDLE_TIMEOUT", 0)
    monkeypatch.setattr(soak, "PATIENCE", 0.3)
    (one_at_a_time, *_) = catalogue().designs
    assert any("honest client" in each for each in soak._soak(one_at_a_time, 3.0, random.Random(1)))
