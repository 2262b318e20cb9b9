"""Writes the documents that follow from code, registries, schemas, docs/entries and records.

.venv/bin/python tools/documents.py            writes them (`make docs`) and checks all links
.venv/bin/python tools/documents.py --check    prints which documents are not current and which
                                               links are broken; exit status 1 if any (`make check`)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from handbook import links
from handbook.catalogued import catalogue
from handbook.markdown import ROOT
from handbook.pages import contents, demo, entries, findings, libraries, reference, sources, study_file
from handbook.records.kept import kept_calls, kept_studies
from thunderherd.doctor import diagnosis
from thunderherd.engine.client import find_engine
from thunderherd.gate.verdict import GateResult
from thunderherd.records.schemas import (
    as_text,
    knee_schema,
    limits_schema,
    published,
    summary_schema,
    trial_schema,
)
from thunderherd.records.summary import SUMMARY_SCHEMA


def documents() -> dict[Path, str]:
    """Return every generated document: its path below the root, and its text."""
    kept = entries.Recorded(kept_studies(), kept_calls())
    return {
        sources.DOCUMENT: sources.document(sources.source_rows()),
        study_file.DOCUMENT: study_file.document(),
        **{reference.FOLDER / f"{name}.schema.json": as_text(schema) for name, schema in schemas().items()},
        # The program has a copy of this schema, and leaves it with the results of a run.
        Path("lab/thunderherd/records") / SUMMARY_SCHEMA: as_text(summary_schema()),
        **contents.documents(),
        **reference.documents(catalogue()),
        **libraries.documents(),
        **entries.documents(catalogue(), kept),
        **demo.documents(kept.studies),
        **findings.documents(kept.studies),
    }


def schemas() -> dict[str, dict[str, Any]]:
    """Return the published schemas, by name."""
    engine = subprocess.run([find_engine(), "schema"], capture_output=True, text=True, check=True).stdout
    return {
        "engine_lines": json.loads(engine),
        "summary": summary_schema(),
        "trial": trial_schema(),
        "knee": knee_schema(),
        "gate": published(GateResult, "thunderherd gate --json"),
        "limits": limits_schema(),
        "study": study_file.schema(),
        "doctor": diagnosis.schema(),
    }


def left_behind(wanted: dict[Path, str]) -> list[Path]:
    """Return files in docs/generated that no document writes, such as the page of a deleted entry."""
    there = {path.relative_to(ROOT) for path in (ROOT / contents.FOLDER).rglob("*") if path.is_file()}
    return sorted(there - wanted.keys())


def main(arguments: list[str]) -> int:
    """Write or check the documents; return the exit status."""
    if arguments not in ([], ["--check"]):
        print(
            f"documents: unknown arguments {' '.join(arguments)}\nhint: type --check, or nothing",
            file=sys.stderr,
        )
        return 2
    wanted = documents()
    stale = []
    for path, text in wanted.items():
        target = ROOT / path
        if target.is_file() and target.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path))
        if not arguments:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    for path in left_behind(wanted):
        stale.append(str(path))
        if not arguments:
            (ROOT / path).unlink()
            print(f"removed {path}")
    if arguments and stale:
        print(f"not current: {', '.join(stale)}\nhint: type `make docs`", file=sys.stderr)
    broken = links.faults()
    for fault in broken:
        print(f"broken link: {fault}", file=sys.stderr)
    return 1 if broken or (arguments and stale) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
