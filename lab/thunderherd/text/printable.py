"""Text from others, such as names in a study, without what a terminal would obey."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str) -> str:
    """Replace control characters by `\\ufffd`; line ends stay."""
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)
