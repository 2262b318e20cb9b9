"""What the commands about a study do, one function a command: run and show, and show again what was run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from thunderherd.errors import UserError

if TYPE_CHECKING:
    from thunderherd.records.summary import Summary, TrialRecord

# Imports stand where they are needed: a mistake in a study's name is answered before numpy loads.


def run_and_show(
    *,
    study: str,
    size: str | None,
    overrides: Sequence[str],
    lab: Sequence[str] = (),
    profile: bool = False,
    seed: int | None,
    out: Path | None,
    resume: bool,
    command: Sequence[str],
) -> None:
    """Runs a study, prints its table, writes its report beside the results.

    Parameters
    ----------
    study
        Name of a bundled study, or path of a TOML file.
    size
        A size of the study's, such as "quick"; None is the quick one, or with `resume` that of the run.
    overrides
        `key=value` texts; with `resume`, none, and no `lab`, stand for those of the run.
    lab
        What --lab was given (`lab_option`); `overrides`, which say more exactly what is meant, win over it.
    profile
        Whether the contenders are sampled afterwards, once if the study does not say how often.
    seed
        None draws one, or with `resume` takes that of the run.
    out
        Directory of the results; None is a new one below ./results.
    resume
        Whether to go on with the run in `out`.
    command
        The command line, for the record.
    """
    from thunderherd.engine.client import catalogue
    from thunderherd.study.file.names import DEFAULT_SIZE
    from thunderherd.study.lab_option import as_overrides, read, typed_as
    from thunderherd.study.loading import load_study

    overrides = [*as_overrides(read(lab)), *overrides]
    if resume and out is not None:
        from thunderherd.records.directory import is_begun, read_run

        if is_begun(out):
            # Not its summary: one of an older version is written anew in the end.
            begun = read_run(out)
            size = size or begun.study.get("size")
            overrides = overrides or begun.overrides
    resolved = load_study(study, size or DEFAULT_SIZE, overrides, catalogue(), typed_as(lab))
    if profile and not resolved.profiling.trials:
        overrides = [*overrides, "profiling.trials=1"]
        words = {**typed_as(lab), "profiling.trials=1": "--profile"}
        resolved = load_study(study, size or DEFAULT_SIZE, overrides, catalogue(), words)

    from thunderherd.judge.claims.claim_file import load_source
    from thunderherd.judge.claims.paper_counters import load_counters

    # Mistakes in what the source says are told before the first trial, not after the last.
    load_source(resolved)
    load_counters(resolved)

    from thunderherd.records.directory import default_directory
    from thunderherd.run.runner import run_study
    from thunderherd.show.report.page import write_report
    from thunderherd.show.tables.main import print_study
    from thunderherd.text.layout import make_console

    directory = out or default_directory(resolved.name)
    summary = run_study(resolved, directory, seed=seed, resume=resume, command=command)
    console = make_console()
    try:
        # First: whoever reads the table may leave early (`| head`); the report is to be there all the same.
        report = write_report(directory)
    finally:
        print_study(summary, console, directory)
    console.print(f"Report    {report}", soft_wrap=True)


def show_table(directory: Path, *, pairs: bool, counters: bool = False) -> None:
    """Prints the table of a run again, with `pairs` the table of its comparisons too, with `counters` what
    was counted of each side."""
    from thunderherd.show.tables.counters import asks_for_counters, print_counters
    from thunderherd.show.tables.main import print_pairs, print_study
    from thunderherd.text.layout import make_console

    summary = summary_of(directory)
    if counters and not asks_for_counters(summary):
        raise UserError(
            f"{directory} was asked for no counters; ask another run for them: thunderherd run "
            f"{summary.study.name} --set 'measure.counters=[\"task_clock\"]' (thunderherd list counters)"
        )
    console = make_console()
    print_study(summary, console, directory)
    if pairs:
        print_pairs(summary, console)
    if counters:
        print_counters(summary, console)


def show_why(directory: Path, a: str | None, b: str | None, *, per: str | None, as_json: bool) -> None:
    """Prints why one contender of a run needs more CPU time than another (`explain_command`)."""
    from thunderherd.cli.explain import show_explanation
    from thunderherd.records.directory import load

    show_explanation(load(directory), summary_of(directory), a, b, per=per, as_json=as_json)


def show_claims(study: str, directory: Path) -> None:
    """Prints the verdicts on the claims of a study's source."""
    from thunderherd.show.tables.claims import print_claims
    from thunderherd.text.layout import make_console

    summary = summary_of(directory)
    name = Path(study).stem if study.endswith(".toml") else study
    if name != summary.study.name:
        raise UserError(
            f"{directory} holds a run of {summary.study.name}, not of {name}; "
            f"type `thunderherd claims {summary.study.name} {directory}`"
        )
    print_claims(summary, make_console())


def summary_of(directory: Path) -> Summary:
    """The summary of a run; UserError where there is no run, or none that has come to an end."""
    return ended(directory)[0]


def ended(directory: Path) -> tuple[Summary, Sequence[TrialRecord]]:
    """The summary of a run that has come to an end, and its trials; UserError as `summary_of`."""
    from thunderherd.records.directory import load

    results = load(directory)
    if results.summary is None:
        study = results.run.study.get("name", "STUDY")
        raise UserError(
            f"{directory} holds a run that has not ended ({len(results.trials)} trials so far); "
            f"go on with it: `thunderherd run {study} --out {directory} --resume`"
        )
    return results.summary, results.trials
