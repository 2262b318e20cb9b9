"""The printed tables of a summary."""

from __future__ import annotations

import io
import re

from rich.console import Console

from thunderherd.records.summary import Summary
from thunderherd.show.terminal.study import print_pairs, print_study


def printed(of: Summary, width: int, *, terminal: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=terminal, color_system=None, markup=False, highlight=False
    )
    print_study(of, console)
    print_pairs(of, console)
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
