"""Runs the engine's tests, several of its test programs at once: most of their time they wait.

.venv/bin/python tools/engine_tests.py    compiles what is not compiled; exit status 1 if any of them fails
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

ENGINE = Path(__file__).resolve().parents[1] / "engine"
CARGO = ("cargo", "test", "--locked")
AT_ONCE = 2
"""Test programs at the same time, each of which has threads of its own: more would only wait for CPUs."""

LONG = ("conformance", "engine", "thunderherd_engine")
"""What takes longest begins, so that at the end nothing is waited for alone. A program that is not named here
is run as well, behind these, in the order of the names."""

TELLS_OF_ITSELF = ("conformance",)
"""Programs whose own main lists what it skips; of others, libtest keeps what a test that passes has said."""


class Program(NamedTuple):
    """A test program, and what cargo would be told to run it."""

    words: str
    command: tuple[str, ...]


def programs() -> list[Program]:
    """All of them, compiled. Raises CalledProcessError where that fails; what the compiler says is shown.
    Exits where a name above is of none of them."""
    told = subprocess.run(
        [*CARGO, "--no-run", "--message-format=json-render-diagnostics"],
        cwd=ENGINE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = []
    for message in map(json.loads, told.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            (kind, *_), name = message["target"]["kind"], message["target"]["name"]
            words = f"--test {name}" if kind == "test" else "--lib"
            more = () if name in TELLS_OF_ITSELF else ("--show-output",)
            found.append((name, Program(words, (message["executable"], *more))))
    names = {name for name, _ in found}
    if lost := {*LONG, *TELLS_OF_ITSELF} - names:
        sys.exit(f"engine_tests.py names {', '.join(sorted(lost))}; there are {', '.join(sorted(names))}")
    place = {name: place for place, name in enumerate(LONG)}
    found.sort(key=lambda each: (place.get(each[0], len(LONG)), each[0]))
    return [program for _, program in found]


def run(program: Program) -> subprocess.CompletedProcess[str]:
    """One of them, to its end, where cargo runs it; both its outputs are one."""
    return subprocess.run(
        program.command,
        cwd=ENGINE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def told(output: str) -> str:
    """What a test program printed; of tests that passed only what they skipped, and why."""
    before, found, after = output.partition("\nsuccesses:\n")
    if not found:
        return output
    end = re.search(r"^(failures:|test result: )", after, re.MULTILINE)
    passed, rest = (after[: end.start()], after[end.start() :]) if end else (after, "")
    skipped, name = [], ""
    for line in passed.splitlines():
        if heading := re.fullmatch(r"---- (.+) stdout ----", line):
            name = heading[1]
        elif "skipped" in line:
            skipped.append(f"{name}: {line}")
    return "\n".join([before, *skipped, "", rest])


def main() -> int:
    """Runs them all, whatever becomes of the others, and shows what each has printed once it has ended."""
    failed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run, program): program.words for program in programs()}
        for each in as_completed(running):
            done = each.result()
            print(f"==> cargo test {running[each]}\n{told(done.stdout).strip()}\n", flush=True)
            if done.returncode:
                failed.append(running[each])
    if failed:
        print(f"failed: {'; '.join(f'cargo test {words}' for words in failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
