"""How sizes of requests are written, as far as a study has to know it before the engine reads it: whether it
is a distribution, the most that it can come to, and the files that texts name."""

from __future__ import annotations

import csv
import re
from pathlib import Path

NONE = "none"
"""The text of a setting that says that there is nothing of the kind."""

FILE = "file:"
"""What stands before a path among sizes."""

USUAL_MOST = 16384
"""The most of a lognormal distribution that says no range."""

SIZES = (
    "none, fixed:4000, uniform:64..16384, lognormal:4096,1.5, lognormal:4096,1.5,64..65536, "
    "weighted:64@90,16384@10 or file:PATH"
)
"""What may be given, by examples."""

NUMBER = r"[0-9]+"
SIGMA = r"[0-9]*\.?[0-9]+"
FORMS = re.compile(
    rf"none|fixed:{NUMBER}|uniform:{NUMBER}\.\.{NUMBER}"
    rf"|lognormal:{NUMBER},{SIGMA}(,{NUMBER}\.\.{NUMBER})?"
    rf"|weighted:{NUMBER}@{NUMBER}(,{NUMBER}@{NUMBER})*|file:.+"
)


def is_sizes(text: str) -> bool:
    """Whether it is a distribution by its form; of its numbers and its file the engine says more."""
    return FORMS.fullmatch(text) is not None


def path_in(text: str) -> str | None:
    """The path that a text names which may be one, or have one behind `file:`; None where it names none."""
    if text.startswith(FILE):
        return text.removeprefix(FILE)
    return None if text == NONE or ":" in text else text


def with_path(text: str, folder: Path) -> str:
    """The same text with its path from this folder on, where it names one."""
    path = path_in(text)
    return text if path is None else text.removesuffix(path) + str((folder / path).resolve())


def largest(text: str) -> int | None:
    """The most that a request may ask for; None where that cannot be told, or there are no sizes."""
    form, _, rest = text.partition(":")
    if form == NONE or not is_sizes(text):
        return None
    if form == "file":
        return _largest_of_file(Path(rest))
    if form == "lognormal":
        ends = rest.split(",")[2:]
        return int(ends[0].partition("..")[2]) if ends else USUAL_MOST
    if form == "weighted":
        return max(int(each.partition("@")[0]) for each in rest.split(","))
    return int(rest.rpartition("..")[2])


def _largest_of_file(path: Path) -> int | None:
    """Of a recording; None of a file that is none, of which the engine says what is wrong."""
    try:
        with path.open(newline="", encoding="utf-8") as lines:
            return max(int(row["bytes"]) for row in csv.DictReader(lines, skipinitialspace=True))
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return None
