"""Where the repository and the tests' data are."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parents[1]
DATA = TESTS / "data"
