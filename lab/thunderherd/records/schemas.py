"""The published schemas of the files of a run (docs/generated/reference)."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel

from thunderherd.records.knee import KneeSummary
from thunderherd.records.limits import MachineLimits
from thunderherd.records.summary import SUMMARY_SCHEMA, Summary, TrialRecord


def summary_schema() -> dict[str, Any]:
    """The JSON schema of `summary.json`, as published."""
    return published(Summary, "summary.json of a Thunderherd run")


def kept_summary_schema() -> str:
    """The published schema of `summary.json`, from the file that comes with the program.

    Every run copies it to its results. Generating it would take longer than writing all tables. `make docs`
    writes the file; `make check` compares it with the models.
    """
    return (resources.files("thunderherd.records") / SUMMARY_SCHEMA).read_text(encoding="utf-8")


def trial_schema() -> dict[str, Any]:
    """The JSON schema of one line of `trials.jsonl`, as published."""
    return published(TrialRecord, "One line of trials.jsonl of a Thunderherd run")


def limits_schema() -> dict[str, Any]:
    """The JSON schema of the output of `thunderherd limits --json`, as published."""
    return published(MachineLimits, "thunderherd limits --json")


def knee_schema() -> dict[str, Any]:
    """The JSON schema of `knee.json`, which `thunderherd knee` writes, as published."""
    return published(KneeSummary, "knee.json of thunderherd knee")


def published(
    model: type[BaseModel], title: str, mode: Literal["serialization", "validation"] = "serialization"
) -> dict[str, Any]:
    """The schema of a model with dialect and title, as the files in docs/generated/reference hold it.

    `mode` selects what is written (`serialization`) or what is read (`validation`).
    """
    schema = model.model_json_schema(mode=mode, by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


def as_text(schema: dict[str, Any]) -> str:
    """The text of a schema's file."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
