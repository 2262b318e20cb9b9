"""Runs the engine's tests, several of its test programs at once: most of their time they wait.

.venv/bin/python tools/engine_tests.py    after `cargo test --no-run`; exit status 1 if any of them fails
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ENGINE = Path(__file__).resolve().parents[1] / "engine"
AT_ONCE = 2
"""Test programs at the same time, each of which has threads of its own: more would only wait for CPUs."""


def programs() -> Iterator[tuple[str, ...]]:
    """What `cargo test` runs one after the other, as words for it; what takes longest begins."""
    folders = sorted(path.parent.name for path in ENGINE.glob("tests/*/main.rs"))
    files = sorted(path.stem for path in ENGINE.glob("tests/*.rs"))
    yield from (("--test", name) for name in folders)
    yield ("--lib",)
    yield from (("--test", name) for name in files)
    yield from (("--bins",), ("--doc",))


def run(words: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    """One of them, to its end; both its outputs are one."""
    return subprocess.run(
        ["cargo", "test", "--locked", *words],
        cwd=ENGINE,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def main() -> int:
    """Runs them all, whatever becomes of the others, and shows what each has printed once it has ended."""
    failed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run, words): " ".join(words) for words in programs()}
        for each in as_completed(running):
            done = each.result()
            print(f"==> cargo test {running[each]}\n{done.stdout.strip()}\n", flush=True)
            if done.returncode:
                failed.append(running[each])
    if failed:
        print(f"failed: {'; '.join(f'cargo test {words}' for words in failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
