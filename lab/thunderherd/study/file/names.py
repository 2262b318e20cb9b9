"""Studies by name: those that come with Thunderherd, the file of one, and how a run of one is typed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from thunderherd.errors import UserError
from thunderherd.toml.file import near, show

__all__ = ["DEFAULT_SIZE", "bundled_studies", "find_study", "typed"]

DEFAULT_SIZE = "quick"
"""The size of a run that names none."""


def typed(study: str, size: str, overrides: Sequence[str]) -> list[str]:
    """The words that run a study once more, but for a seed and a directory.

    study: what names it, see `study.asked_for`.
    """
    chosen = [f"--{size}"] if size in ("quick", "full") else ["--size", size]
    changed = [word for each in overrides for word in ("--set", each)]
    return ["thunderherd", "run", study, *chosen, *changed]


def bundled_studies() -> dict[str, Path]:
    """The studies that come with Thunderherd: name -> file, sorted by name."""
    folder = Path(str(resources.files("thunderherd"))) / "studies"
    files = [path for path in folder.glob("*/*.toml") if path.name != "claims.toml"]
    return {path.stem: path for path in sorted(files, key=lambda path: path.stem)}


def find_study(name_or_path: str) -> Path:
    """The file of a bundled study, or the path itself if it ends in .toml. Raises UserError."""
    if name_or_path.endswith(".toml"):
        return Path(name_or_path)
    bundled = bundled_studies()
    if name_or_path not in bundled:
        known = f"{', '.join(bundled) or 'none'}, or the path of a .toml file"
        raise UserError(f"no such study {show(name_or_path)}; known: {known}{near(name_or_path, bundled)}")
    return bundled[name_or_path]
