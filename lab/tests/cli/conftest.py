"""The stand-in engine, for tests of commands that check its exact output."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made.stand_in import CATALOGUE, STAND_IN


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replaces the engine by the stand-in."""
    engine = tmp_path / "stand-in"
    engine.write_text(STAND_IN)
    engine.chmod(0o755)
    Path(f"{engine}.catalogue").write_text(json.dumps(CATALOGUE))
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(engine))
    return engine
