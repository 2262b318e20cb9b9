"""Studies by name: the bundled studies, the file of a study, and the command that runs it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.toml.file import unknown

__all__ = ["DEFAULT_SIZE", "bundled_studies", "find_study", "typed"]

DEFAULT_SIZE = "quick"
"""The size of a run if the user names none."""


def typed(study: str, size: str, overrides: Sequence[str]) -> list[str]:
    """Return the command that runs a study again, without a seed and a directory.

    `study` is its name or path, see `study.loading.asked_for`.
    """
    chosen = [f"--{size}"] if size in ("quick", "full") else ["--size", size]
    changed = [word for each in overrides for word in ("--set", each)]
    return ["thunderherd", "run", study, *chosen, *changed]


def bundled_studies() -> dict[str, Path]:
    """Return the files of the bundled studies by name, sorted."""
    folder = Path(str(resources.files("thunderherd"))) / "studies"
    files = [path for path in folder.glob("*/*.toml") if path.name != "claims.toml"]
    return {path.stem: path for path in sorted(files, key=lambda path: path.stem)}


def find_study(name_or_path: str) -> Path:
    """Return the file of a bundled study, or the path itself if it ends in .toml; else raise UserError."""
    if name_or_path.endswith(".toml"):
        return Path(name_or_path)
    bundled = bundled_studies()
    if name_or_path not in bundled:
        found = unknown("study", name_or_path, [*bundled, "FILE.toml"])
        raise UserError(found)
    return bundled[name_or_path]
