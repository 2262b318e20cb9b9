"""Runs the engine's test programs, two at a time, since they spend most of their time waiting.

.venv/bin/python tools/engine_tests.py    compiles them if needed; exit status 1 if any of them fails
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
"""Test programs at a time. Each has several threads, so more programs would only wait for CPUs."""

LONG = ("conformance", "engine", "thunderherd_engine")
"""The longest programs start first, so that none runs alone at the end. Other programs follow in the order of
their names."""

THREADS = {"engine": 5}
"""Tests at a time in programs whose tests mostly wait: for windows, timeouts and child processes."""

TELLS_OF_ITSELF = ("conformance",)
"""Programs that print which tests they skip. The others need an option to show what passed tests print."""


class Program(NamedTuple):
    """A test program, and the options of `cargo test` that run it."""

    words: str
    command: tuple[str, ...]


def programs() -> list[Program]:
    """Compile all test programs and return them.

    The compiler's messages are shown. Raises CalledProcessError if compiling fails. Exits if a name
    above belongs to no program.
    """
    done = subprocess.run(
        [*CARGO, "--no-run", "--message-format=json-render-diagnostics"],
        cwd=ENGINE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found = []
    for message in map(json.loads, done.stdout.splitlines()):
        if message["reason"] == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            (kind, *_), name = message["target"]["kind"], message["target"]["name"]
            words = f"--test {name}" if kind == "test" else "--lib"
            more = () if name in TELLS_OF_ITSELF else ("--show-output",)
            threads = ("--test-threads", str(THREADS[name])) if name in THREADS else ()
            found.append((name, Program(words, (message["executable"], *threads, *more))))
    names = {name for name, _ in found}
    if lost := {*LONG, *THREADS, *TELLS_OF_ITSELF} - names:
        sys.exit(f"engine_tests.py names {', '.join(sorted(lost))}; there are {', '.join(sorted(names))}")
    place = {name: place for place, name in enumerate(LONG)}
    found.sort(key=lambda each: (place.get(each[0], len(LONG)), each[0]))
    return [program for _, program in found]


def run(program: Program) -> subprocess.CompletedProcess[str]:
    """Run a test program in cargo's folder; join both of its outputs."""
    return subprocess.run(
        program.command,
        cwd=ENGINE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def shortened(output: str) -> str:
    """Shorten the output of a test program. Of tests that passed it keeps the lines on what they skipped."""
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
    """Run all test programs, even if some fail, and print the output of each at its end."""
    failed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run, program): program.words for program in programs()}
        for each in as_completed(running):
            done = each.result()
            print(f"==> cargo test {running[each]}\n{shortened(done.stdout).strip()}\n", flush=True)
            if done.returncode:
                failed.append(running[each])
    if failed:
        print(f"failed: {'; '.join(f'cargo test {words}' for words in failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
