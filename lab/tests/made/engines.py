"""Fixtures of the built engine and its catalogue, for all tests, and target folders of cargo."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from made.paths import DATA, ROOT
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.client import find_engine
from thunderherd.errors import UserError

BUILT = [ROOT / "engine" / "target" / kind / "thunderherd-engine" for kind in ("release", "debug")]


@pytest.fixture(scope="session")
def real_engine() -> Path:
    """Returns the built engine; skips the test if there is none."""
    for path in BUILT:
        if not os.environ.get("THUNDERHERD_ENGINE") and os.access(path, os.X_OK):
            return path
    try:
        return find_engine()
    except UserError as error:
        pytest.skip(str(error))


@pytest.fixture
def use_engine(monkeypatch: pytest.MonkeyPatch, real_engine: Path) -> Path:
    """Returns the built engine, and makes the lab use it."""
    monkeypatch.setenv("THUNDERHERD_ENGINE", str(real_engine))
    return real_engine


@pytest.fixture(scope="session")
def some_catalogue() -> Catalogue:
    """Reads an engine's catalogue from a file, so that no engine is needed."""
    return Catalogue.model_validate_json((DATA / "catalogue.json").read_text())


TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "engine" / "target"))


def target_of_its_own(name: str, profile: str) -> Path:
    """Returns a separate target folder of cargo, with copies of everything compiled under a profile.

    In the engine's target folder, a test's build would replace the engine that other tests run.
    """
    own = TARGET / name
    if not own.exists() and (TARGET / profile / "deps").is_dir():
        own.joinpath(profile).mkdir(parents=True)
        # cargo replaces a library, which may be linked, but overwrites its notes, which must be copied.
        for part, copy in (("deps", os.link), ("build", shutil.copy2), (".fingerprint", shutil.copy2)):
            shutil.copytree(TARGET / profile / part, own / profile / part, copy_function=copy)
    return own


def processes_of(engine: Path) -> dict[int, str]:
    """The processes that run this engine file, by process id: their command lines. Zombies do not count."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if (entry / "exe").readlink() == engine:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found
