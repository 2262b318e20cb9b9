"""The page and the JSON schema of the study file, from its models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from thunderherd.records.schemas import published
from thunderherd.study.file.tables import StudyForm
from thunderherd.toml.file import show

DOCUMENT = Path("docs/generated/reference/study_file.md")

HEAD = """\
# The study file

*Written by `make docs` from the models of the tables (`lab/thunderherd/study/file/tables.py`). Edit those,
not this page. [study.schema.json](study.schema.json) is the same for editors and programs.*

A study is a TOML file. `thunderherd run FILE.toml` runs it, and [a new study](../../extending/study.md) has a
complete example. A study needs a name, and contenders or sweeps:

```toml
name = "mine"
load.settings.clients = 64

[[contenders]]
design = "epoll"

[[contenders]]
design = "thread_per_client"
```

`thunderherd run FILE.toml --show-defaults` prints the study with the defaults of all other keys, and runs
nothing. A setting that the file leaves out has the engine's default (`thunderherd list --json`).
Times and shares are texts with a unit, such as `"500ms"` and `"5%"`. Sizes and numbers may be texts, too:
`"64KiB"`, `"10k"` ([quantities](../../concepts.md#quantities)).
`--set KEY=VALUE` overrides any key. Before the first trial the lab checks the whole file, for instance
whether a design has a setting, and reports mistakes with file and line.
"""

Schema = Mapping[str, Any]

TYPES = {"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false"}
BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}


def schema() -> dict[str, Any]:
    """Return the published JSON schema of a study file. Its `$defs` are the tables."""
    return published(StudyForm, "A study file of Thunderherd", mode="validation")


def document() -> str:
    """Write the page: a section for each table, with all its places."""
    whole = schema()
    tables: dict[str, Schema] = whole["$defs"]
    places: dict[str, list[str]] = {}
    _note_places(whole, "", tables, places)
    sections = [_section("## At the top", whole)]
    for name, found in places.items():
        sections.append(_section("## " + ", ".join(f"`{place}`" for place in found), tables[name]))
    return "\n".join([HEAD, *sections])


def _note_places(
    table: Schema, path: str, tables: Mapping[str, Schema], places: dict[str, list[str]]
) -> None:
    """Note the places of all tables below a table, in the order of the file."""
    for key, value in table["properties"].items():
        for name, form in _tables_of(value):
            place = form.format(f"{path}{key}")
            if place not in places.setdefault(name, []):
                places[name].append(place)
                inner = place.strip("[]") + "."
                _note_places(tables[name], inner, tables, places)


def _tables_of(value: Schema, form: str = "[{}]") -> Iterator[tuple[str, str]]:
    """Yield the tables that a key may hold, and how to write their place: `[load]`, `[[contenders]]`."""
    if "$ref" in value:
        yield value["$ref"].rpartition("/")[2], form
    for each in (*value.get("anyOf", ()), *value.get("oneOf", ())):
        yield from _tables_of(each, form)
    if "items" in value:
        yield from _tables_of(value["items"], "[[{}]]")
    if isinstance(inner := value.get("additionalProperties"), dict):
        yield from _tables_of(inner, "[{}.NAME]")


def _section(heading: str, table: Schema) -> str:
    """Write a table's meaning, and a row for each key."""
    required = set(table.get("required", ()))
    rows = [
        f"| `{key}` | {_escaped(_type(value))} | {_default(key, value, required)} | "
        f"{_escaped(value.get('description', ''))} |"
        for key, value in table["properties"].items()
    ]
    return "\n".join(
        [
            heading,
            "",
            table.get("description", ""),
            "",
            "| key | values | default | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _type(value: Schema) -> str:
    """Return the allowed values of a key, in words."""
    if several := [*value.get("anyOf", ()), *value.get("oneOf", ())]:
        return " or ".join(dict.fromkeys(_type(each) for each in several if each.get("type") != "null"))
    if "$ref" in value:
        return "a table"
    if "const" in value or "enum" in value:
        return " or ".join(show(each) for each in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        inner = value.get("items", {})
        return "tables" if "$ref" in inner else "a list"
    if value.get("type") == "object":
        inner = value.get("additionalProperties")
        return "tables" if isinstance(inner, dict) and "$ref" in inner else "a table"
    bounds = [f"{word} {value[key]:g}" for key, word in BOUNDS.items() if key in value]
    return " ".join([TYPES.get(value.get("type", ""), "any value"), *bounds])


def _default(key: str, value: Schema, required: set[str]) -> str:
    if key in required:
        return "required"
    default = value.get("default")
    if default is None or default in ("", [], {}) or isinstance(default, dict):
        return ""
    return f"`{show(default)}`"


def _escaped(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return text.replace("|", "\\|").replace("\n", " ")
