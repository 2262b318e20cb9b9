"""Builds the pages as HTML (`make site`): .venv/bin/python tools/build_site.py [FOLDER] (default site)."""

from __future__ import annotations

import sys
from pathlib import Path

from handbook.markdown import ROOT
from handbook.site import build

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "site"
    print(f"{build(folder)} pages in {folder}; open {folder / 'index.html'}")
