"""The page and the schema of the study file say what its models say, and every bundled study fits them."""

from __future__ import annotations

import importlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from handbook.pages import study_file
from thunderherd.study.file.names import bundled_studies, find_study
from thunderherd.study.file.tables import StudyForm

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json.loads((ROOT / "docs" / "generated" / "reference" / "study.schema.json").read_text())
jsonschema: Any = importlib.import_module("jsonschema")


def tables(model: type[BaseModel], seen: set[type[BaseModel]]) -> Iterator[type[BaseModel]]:
    """A model and all that its fields may hold."""
    if model in seen:
        return
    seen.add(model)
    yield model
    found: list[Any] = [field.annotation for field in model.model_fields.values()]
    while found:
        each = found.pop()
        if isinstance(each, type) and issubclass(each, BaseModel):
            yield from tables(each, seen)
        found += [part for part in getattr(each, "__args__", ()) if part is not each]


def test_study_schema_and_reference_are_current() -> None:
    assert study_file.schema() == SCHEMA
    assert (ROOT / study_file.DOCUMENT).read_text() == study_file.document()


def test_every_key_of_every_table_is_explained() -> None:
    page = study_file.document()
    models = list(tables(StudyForm, set()))
    assert len(models) > 20
    for model in models:
        assert (model.__doc__ or "").splitlines()[0] in page, model
        for key, field in model.model_fields.items():
            # A table that several keys hold explains itself.
            rows = [line for line in page.splitlines() if line.startswith(f"| `{key}` |")]
            assert rows, (model, key)
            assert any((field.description or "a table").replace("|", "\\|") in row for row in rows), (
                model,
                key,
            )


@pytest.mark.parametrize("name", bundled_studies())
def test_a_bundled_study_fits_the_schema(name: str) -> None:
    study = tomllib.loads(find_study(name).read_text(encoding="utf-8"))
    jsonschema.validate(study, SCHEMA)


@pytest.mark.parametrize(
    ("wrong", "keyword", "path"),
    [
        ({"lode": {}}, "additionalProperties", []),
        ({"title": 3}, "type", ["title"]),
        ({"lab": {"placement": "appart"}}, "enum", ["lab", "placement"]),
        ({"sizes": {}}, "minProperties", ["sizes"]),
    ],
)
def test_mistakes_in_a_study_do_not_fit_the_schema(
    wrong: dict[str, Any], keyword: str, path: list[str]
) -> None:
    study = tomllib.loads(find_study("self-test").read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError) as found:
        jsonschema.validate({**study, **wrong}, SCHEMA)
    assert (found.value.validator, [*found.value.absolute_path]) == (keyword, path)
