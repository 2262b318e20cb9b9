"""The agent in one file, for hosts on which this program is not installed.

The file has this program, its engine, and the libraries that an agent imports, as they are installed here.
There it needs no network, only a Python of the same version.
"""

from __future__ import annotations

import hashlib
import io
import platform
import sys
import tarfile
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path

from thunderherd.engine.places.executable import find_engine

FOLDER = ".local/share/thunderherd/agents"
"""The folder of agents on a host, below the user's home."""
LIBRARIES = ("distributed", "numpy", "psutil", "pydantic")
"""The libraries that an agent imports, without those that they need themselves."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
AGENT = f"""\
#!/bin/sh
# Written by `thunderherd hosts --install`; `--uninstall` removes the folder.
here=$(dirname "$0")
THUNDERHERD_ENGINE="$here/thunderherd-engine" PYTHONPATH="$here/site" PYTHONNOUSERSITE=1
export THUNDERHERD_ENGINE PYTHONPATH PYTHONNOUSERSITE
for python in {PYTHON} python3; do
    command -v "$python" >/dev/null && exec "$python" -m thunderherd.hosts.agent "$@"
done
echo "there is no python3 here" >&2
exit 127
"""


@cache
def code_hash() -> str:
    """Return a hash of this program's files. Hosts must have the same: they run each other's functions."""
    found = hashlib.sha256()
    for path in _package_files():
        found.update(f"{path.relative_to(_package())}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


@cache
def engine_hash() -> str:
    """Return a hash of the engine."""
    return hashlib.sha256(find_engine().read_bytes()).hexdigest()


def bundle_name() -> str:
    """Return the name of the agent's folder, which says all that must be equal."""
    both = hashlib.sha256(f"{code_hash()} {engine_hash()}".encode()).hexdigest()
    return f"{metadata.version('thunderherd')}-{PYTHON}-{platform.machine()}-{both[:16]}"


def write_bundle(path: Path) -> str:
    """Write the file, and return its SHA-256."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        _add_text(archive, "agent", AGENT)
        archive.add(find_engine(), "thunderherd-engine")
        for file in _package_files():
            archive.add(file, f"site/thunderherd/{file.relative_to(_package())}")
        for name in sorted({"thunderherd", *_with_needed(LIBRARIES)}):
            for file, place in _files_of(name):
                archive.add(file, f"site/{place}", recursive=False)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _add_text(archive: tarfile.TarFile, name: str, text: str) -> None:
    about = tarfile.TarInfo(name)
    about.size, about.mode = len(text.encode()), 0o700
    archive.addfile(about, io.BytesIO(text.encode()))


def _package() -> Path:
    return Path(__file__).parents[1]


def _package_files() -> list[Path]:
    return sorted(
        path for path in _package().rglob("*") if path.is_file() and path.parent.name != "__pycache__"
    )


def _files_of(name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files of a library, and their places; of this program, only what says its version."""
    for each in metadata.distribution(name).files or ():
        place = str(each)
        if place.startswith("..") or "__pycache__" in place or place.endswith(".pth"):
            continue
        if name == "thunderherd" and ".dist-info/" not in place:
            continue
        file = Path(str(each.locate()))
        if file.is_file():
            yield file, place


def _with_needed(names: tuple[str, ...]) -> set[str]:
    """Return libraries and all that they need."""
    from packaging.requirements import Requirement

    found: set[str] = set()
    to_come = list(names)
    while to_come:
        name = to_come.pop()
        if name in found:
            continue
        found.add(name)
        for text in metadata.distribution(name).requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                to_come.append(needed.name)
    return found
