"""A run of all designs for hours: its processes, descriptors and memory must not grow.

`thunderherd run` measures one short trial after another. Twice a second, its open descriptors, its memory
and the processes that it has started are noted. The lowest figures of the last tenth of the time must not be
more than those of the second: between two trials a run holds least. Its memory may grow by what it keeps of
each trial for the looks, some 12 KB. In the end the run gets SIGINT. Its results must be readable, and
nothing of it may be left on the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common import SEED, chosen_designs, until_done
from kills import MARK, Traces, command_of, marked

MINUTES = 120.0
PARTS = 10
"""Parts of the time; the first is a warm-up."""
MORE_MEMORY, OF_A_TRIAL = 1.1, 0.02
"""The allowed growth of memory; and MB for each trial, of which a run keeps an outline, some 12 KB."""
EVERY = 0.5
"""Seconds between two looks at what the run holds."""
ENDS_SECONDS = 60.0
"""Time to write the summary after SIGINT."""
INTERRUPTED = 130
STUDY = """\
name = "endurance"
[measure]
limits = "0"
[load.settings]
clients = 4
duration = "250ms"
[sizes.quick]
repetitions = 1000
"""
CONTENDER = '[[contenders]]\nname = "{0}"\ndesign = "{0}"\n'


def options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this part."""
    parser.add_argument("designs", nargs="*", metavar="DESIGN", help="designs (default: all)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"duration (default {MINUTES:g})")
    parser.add_argument("--seed", type=int, default=SEED, help=f"seed of the order (default {SEED})")


def seconds(given: argparse.Namespace) -> float:
    """Return the expected duration in seconds."""
    return float(60 * given.minutes + ENDS_SECONDS)


@dataclass(frozen=True)
class Held:
    """What a run holds at one moment."""

    descriptors: int
    processes: int
    megabytes: float
    trials: int = 0

    @classmethod
    def lowest(cls, held: Sequence[Held]) -> Held:
        """Return the lowest figure of each kind."""
        return cls(
            min(each.descriptors for each in held),
            min(each.processes for each in held),
            min(each.megabytes for each in held),
            min(each.trials for each in held),
        )


def run(given: argparse.Namespace) -> None:
    """Run all designs for this time, and print what the run holds in each part of it."""
    before = Traces.now()
    with tempfile.TemporaryDirectory(prefix="thunderherd-endurance-") as folder:
        faults = [*_endure(given, Path(folder))]
    faults += Traces.now().since(before)
    for fault in faults:
        print(f"endurance: {fault}")
    sys.exit(bool(faults))


def _endure(given: argparse.Namespace, folder: Path) -> Iterator[str]:
    designs = [each.name for each in chosen_designs(given.designs)]
    study, out, errors = folder / "endurance.toml", folder / "out", folder / "stderr"
    study.write_text(STUDY + "".join(map(CONTENDER.format, designs)))
    (temporary := folder / "tmp").mkdir()
    mark = str(os.getpid())
    command = [sys.executable, "-m", "thunderherd", "run", str(study), "--quick", "--no-conform"]
    with errors.open("w") as stderr:
        started = subprocess.Popen(
            [*command, "--seed", str(given.seed), "--out", str(out)],
            cwd=folder, env={**os.environ, MARK: mark, "TMPDIR": str(temporary)}, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
        )  # fmt: skip
    length, trials = 60 * given.minutes / PARTS, out / "trials.jsonl"
    for _ in until_done():
        if _lines(trials) or started.poll() is not None:
            break
    began = time.monotonic()
    print(f"{'minutes':>8} {'trials':>8} {'descriptors':>12} {'processes':>10} {'memory':>8}", flush=True)
    parts = []
    try:
        for part in range(PARTS):
            held = [*_watched(started, mark, trials, began + (part + 1) * length)]
            if started.poll() is not None:
                last = errors.read_text().strip().splitlines()[-2:]
                yield f"it ended with {started.returncode}; with 0 it has run all its blocks: {last}"
                return
            parts.append(low := Held.lowest(held))
            print(
                f"{(part + 1) * length / 60:8.1f} {_lines(trials):8,} {low.descriptors:12,} "
                f"{low.processes:10,} {low.megabytes:5.0f} MB",
                flush=True,
            )
        started.send_signal(signal.SIGINT)
        started.wait(ENDS_SECONDS)
    except subprocess.TimeoutExpired:
        yield f"it did not end within {ENDS_SECONDS:g} s after SIGINT"
    finally:
        started.kill()
        started.wait()
    yield from _grown(parts[1], parts[-1])
    yield from _left(started.returncode, out, temporary, mark)


def _watched(started: subprocess.Popen[bytes], mark: str, trials: Path, until: float) -> Iterator[Held]:
    """Yield what a run holds, time and again."""
    while started.poll() is None:
        with suppress(OSError):
            fields = Path(f"/proc/{started.pid}/statm").read_text().split()
            yield Held(
                sum(1 for _ in Path(f"/proc/{started.pid}/fd").iterdir()),
                len(marked(mark)),
                int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6,
                _lines(trials),
            )
        if (remaining := until - time.monotonic()) <= 0:
            return
        time.sleep(min(EVERY, remaining))


def _grown(early: Held, late: Held) -> Iterator[str]:
    """Yield what has grown."""
    if late.descriptors > early.descriptors:
        yield f"{early.descriptors} descriptors have become {late.descriptors}"
    if late.processes > early.processes:
        yield f"{early.processes} processes have become {late.processes}"
    if late.megabytes > MORE_MEMORY * early.megabytes + OF_A_TRIAL * (late.trials - early.trials):
        yield f"{early.megabytes:.0f} MB have become {late.megabytes:.0f}"


def _left(status: int, out: Path, temporary: Path, mark: str) -> Iterator[str]:
    """Yield what is wrong after the end."""
    if status != INTERRUPTED:
        yield f"it ended with {status}, not {INTERRUPTED}"
    invalid = 0
    try:
        with (out / "trials.jsonl").open(encoding="utf-8") as lines:
            trials = [json.loads(line) for line in lines]
        invalid = sum(not each["valid"] for each in trials)
        json.loads((out / "run.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        yield f"its results cannot be read: {error}"
    else:
        print(f"{len(trials):,} trials, {invalid:,} of them not valid")
    yield from (f"process {pid} is left: {command_of(pid)}" for pid in marked(mark))
    yield from (f"a temporary file is left: {path.name}" for path in temporary.iterdir())


def _lines(path: Path) -> int:
    """Return the number of lines of a file; 0 if there is none."""
    with suppress(OSError), path.open("rb") as file:
        return sum(each.count(b"\n") for each in iter(lambda: file.read(1 << 20), b""))
    return 0
