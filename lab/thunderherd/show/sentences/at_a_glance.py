"""What stands on the first screen of a report beside its answer: the machine in two lines, and what weighs on
every figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thunderherd.records.summary import Summary
from thunderherd.text.figures import count, number, printable

__all__ = ["machine_in_short", "weighty"]


def machine_in_short(summary: Summary) -> list[str]:
    """The machine in two lines: what it is, and how it was used."""
    machine = summary.machine
    cpu, lab = _part(machine, "cpu"), _part(summary.study.settings, "lab")
    memory = machine.get("memory_bytes")
    usable = cpu.get("usable")
    what = [
        cpu.get("model"),
        cpu.get("count") and f"{count(int(cpu['count']), 'CPU')}",
        usable and cpu.get("count") and len(usable) < cpu["count"] and f"{len(usable)} of them usable",
        memory and f"{number(memory / 2**30, 1)} GiB of memory",
        machine.get("distribution"),
        _kernel(machine.get("kernel")),
        machine.get("container") and f"in {machine['container']}",
    ]
    cpus = [
        f"{side} on {_cpus(lab[key])}"
        for side, key in (("server", "server_cpus"), ("clients", "client_cpus"))
        if lab.get(key)
    ]
    how = [
        lab.get("kind") and f"over {lab['kind']}",
        *cpus,
        machine.get("congestion_control") and f"congestion control {machine['congestion_control']}",
        cpu.get("governor") and f"governor {cpu['governor']}",
        " ".join(str(_part(machine, "compiler").get("rustc") or "").split()[:2]),
    ]
    lines = [", ".join(str(each) for each in line if each) for line in (what, how)]
    return [printable(line) for line in lines if line]


def _part(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def _kernel(text: object) -> str:
    """`Linux 6.1.0`, without its build."""
    return " ".join(str(text).split()[:2]) if text else ""


def _cpus(cpus: Sequence[int]) -> str:
    return f"CPU{'s' if len(cpus) > 1 else ''} {', '.join(map(str, cpus))}"


def weighty(summary: Summary) -> list[str]:
    """What a reader must know before any figure, the gravest first: what was given up, what was noisy, what
    was invalid. All else stands with the run's notes."""
    trials = summary.trials
    said = []
    if trials.given_up:
        said.append(f"Given up, without figures: {', '.join(trials.given_up)} (why: in the notes).")
    if kept := trials.noisy_blocks_kept:
        every = count(summary.study.blocks, "block")
        said.append(f"{len(kept)} of {every} were noisier than the study allows, and count.")
    if trials.rejected_blocks:
        said.append(f"{count(len(trials.rejected_blocks), 'block')} rejected for outside noise.")
    if trials.incomplete_blocks:
        said.append(f"{count(len(trials.incomplete_blocks), 'block')} with a trial that stayed invalid.")
    if trials.invalid:
        of_all = trials.valid + trials.invalid + trials.rejected
        said.append(f"{trials.invalid:,} of {count(of_all, 'trial')} invalid.")
    return [printable(each) for each in said]
