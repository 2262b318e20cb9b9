"""Text from others, such as names in a study, without what a terminal would obey."""

from __future__ import annotations

__all__ = ["printable", "printable_name"]


def printable(text: str) -> str:
    """Replace control characters by `\\ufffd`; line ends stay."""
    return "".join(each if each.isprintable() or each == "\n" else "\ufffd" for each in text)


def printable_name(text: str) -> str:
    """Replace line ends too, in the name of a process or a file: any program may choose such a name."""
    return printable(text.replace("\n", "\r"))
