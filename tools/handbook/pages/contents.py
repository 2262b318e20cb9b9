"""The contents pages of docs/generated and of docs/generated/reference."""

from __future__ import annotations

from pathlib import Path

from handbook.markdown import made_from, page, table

FOLDER = Path("docs/generated")

PARTS = (
    (
        "[designs](designs/README.md)",
        "A page for each server design.",
        "`engine/src/designs/`, `docs/entries/designs/`, `records/`",
    ),
    (
        "[primitives](primitives/README.md)",
        "A page and a drawing for each send and receive primitive.",
        "`engine/src/primitives/`, `docs/entries/primitives/`, `records/`",
    ),
    (
        "[reference](reference/README.md)",
        "Commands, settings, registries, metrics, the study file, and schemas of all files.",
        "`thunderherd-engine list --json`, `thunderherd-engine schema`, and the lab's models",
    ),
    (
        "[sources.md](sources.md)",
        "Every item of the five sources, with its command and its test.",
        "`lab/thunderherd/studies/*/checklist.csv`",
    ),
)

ELSEWHERE = (
    ("[the list of decisions](../decisions/README.md)", "the titles of the decisions"),
    ("the sample run in [README.md](../../README.md) and in the [tutorial](../tutorial.md)", "`records/`"),
    ("the schema that a run leaves with its results", "the lab's model of `summary.json`"),
    (
        "`lines.py`, `conform_lines.py`, `limit_lines.py`, `profile_lines.py` in `lab/thunderherd/engine`, "
        "by `tools/line_models.py`",
        "`thunderherd-engine schema`",
    ),
)


def documents() -> dict[Path, str]:
    """Return the two pages, by path below the root."""
    return {FOLDER / "README.md": generated_page(), FOLDER / "reference" / "README.md": reference_page()}


def generated_page() -> str:
    """Write the page on how generated pages are made."""
    return page(
        "# Generated pages",
        made_from("tools/handbook/"),
        "`make docs` writes every file in this folder, and deletes files that no longer belong here. "
        "`make check` fails if a file is not current. To change a page, change what it is made from, then "
        "type `make docs`. The code that writes the pages is in `tools/documents.py` and `tools/handbook/`.",
        table(["pages", "what they have", "made from"], PARTS),
        "`make docs` also writes these parts of other folders:",
        table(["part", "made from"], ELSEWHERE),
        "`docs/entries/` has the hand-written notes on designs and primitives. `make records` runs the "
        "studies again and replaces the records, which takes an hour or so.",
    )


def reference_page() -> str:
    """Return the pages and schemas of the reference."""
    return page(
        "# Reference",
        made_from("tools/handbook/pages/contents.py"),
        "\n".join(
            [
                "- [Commands](commands.md) of `thunderherd`, with their options.",
                "- [Settings](settings.md) of all servers, all loads and all limits. "
                "[Designs](../designs/README.md) and [primitives](../primitives/README.md) have their own "
                "pages.",
                "- [Workloads](workloads.md), [loads](loads.md), [labs](labs.md), [counters](counters.md) "
                "and machine [limits](limits.md).",
                "- [Metrics](metrics.md): the figures of a trial.",
                "- [Conformance cases](conform.md): what any server of a workload must do.",
                "- [The study file](study_file.md): every table and key.",
                "- [Libraries](libraries.md) that the engine contains, with their licences.",
            ]
        ),
        "Schemas, for editors and programs: [study](study.schema.json) files, "
        "[summary.json](summary.schema.json), a line of [trials.jsonl](trial.schema.json), a "
        "[knee](knee.schema.json), [limits](limits.schema.json), [doctor](doctor.schema.json), and the "
        "[engine's lines](engine_lines.schema.json).",
    )
