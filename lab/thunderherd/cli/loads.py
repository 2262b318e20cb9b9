"""The commands `merge` and `judge`: results of loads that are in files, as one result or as a comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from thunderherd.cli.options import AsJson

__all__ = ["judge", "merge"]

NO_VERDICT = 1
"""The exit status if there are too few blocks for a verdict."""


def merge(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Files with the output of `thunderherd load ... --json`."),
    ],
    as_json: AsJson = False,
) -> int:
    """Merge the results of several loads into one.

    Rates add up, histograms are merged, and percentiles are those of the merged histogram. The exit status is
    1 if a load was invalid or had errors, or if loads of one machine did not run at the same time.
    """
    from thunderherd.engine.merged_loads import load_lines, merged_loads
    from thunderherd.show.terminal.merged import print_merged
    from thunderherd.text.layout import make_console

    found = merged_loads([line for file in files for line in load_lines(file)])
    if as_json:
        print(found.model_dump_json())
    else:
        print_merged(found, make_console())
    return int(found.valid is False or bool(found.errors))


def judge(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE... [vs FILE...]",
            help="Files with the output of `thunderherd load ... --json`. Without vs, files whose names "
            "differ only in their last number form a group: A1.json A2.json.",
        ),
    ],
    as_json: AsJson = False,
) -> int:
    """Compare the targets of loads whose results are in files.

    The first loads of all groups form block 1, the second ones block 2. Verdicts are those of `compare`.

    Only the target of the loads may differ. The exit status is 1 if there are too few blocks for a verdict.

    Example: thunderherd judge old*.json vs new*.json
    """
    from thunderherd.judge.summary.judged_loads import grouped, judged_loads
    from thunderherd.show.terminal.judged import judged_as_json, print_judged
    from thunderherd.text.layout import make_console

    found = judged_loads(grouped(files))
    if as_json:
        print(json.dumps(judged_as_json(found), indent=2))
    else:
        print_judged(found, make_console())
    return NO_VERDICT if found.missing else 0
