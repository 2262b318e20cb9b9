"""What commands about a run that there is take alike: its directory, a format, a file to write to."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from thunderherd.errors import UserError

__all__ = ["ResultsDirectory", "chosen_format", "write_output"]

ResultsDirectory = Annotated[
    Path, typer.Argument(metavar="DIR", help="The directory that a run has written.")
]


def chosen_format(
    command: str, typed: str | None, output: Path | None, formats: Mapping[str, str], usual: str
) -> str:
    """What was typed, else what the file's ending says, else the usual one.

    `formats` has them by the endings of their files. Raises `UserError` for one that is not among them, and
    for two that contradict each other.
    """
    ending = output.suffix[1:].lower() if output is not None else ""
    found = typed or formats.get(ending, ending) or usual
    if found not in formats.values():
        raise UserError(f"{command}: --format {found}; allowed: {', '.join(formats.values())}")
    if formats.get(ending, found) != found:
        raise UserError(
            f"{command}: --format {typed} and --output {output} contradict each other; leave one out"
        )
    return found


def write_output(command: str, path: Path, content: bytes) -> None:
    """Writes a file, and says where it is. Raises `UserError` where it cannot be written."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UserError(
            f"{command}: {path} cannot be written: {error.strerror}; choose another place with --output"
        ) from None
    print(path)
