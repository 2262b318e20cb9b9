"""Calibrations: how often gates of a server with itself alarm on a machine, kept with its description."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field, ValidationError

from thunderherd.files import read_text, write_text
from thunderherd.records.cache import UnsafeFolderError, kept_folder
from thunderherd.records.summary import Record

__all__ = ["Calibration", "keep_calibration", "kept_calibration"]

LARGEST = 1 << 20
"""The largest file of a calibration that is read, bytes."""


class Calibration(Record):
    """The outcomes of gates in which head is base."""

    # Sentences have these figures, and no duration is infinite.
    model_config = ConfigDict(allow_inf_nan=False)

    server: str = Field(description="the server that was compared with itself, as typed")
    workload: str | None = Field(description="the workload, as typed. Null: the usual one")
    gates: int = Field(description="number of gates")
    alarms: int = Field(description="those that called head slower: each a false alarm")
    undecided: int = Field(description="those without a verdict")
    margins: dict[str, float] = Field(description="by metric, the margin of these gates, percent")
    budget_seconds: float = Field(description="the time budget of each gate, seconds")
    power: float = Field(description="the chance in `would_find_percent`")
    would_find_percent: dict[str, float] = Field(
        description="by metric, the median of the smallest slowdown that a gate would have found, percent"
    )
    measured: str = Field(description="when it was measured, local time with offset (ISO 8601)")
    machine: dict[str, Any] = Field(description="the machine that it holds for")


def machine_key(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return what identifies a machine for a calibration: its kernel, its CPUs and its hypervisor."""
    cpu = machine.get("cpu") or {}
    return {
        "kernel": machine.get("kernel"),
        "hypervisor": machine.get("hypervisor"),
        "cpu": cpu.get("model"),
        "usable": cpu.get("usable"),
    }


def _file(machine: Mapping[str, Any]) -> Path:
    text = json.dumps(machine_key(machine), sort_keys=True, default=str)
    return kept_folder() / "calibrations" / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def kept_calibration(machine: Mapping[str, Any]) -> Calibration | None:
    """Return the calibration of a machine; None if there is none."""
    try:
        return Calibration.model_validate_json(read_text(_file(machine), LARGEST))
    except (OSError, UnsafeFolderError, UnicodeDecodeError, ValidationError):
        return None


def keep_calibration(found: Calibration, machine: Mapping[str, Any]) -> Path:
    """Write the calibration of a machine, and return its file. Raises OSError."""
    path = _file(machine)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, found.model_dump_json(indent=2) + "\n")
    return path


def now() -> str:
    """Return the local time with its offset."""
    return datetime.now().astimezone().isoformat(timespec="seconds")
