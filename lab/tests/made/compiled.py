"""What `make build` and the engine's own tests have compiled, for tests that compile the engine once more."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "engine" / "target"))


def target_of_its_own(name: str, profile: str) -> Path:
    """A target folder of cargo's that begins with everything compiled under that profile, if anything was.

    In the engine's own, what a test compiles would take the place of the engine that other tests run.
    """
    own = TARGET / name
    if not own.exists() and (TARGET / profile / "deps").is_dir():
        own.joinpath(profile).mkdir(parents=True)
        # cargo writes a library anew, but its notes over those that are there.
        for part, copy in (("deps", os.link), ("build", shutil.copy2), (".fingerprint", shutil.copy2)):
            shutil.copytree(TARGET / profile / part, own / profile / part, copy_function=copy)
    return own
