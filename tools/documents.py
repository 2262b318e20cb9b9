"""Writes the documents that follow from the code: docs/sources.md, and all that is in docs/reference.

.venv/bin/python tools/documents.py            writes them (`make docs`)
.venv/bin/python tools/documents.py --check    says which are not current; exit status 1 if any (`make check`)
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from thunderherd import diagnosis, sources, study_reference
from thunderherd.engine import find_engine
from thunderherd.schemas import as_text, knee_schema, limits_schema, summary_schema, trial_schema

ROOT = Path(__file__).resolve().parents[1]


def documents() -> dict[Path, str]:
    """Every generated document: its path below the root, and its text."""
    engine = subprocess.run([find_engine(), "schema"], capture_output=True, text=True, check=True).stdout
    schemas = {
        "engine_lines": json.loads(engine),
        "summary": summary_schema(),
        "trial": trial_schema(),
        "knee": knee_schema(),
        "limits": limits_schema(),
        "study": study_reference.schema(),
        "doctor": diagnosis.schema(),
    }
    return {
        sources.DOCUMENT: sources.document(sources.source_rows()),
        study_reference.DOCUMENT: study_reference.document(),
        **{
            Path("docs/reference") / f"{name}.schema.json": as_text(schema)
            for name, schema in schemas.items()
        },
    }


def main(arguments: list[str]) -> int:
    """Writes or checks; returns the exit status."""
    if arguments not in ([], ["--check"]):
        print(f"documents: {' '.join(arguments)}? allowed: nothing, or --check", file=sys.stderr)
        return 2
    stale = []
    for path, text in documents().items():
        target = ROOT / path
        if target.is_file() and target.read_text(encoding="utf-8") == text:
            continue
        stale.append(str(path))
        if not arguments:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            print(f"wrote {path}")
    if arguments and stale:
        print(f"not current: {', '.join(stale)}; type `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
