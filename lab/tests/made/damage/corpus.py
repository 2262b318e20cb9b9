"""Kept inputs: those that found a fault, and others that a reader may meet.

They are in lab/tests/data/corpus, a folder for each kind.
"""

from __future__ import annotations

from made.paths import DATA

CORPUS = DATA / "corpus"


def kept(kind: str) -> list[bytes]:
    """Return the inputs of a kind, in the order of their names."""
    found = [path.read_bytes() for path in sorted((CORPUS / kind).iterdir())]
    assert found, f"{kind} has none"
    return found
