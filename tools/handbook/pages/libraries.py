"""The libraries that the engine contains, with their licences, from Cargo."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from handbook.markdown import ROOT, made_from, page, table
from handbook.pages.reference import FOLDER

DOCUMENT = FOLDER / "libraries.md"
PLATFORM = "x86_64-unknown-linux-gnu"


def documents() -> dict[Path, str]:
    """Return the page, by path below the root."""
    return {DOCUMENT: document(contained())}


def document(packages: list[dict[str, Any]]) -> str:
    """Write the page."""
    return page(
        "# Libraries of the engine",
        made_from("engine/Cargo.lock"),
        f"The engine contains these {len(packages)} libraries of other authors, on {PLATFORM}. Their "
        "licences are those that their authors name to Cargo. [THIRD_PARTY.md](../../../THIRD_PARTY.md) has "
        "the notices of those that ask for more than MIT and Apache-2.0 do. Libraries that only tests and "
        "builds use are not among them.",
        table(["library", "version", "licence"], map(_row, packages)),
    )


def _row(package: dict[str, Any]) -> tuple[str, str, str]:
    name = package["name"]
    return f"[{name}](https://crates.io/crates/{name})", package["version"], _licence(package)


def _licence(package: dict[str, Any]) -> str:
    """Return the licence in SPDX's words; an old form of Cargo has a slash for `OR`."""
    return " OR ".join(each.strip() for each in str(package["license"]).split("/"))


def contained() -> list[dict[str, Any]]:
    """Return the packages that are linked into the engine, by name."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", PLATFORM]
    done = subprocess.run(command, cwd=ROOT / "engine", capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    nodes = {each["id"]: each for each in found["resolve"]["nodes"]}
    packages = {each["id"]: each for each in found["packages"]}
    left, seen = [found["resolve"]["root"]], set[str]()
    while left:
        # The compiler runs macros, so the program contains neither them nor what they use.
        if (name := left.pop()) in seen or _is_macro(packages[name]):
            continue
        seen.add(name)
        # Nor does it contain what a test or a build script uses.
        left += [
            each["pkg"]
            for each in nodes[name]["deps"]
            if any(kind["kind"] is None for kind in each["dep_kinds"])
        ]
    seen.remove(found["resolve"]["root"])
    return sorted((packages[name] for name in seen), key=lambda each: (each["name"], each["version"]))


def _is_macro(package: dict[str, Any]) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])
