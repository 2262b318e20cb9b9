"""Finds the engine's executable."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from thunderherd.errors import UserError

ENGINE_NAME = "thunderherd-engine"


def find_engine() -> Path:
    """Return the engine's executable: $THUNDERHERD_ENGINE, else next to this Python, else on PATH.

    Raise `UserError` if there is none, or if it is not executable.
    """
    named = os.environ.get("THUNDERHERD_ENGINE")
    if named:
        if not os.access(named, os.X_OK) or Path(named).is_dir():
            raise UserError(
                f"THUNDERHERD_ENGINE is {named!r}, which is not an executable file",
                code="engine.not_executable",
                hint="set it to the engine's path, or unset it",
            )
        return Path(named).absolute()
    beside = Path(sys.executable).parent / ENGINE_NAME
    if os.access(beside, os.X_OK):
        return beside
    on_path = shutil.which(ENGINE_NAME)
    if on_path:
        return Path(on_path).absolute()
    raise UserError(
        f"no {ENGINE_NAME} next to {sys.executable} or on PATH",
        code="engine.not_found",
        hint="run `make build`, or set THUNDERHERD_ENGINE to its path",
    )
