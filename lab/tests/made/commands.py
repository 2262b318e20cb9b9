"""Commands of the program as a test types them."""

from __future__ import annotations

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout

from thunderherd.cli import main


def answered(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a command in this process, which saves the second that Python takes to start.

    The command must not replace the process.
    """
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        status = main.run_command([*arguments])
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), errors.getvalue())
