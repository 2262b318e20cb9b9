"""Fixtures of the engine and of its catalogue, for the tests of the lab and of the benchmarks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from made.paths import DATA, ROOT
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import find_engine
from thunderherd.errors import UserError

BUILT = [ROOT / "engine" / "target" / kind / "thunderherd-engine" for kind in ("release", "debug")]


@pytest.fixture(scope="session")
def real_engine() -> Path:
    """The engine as it is built; tests that need it are skipped where it is not."""
    for path in BUILT:
        if not os.environ.get("THUNDERHERD_ENGINE") and os.access(path, os.X_OK):
            return path
    try:
        return find_engine()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture
def use_engine(monkeypatch: pytest.MonkeyPatch, real_engine: Path) -> Path:
    """The same, also as what the laboratory finds."""
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(real_engine))
    return real_engine


@pytest.fixture(scope="session")
def some_catalogue() -> Catalogue:
    """What an engine may offer, from a file: no engine is needed."""
    return Catalogue.model_validate_json((DATA / "catalogue.json").read_text())
