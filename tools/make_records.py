"""Makes the records that docs/ shows (`make records`): runs studies and keeps the results in records/DATE.

.venv/bin/python tools/make_records.py                     all studies in quick size, and system calls
.venv/bin/python tools/make_records.py unp-ch30 calls      some of them
.venv/bin/python tools/make_records.py --from DIR          keeps an existing run
.venv/bin/python tools/make_records.py --from DIR --again  judges its claims again before
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path

from handbook.catalogued import catalogue
from handbook.markdown import ROOT, page, plain, table
from handbook.pages import demo
from handbook.records import recording, strace_counts
from handbook.records.kept import (
    CALLS,
    DATE,
    ERRATA,
    FOLDER,
    TABLE,
    earlier_studies,
    kept_calls,
    kept_studies,
)
from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.files import write_text
from thunderherd.judge.summary.open_claims import for_claims
from thunderherd.judge.summary.summarise import summarise
from thunderherd.records.directory import SUMMARY, load
from thunderherd.run.results_folder import write_folder
from thunderherd.study.loading import load_study

SOURCES = ("unp-ch30", "cse232-a2", "cse638-pa02", "erss-hw4", "css503-p4")
EVERY_ENTRY = {name: f"docs/entries/studies/{name}.toml" for name in ("every-design", "every-primitive")}
"""Studies for the pages of entries that no source's study has. They are not bundled, since only pages use
them."""
COMPARISONS = ("designs", "nginx", "generators", "peers", "runtimes")
"""Studies of our designs and loads beside others, as far as those are installed."""
STUDIES = (*SOURCES, *EVERY_ENTRY, *COMPARISONS)
SYSTEM_CALLS = "calls"

ABOUT = """\
Recorded runs on a real machine, small enough for the repository. The studies are those of the
five sources, two in docs/entries/studies with every design and every primitive, and those of our designs and
loads beside other programs. `make docs` takes the figures of [docs](../docs/README.md) and the picture of
the [README](../README.md) from the newest record of each study.

