"""How the engine is linked, and what that costs a forked child: CPU time, page faults, and mappings.

A child copies its parent's mappings and page tables, and maps its code anew. The engine is linked in five
ways, from the same sources, and serves `fork_per_client` beside the plain C program, itself linked in two.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from textbook import CPU, STUDY, counted, cpu_shown, ratio_shown, rounds
from thunderherd.engine.client import catalogue
from thunderherd.errors import UserError
from thunderherd.records.summary import Summary
from thunderherd.run.runner import run_study
from thunderherd.study.loading import load_study

ENGINE = Path(__file__).resolve().parents[1] / "engine"
BUILDS = ENGINE / "target" / "linking"
BUILD_SECONDS = 330
"""The time to build all of them, about; a second run finds them built."""
ROUNDS, SECONDS = 20, 0.9
"""Usual number of rounds, and the time of a trial."""
STATIC, FIXED = ("-C", "target-feature=+crt-static"), ("-C", "relocation-model=static")
DYNAMIC_FIXED = (*FIXED, "-C", "link-arg=-no-pie")
IN_ONE_PLACE, SCATTERED = True, False
SCRIPT = "serving.ld"
"""The linker script that puts the code of connections in one place; without it, an empty one is linked."""
EMPTY = "SECTIONS { } INSERT BEFORE .text;\n"


@dataclass(frozen=True)
class Way:
    """A way to link the engine: the compiler's options, and where the code of connections lies."""

    words: str
    options: tuple[str, ...]
    gathered: bool


WAYS = {
    "shipped": Way("static, position-independent, code in one place", STATIC, IN_ONE_PLACE),
    "fixed": Way("static, fixed addresses, code in one place", (*STATIC, *FIXED), IN_ONE_PLACE),
    "dynamic_fixed": Way("dynamic, fixed addresses, code in one place", DYNAMIC_FIXED, IN_ONE_PLACE),
    "scattered": Way("static, position-independent, code scattered", STATIC, SCATTERED),
    "dynamic": Way("dynamic, position-independent, code scattered", (), SCATTERED),
}
PROGRAMS = {"c_static": ("C, static", "-static"), "c": ("C, dynamic", "")}
BASE = "c"


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("--rounds", type=rounds, default=ROUNDS, help=f"rounds (default {ROUNDS})")
    parser.add_argument("--seed", type=int, default=None, help="seed of the order (default: drawn)")


def seconds(given: argparse.Namespace) -> float:
    """Return the expected duration in seconds."""
    return float(BUILD_SECONDS + given.rounds * (len(WAYS) + len(PROGRAMS)) * SECONDS)


def run(given: argparse.Namespace) -> None:
    """Build, run the study, and print a line for each way."""
    engines = {name: built(name, way) for name, way in WAYS.items()}
    with tempfile.TemporaryDirectory() as folder:
        study = load_study(str(written(Path(folder), engines, given.rounds)), "quick", (), catalogue())
        summary = run_study(study, Path(folder) / "run", seed=given.seed)
    print(f"\n{'':50}{'CPU':>8}{'ratio to':>25}{'page':>8}{'map-':>7}")
    print(f"{'fork_per_client':50}{'(µs)':>8}{'C, dynamic':>25}{'faults':>8}{'pings':>7}")
    for line in lines(summary, engines):
        print(line)
    print("CPU time and page faults are per connection. In brackets: 95 % intervals.")


def built(name: str, way: Way) -> Path:
    """Build the engine in this way; return the program.

    Raises UserError if the compiler cannot, for instance without a static C library.
    """
    sources = BUILDS / "sources"
    shutil.copytree(ENGINE, sources, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target", SCRIPT))
    _write(sources / SCRIPT, (ENGINE / SCRIPT).read_text(encoding="utf-8") if way.gathered else EMPTY)
    print(f"building {name}: {way.words}", flush=True)
    command = ["cargo", "rustc", "--release", "--locked", "--quiet", "--bin", "thunderherd-engine"]
    ended = subprocess.run(
        [*command, "--target-dir", BUILDS / "target", "--", *way.options],
        cwd=sources, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        reason = (ended.stderr.strip() or "cargo failed").splitlines()[-1]
        raise UserError(f"{name} was not built: {reason}", code="bench.not_built")
    program = BUILDS / "programs" / name
    program.parent.mkdir(exist_ok=True)
    shutil.copy2(BUILDS / "target" / "release" / "thunderherd-engine", program)
    return program


def _write(path: Path, text: str) -> None:
    """Write a file unless it has that text: cargo compares times."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def written(folder: Path, engines: Mapping[str, Path], looks: int) -> Path:
    """Write the study: the head of the textbook's, then a contender for each program."""
    head = STUDY.read_text(encoding="utf-8").partition("[comparisons]")[0]
    names = [*engines, *PROGRAMS]
    pairs = [[name, BASE] for name in names if name != BASE]
    parts = [
        head,
        f"[comparisons]\nall_pairs = false\npairs = {json.dumps(pairs)}",
        f"[sizes.quick]\nlooks = [{looks}]\nalpha_split = [1.0]",
    ]
    for name, program in engines.items():
        command = [str(program), "serve", "fork_per_client", "--port", "{port}", "--nodelay", "false"]
        parts.append(f'[[contenders]]\nname = "{name}"\ncommand = {json.dumps(command)}')
    for name, (_, flags) in PROGRAMS.items():
        build = ["make", "-s", "-C", str(STUDY.parent), f"BUILD={{build}}/{name}", f"CFLAGS={flags}"]
        parts.append(
            f'[[contenders]]\nname = "{name}"\ncommand = ["{{build}}/{name}/fork_per_client"]\n'
            f"build = {json.dumps(build)}"
        )
    path = folder / "linking.toml"
    path.write_text("\n".join([*parts, ""]), encoding="utf-8")
    return path


def lines(summary: Summary, engines: Mapping[str, Path]) -> list[str]:
    """Return a line for each way to link the engine and the C program."""
    contenders = {each.name: each for each in summary.contenders}
    pairs = {pair.a: pair for pair in summary.pairs if pair.metric == CPU}
    words = {name: way.words for name, way in WAYS.items()} | {name: of[0] for name, of in PROGRAMS.items()}
    found = []
    for name, text in words.items():
        ratio = ratio_shown(pairs[name]) if name in pairs else ""
        maps = str(mappings(engines[name])) if name in engines else ""
        cpu, faults = cpu_shown(contenders[name]), counted(summary, name, "page_faults")
        found.append(f"{text:50}{cpu:>8}{ratio:>25}{faults:>8}{maps:>7}")
    return found


def mappings(program: Path) -> int:
    """Return the number of mappings of a server of this engine, which each child copies."""
    command = [str(program), "serve", "fork_per_client", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as server:
        try:
            assert server.stdout is not None
            os.read(server.stdout.fileno(), 1)
            return len(Path(f"/proc/{server.pid}/maps").read_text(encoding="utf-8").splitlines())
        finally:
            server.kill()
