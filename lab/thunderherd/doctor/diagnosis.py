"""Everything that is found out about this machine: all examinations, and which bundled studies it can run."""

from __future__ import annotations

import platform
from typing import Any, Literal

from pydantic import Field

from thunderherd.doctor import EXAMINATIONS
from thunderherd.doctor.kernel_features import KernelFeature, kernel_features
from thunderherd.doctor.kind import Finding, Here, Told
from thunderherd.doctor.runnable_studies import StudyHere, studies_here
from thunderherd.engine.client import catalogue, profile_check
from thunderherd.machine import description
from thunderherd.machine.busy import watch
from thunderherd.machine.counting_cost import counting_check
from thunderherd.records.schemas import published
from thunderherd.study.file.tables import NoiseTable


class Examined(Told):
    """What one examination has found."""

    title: str
    findings: tuple[Finding, ...]


class Diagnosis(Told):
    """Everything that `thunderherd doctor --json` says."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    kernel: str = Field(description="its release")
    processor: str = Field(description="the model of its CPUs")
    examinations: dict[str, Examined]
    rests_on: tuple[KernelFeature, ...] = Field(
        description="each feature of the kernel, and the designs and primitives that rest on it"
    )
    studies: tuple[StudyHere, ...]
    all_studies_run: bool = Field(description="wholly or in part; the exit status is 0 where they do, else 1")


def diagnose() -> Diagnosis:
    """Examines this machine. Takes some seconds, of which it watches for one while nothing of ours runs."""
    offered = catalogue()
    studies = studies_here(offered)
    here = Here(
        catalogue=offered,
        watched=watch(),
        allowed=NoiseTable(),
        profile=profile_check(),
        counting=counting_check(offered),
    )
    return Diagnosis(
        kernel=platform.release(),
        processor=_processor(),
        examinations={
            name: Examined(title=each.title, findings=each.findings(here))
            for name, each in EXAMINATIONS.items()
        },
        rests_on=kernel_features(offered),
        studies=studies,
        all_studies_run=all(each.runs != "not" for each in studies),
    )


def _processor() -> str:
    try:
        return description.cpu_model()
    except (description.Unavailable, OSError) as error:
        return f"an unknown processor ({description.reason(error)})"


def schema() -> dict[str, Any]:
    """The JSON schema of `thunderherd doctor --json`, as published."""
    return published(Diagnosis, "thunderherd doctor --json")
