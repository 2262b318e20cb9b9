"""What the tables of a summary print."""

from __future__ import annotations

import io
import re

from rich.console import Console

from thunderherd.records.summary import Summary
from thunderherd.show.tables import main as tables_main


def printed(of: Summary, width: int, *, terminal: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream, width=width, force_terminal=terminal, color_system=None, markup=False, highlight=False
    )
    tables_main.print_study(of, console)
    tables_main.print_pairs(of, console)
    return re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
