"""Runs the commands of docs/tutorial.md and writes their output below them."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from handbook import tutorial
from handbook.markdown import ROOT
from thunderherd.errors import UserError


def main() -> int:
    """Update the page; return the exit status."""
    path = ROOT / tutorial.PAGE
    page = path.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory(prefix="thunderherd-tutorial-") as folder:
        try:
            printed = tutorial.run(page, Path(folder))
        except UserError as mistake:
            print(f"tutorial: {mistake}", file=sys.stderr)
            return 1
    path.write_text(tutorial.written(page, printed), encoding="utf-8")
    print(f"wrote {tutorial.PAGE}: {len(printed)} commands")
    return 0


if __name__ == "__main__":
    sys.exit(main())
