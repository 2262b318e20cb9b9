"""The published schemas of what a run leaves on disk (docs/generated/reference)."""

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
    """The same as text, which comes with the program: every run leaves it beside its results, and to make it
    takes longer than all their tables. `make docs` writes it, `make check` holds it against the models."""
    return (resources.files("thunderherd.records") / SUMMARY_SCHEMA).read_text(encoding="utf-8")


def trial_schema() -> dict[str, Any]:
    """The JSON schema of one line of `trials.jsonl`, as published."""
    return published(TrialRecord, "One line of trials.jsonl of a Thunderherd run")


def limits_schema() -> dict[str, Any]:
    """The JSON schema of what `thunderherd limits --json` prints, as published."""
    return published(MachineLimits, "thunderherd limits --json")


def knee_schema() -> dict[str, Any]:
    """The JSON schema of `knee.json`, which `thunderherd knee` writes, as published."""
    return published(KneeSummary, "knee.json of thunderherd knee")


def published(
    model: type[BaseModel], title: str, mode: Literal["serialization", "validation"] = "serialization"
) -> dict[str, Any]:
    """A model's schema with its dialect and title named, as the files in docs/generated/reference hold it:
    of what is written, or of what is read (`validation`)."""
    schema = model.model_json_schema(mode=mode, by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": title}


def as_text(schema: dict[str, Any]) -> str:
    """A schema as its file holds it."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