The records are of one machine on one day. Look for the same patterns on your machine, but expect other
figures."""


def main(arguments: list[str]) -> int:
    """Make the requested records; return the exit status.

    If a study fails, its mistake is printed and the next study runs.
    """
    parser = argparse.ArgumentParser(description="make records of studies")
    parser.add_argument("parts", nargs="*", help=f"{', '.join(STUDIES)}, {SYSTEM_CALLS} (default: all)")
    parser.add_argument("--from", dest="directories", action="append", type=Path, default=[], metavar="DIR")
    parser.add_argument(
        "--again", action="store_true", help="with --from: judge the claims again, as their file says now"
    )
    parser.add_argument("--seed", type=int, default=int(date.today().strftime("%Y%m%d")))
    parser.add_argument("--date", default=date.today().isoformat())
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    parts = given.parts or ([] if given.directories else [*STUDIES, SYSTEM_CALLS])
    if unknown := [part for part in parts if part not in (*STUDIES, SYSTEM_CALLS)]:
        parser.error(f"unknown part {', '.join(unknown)}; choose from {', '.join((*STUDIES, SYSTEM_CALLS))}")
    if given.again and not given.directories:
        parser.error("--again needs --from DIR")
    if not DATE.fullmatch(given.date):
        parser.error(f"--date {given.date} is not a day such as {date.today().isoformat()}")
    failed = 0
    scratch = Path(tempfile.mkdtemp(prefix="thunderherd-records-"))
    for directory in given.directories:
        if given.again and not _tried(partial(judge_again, directory, date.today().isoformat())):
            failed += 1
            continue
        failed += not _tried(partial(_kept, directory, given.date))
    for part in parts:
        if part == SYSTEM_CALLS:
            failed += not _tried(partial(_count, given.date))
            continue
        options = [word for each in given.overrides for word in ("--set", each)]
        failed += not _tried(partial(_run, part, given.seed, scratch / part, options, given.date))
    if not failed:
        # After a failure the trials stay, so that the run can be resumed.
        shutil.rmtree(scratch)
    (ROOT / FOLDER / "README.md").write_text(contents(), encoding="utf-8")
    print("type `make docs` to update the pages")
    return 1 if failed else 0


def _tried(work: Callable[[], None]) -> bool:
    try:
        work()
    except UserError as mistake:
        print(f"records: {mistake}", file=sys.stderr)
        return False
    return True


def _run(study: str, seed: int, directory: Path, options: list[str], day: str) -> None:
    recording.run(EVERY_ENTRY.get(study, study), seed, directory, options)
    _kept(directory, day)


def judge_again(directory: Path, day: str) -> None:
    """Judge the claims of a run again, as the study and its claims file are now, and keep the verdicts in it.

    Raises UserError if the study is not bundled or has other contenders now, or if the run is not complete.
    """
    saved = load(directory)
    if saved.summary is None:
        raise UserError("the run has no summary", code="records.incomplete_run", where=str(directory))
    resolved = saved.run.study
    told = Catalogue.model_validate(catalogue())
    study = for_claims(load_study(resolved["name"], resolved["size"], saved.run.overrides, told))
    if {each.name for each in study.contenders} != {each["name"] for each in resolved["contenders"]}:
        raise UserError("the study has other contenders now", code="records.changed", where=str(directory))
    judged = summarise(study, list(saved.trials), saved.run.machine, seed=saved.run.seed)
    notes = [*saved.summary.study.notes, f"the claims were judged again on {day}, as their file said then"]
    noted = saved.summary.study.model_copy(update={"notes": notes})
    changed = {"claims": judged.claims, "study": noted, "trials": judged.trials}
    summary = saved.summary.model_copy(update=changed)
    write_text(directory / SUMMARY, summary.model_dump_json(by_alias=True, indent=2) + "\n")
    write_folder(replace(saved, summary=summary))


def _kept(directory: Path, day: str) -> None:
    kept = recording.keep(directory, ROOT, day)
    if kept.figures.study == demo.STUDY:
        recording.keep_report_picture(directory, ROOT / kept.folder)
    print(f"kept {kept.folder}")


def _count(day: str) -> None:
    counts = strace_counts.count_all(catalogue())
    file = ROOT / FOLDER / day / CALLS
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(counts, indent=1) + "\n", encoding="utf-8")
    print(f"kept {file.relative_to(ROOT)}")


def contents() -> str:
    """Write records/README.md: all records, and how to make them."""
    studies = sorted([*kept_studies(), *earlier_studies()], key=lambda each: (each.figures.study, each.date))
    rows = [
        [
            f"[{each.figures.study}]({each.folder.relative_to(FOLDER)}/README.md)",
            each.date,
            plain(each.figures.title),
            f"[table]({each.folder.relative_to(FOLDER)}/{TABLE})",
            plain(each.figures.machine),
        ]
        for each in studies
    ]
    calls = kept_calls()
    about_calls = (
        f"[{calls[0].relative_to(FOLDER)}]({calls[0].relative_to(FOLDER)}) has the system calls of every "
        f"design and primitive for one request, counted by {calls[1]['strace']} on Linux "
        f"{calls[1]['kernel']}."
        if calls
        else ""
    )
    return page(
        "# Records",
        "*Written by `make records`; do not edit this page.*",
        ABOUT,
        table(["study", "date", "title", "", "machine"], rows),
        *(
            f"The figures of `{wrong.contender}` in "
            f"[{each.figures.study}]({each.folder.relative_to(FOLDER)}/{ERRATA}) are known to be wrong, so "
            f"docs/ leaves them out: {plain(wrong.why)}."
            for each in studies
            for wrong in each.errata
        ),
        about_calls,
        "[benchmarks](benchmarks/README.md) has dated results of `make bench`, which are written by hand.",
        "`make records` makes all records again; use an idle machine. `make records "
        'PARTS="unp-ch30 calls"` makes some of them. `.venv/bin/python tools/make_records.py --from '
        "results/mine` keeps an existing run as a record. `make docs` then updates the pages. The README in "
        "each folder has the command of its run, and shows how to look at the run again.",
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
