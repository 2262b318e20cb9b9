"""Paths of the repository and of the tests' data."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parents[1]
DATA = TESTS / "data"
