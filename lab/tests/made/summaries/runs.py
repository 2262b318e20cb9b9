"""The description of a run that never happened."""

from __future__ import annotations

from thunderherd.records.directory import RunInfo
from thunderherd.study.loading import Study


def info(study: Study) -> RunInfo:
    return RunInfo(
        study=study.model_dump(mode="json"),
        digest=study.digest,
        seed=1,
        overrides=[],
        command=["thunderherd", "run", "small"],
        started="2025-01-02T03:04:05+00:00",
        version="0.1.0",
        machine={"kernel": "Linux"},
    )
