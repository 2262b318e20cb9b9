"""Examines this machine: all examinations, and which bundled studies it can run."""

from __future__ import annotations

import platform
from typing import Any, Literal

from pydantic import Field

from thunderherd.doctor import EXAMINATIONS
from thunderherd.doctor.kernel_features import KernelFeature, kernel_features
from thunderherd.doctor.kind import DoctorOutput, Finding, Here
from thunderherd.doctor.runnable_studies import StudyHere, studies_here
from thunderherd.engine.client import catalogue, profile_check
from thunderherd.machine import description
from thunderherd.machine.busy import watch
from thunderherd.machine.counting_cost import counting_check
from thunderherd.records.schemas import published
from thunderherd.study.file.tables import NoiseTable


class Examined(DoctorOutput):
    """The findings of one examination."""

    title: str = Field(description="title on the page")
    findings: tuple[Finding, ...] = Field(description="in the order of the page")


class Diagnosis(DoctorOutput):
    """The output of `thunderherd doctor --json`."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    kernel: str = Field(description="release of the kernel")
    processor: str = Field(description="model of the CPUs")
    examinations: dict[str, Examined] = Field(description="by name, the findings of each examination")
    rests_on: tuple[KernelFeature, ...] = Field(
        description="each kernel feature, with the designs and primitives that need it"
    )
    studies: tuple[StudyHere, ...] = Field(description="one entry per bundled study")
    all_studies_run: bool = Field(
        description="whether every bundled study can run, wholly or in part; the exit status is then 0, "
        "else 1"
    )


def diagnose() -> Diagnosis:
    """Examine this machine. This takes some seconds, one of which watches the idle machine."""
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
    """Return the JSON schema of `thunderherd doctor --json`, as published."""
    return published(Diagnosis, "thunderherd doctor --json")
