"""The commands `run` and `watch`: run a study; watch a run that another terminal has started."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated

import typer

from thunderherd.cli.options import (
    AllowCommands,
    Lab,
    LoadHosts,
    NoConform,
    Out,
    Overrides,
    ResultsDirectory,
    Resume,
    RunsAs,
    Scheduler,
    Seed,
    ServerHost,
    StudyName,
    check_resume,
    check_room,
    chosen_labs,
    command_line,
    status_of_run,
)
from thunderherd.errors import UserError

if TYPE_CHECKING:
    from thunderherd.records.summary import Summary
    from thunderherd.study.loading import Study

__all__ = ["run", "watch"]

CLAIMS_SIZE = "claims"
"""The size that `claims --decide` runs."""

# Functions import what they need: a wrong study name is refused before numpy loads.


def run(
    study: StudyName,
    quick: Annotated[bool, typer.Option("--quick", help="Run the study's quick size (default).")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Run the study's full size: all planned looks (default: quick).")
    ] = False,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="NAME", help="Size of the study, see `list studies` (default quick)."),
    ] = None,
    overrides: Overrides = None,
    seed: Seed = None,
    out: Out = None,
    lab: Lab = None,
    user: RunsAs = None,
    server: ServerHost = None,
    load_hosts: LoadHosts = None,
    scheduler: Scheduler = None,
    allow_commands: AllowCommands = False,
    profile: Annotated[
        bool,
        typer.Option("--profile", help="Sample call stacks in extra trials (default: as in the study)."),
    ] = False,
    resume: Resume = False,
    no_conform: NoConform = False,
    show_defaults: Annotated[
        bool,
        typer.Option(
            "--show-defaults",
            help="Print the study as TOML with every default filled in and marked, and run nothing "
            "(default: run it).",
        ),
    ] = False,
) -> int:
    """Run a study and print its table.

    Also writes an HTML report into the results directory. The exit status is 3 if nothing was measured.
    """
    sizes = [("quick", "--quick")] if quick else []
    sizes += [("full", "--full")] if full else []
    sizes += [(size, f"--size {size}")] if size is not None else []
    if len({each for each, _ in sizes}) > 1:
        raise UserError(
            f"{' and '.join(option for _, option in sizes)} contradict each other",
            code="run.several_sizes",
            hint="give one of them",
            where="run",
        )
    check_resume("run", resume=resume, out=out)
    size = sizes[0][0] if sizes else None
    if show_defaults:
        others = {
            "--set": overrides, "--seed": seed, "--out": out, "--lab": lab, "--user": user,
            "--profile": profile,
        }  # fmt: skip
        _show_defaults(
            study, size, [name for name, value in others.items() if value is not None and value is not False]
        )
        return 0
    check_room()

    from thunderherd.engine.client import catalogue
    from thunderherd.study.file.names import DEFAULT_SIZE
    from thunderherd.study.lab_option import as_overrides, read, typed_as
    from thunderherd.study.loading import load_study
    from thunderherd.study.own_programs import check_owner

    # The more explicit --set wins over --lab.
    labs = chosen_labs(lab, user, server, load_hosts, scheduler)
    values = [*as_overrides(read(labs, command="run: ")), *(overrides or [])]
    if resume and out is not None:
        from thunderherd.records.directory import is_begun, read_run

        if is_begun(out):
            # The summary is not read: the end of the run replaces one of an older version.
            begun = read_run(out)
            size = size or begun.study.get("size")
            values = values or begun.overrides
    resolved = load_study(study, size or DEFAULT_SIZE, values, catalogue(), typed_as(labs))
    if profile and not resolved.profiling.trials:
        values = [*values, "profiling.trials=1"]
        words = {**typed_as(labs), "profiling.trials=1": "--profile"}
        resolved = load_study(study, size or DEFAULT_SIZE, values, catalogue(), words)

    if not allow_commands:
        check_owner(resolved)

    from thunderherd.records.directory import default_directory
    from thunderherd.show.report.page import report_of_run
    from thunderherd.show.terminal.study import print_study
    from thunderherd.text.layout import make_console

    directory = out or default_directory(resolved.name)
    summary = _run(
        resolved,
        directory,
        seed,
        resume=resume,
        conform=not no_conform,
        allow_commands=allow_commands,
    )
    console = make_console()
    report = None
    try:
        # Before the table: a reader of the table may leave early (`| head`), and the report must exist then.
        report = report_of_run(directory)
    finally:
        print_study(summary, console, directory, report)
    return status_of_run(summary, "run")


def run_claims(
    study: str,
    budget: str | None,
    overrides: Sequence[str],
    seed: int | None,
    out: Path | None,
    resume: bool,
    earlier: Path | None,
    *,
    allow_commands: bool,
) -> Summary:
    """Run a study until its claims are decided, and write its report (`claims --decide`).

    `earlier` is the directory of another run, from which the blocks that each claim needs are expected.
    """
    from thunderherd.engine.client import catalogue
    from thunderherd.records.directory import default_directory, is_begun, read_run
    from thunderherd.show.report.page import report_of_run
    from thunderherd.study.loading import load_study
    from thunderherd.study.own_programs import check_owner

    check_room()
    check_resume("claims", resume=resume, out=out)
    values = [*([f"sizes.{CLAIMS_SIZE}.budget={budget}"] if budget else []), *overrides]
    typed_as = {f"sizes.{CLAIMS_SIZE}.budget={budget}": f"--budget {budget}"}
    if resume and out is not None and is_begun(out):
        values = values or read_run(out).overrides
    resolved = load_study(study, CLAIMS_SIZE, values, catalogue(), typed_as)
    if resolved.decides != "claims" or resolved.claims_path is None:
        raise UserError(
            f"size {CLAIMS_SIZE} of {resolved.name} decides no claims",
            code="claims.nothing_to_decide",
            hint='give the study a claims file and the size decides = "claims"',
            where="claims",
        )
    if not allow_commands:
        check_owner(resolved)
    directory = out or default_directory(resolved.name)
    if earlier is not None:
        _print_expected(resolved, earlier)
    allowed = ("--allow-commands",) if allow_commands else ()
    go_on = ("thunderherd", "claims", study, "--decide", *allowed, "--out", str(directory), "--resume")
    summary = _run(resolved, directory, seed, resume=resume, go_on=go_on, allow_commands=allow_commands)
    if report := report_of_run(directory):
        print(f"report: {report}", file=sys.stderr)
    return summary


def _print_expected(study: Study, earlier: Path) -> None:
    """Print what the claims of a run are expected to need, by the spread and times of an earlier one."""
    from thunderherd.judge.summary.open_claims import claims_before_a_look, for_claims
    from thunderherd.records.directory import load
    from thunderherd.show.sentences.claims_so_far import claims_expected

    trials = load(earlier).trials
    if not trials:
        raise UserError(
            "the run has no trials, so nothing is known of its spread",
            code="claims.no_trials",
            hint="give the directory of a run with its trials.jsonl, or leave it out",
            where=str(earlier),
        )
    times: dict[str, list[float]] = {}
    for trial in trials:
        times.setdefault(trial.contender, []).append(trial.wall_seconds)
    means = {name: fmean(each) for name, each in times.items()}
    claims, results = claims_before_a_look(for_claims(study), trials)
    print(f"expected for a verdict, by the spread of the blocks in {earlier}:", file=sys.stderr)
    for line in claims_expected(claims, results, means, study.looks[-1].blocks):
        print(line, file=sys.stderr)


def _run(
    study: Study,
    directory: Path,
    seed: int | None,
    *,
    resume: bool,
    conform: bool = True,
    allow_commands: bool = False,
    go_on: tuple[str, ...] = (),
) -> Summary:
    from thunderherd.claims.claim_file import load_source
    from thunderherd.judge.claims.paper_counters import load_counters
    from thunderherd.judge.summary.open_claims import for_claims
    from thunderherd.run.runner import run_study

    # Mistakes in the source's files are reported before the first trial, not after the last.
    load_source(study)
    load_counters(study)
    return run_study(
        for_claims(study),
        directory,
        seed=seed,
        resume=resume,
        command=command_line(),
        go_on=go_on,
        conform=conform,
        allow_commands=allow_commands,
    )


def _show_defaults(study: str, size: str | None, others: Sequence[str]) -> None:
    """Print a study with its defaults; raise `UserError` for its mistakes, and for options of a run."""
    if others:
        raise UserError(
            f"--show-defaults and {' and '.join(others)} contradict each other",
            code="run.show_defaults_with_options",
            hint=f"leave {' and '.join(others)} out; the study is printed as its file has it",
            where="run",
        )

    from thunderherd.engine.client import catalogue
    from thunderherd.study.defaults import with_defaults
    from thunderherd.study.file.names import DEFAULT_SIZE, find_study
    from thunderherd.study.loading import load_study
    from thunderherd.toml.file import TomlFile

    file, known = TomlFile(find_study(study)), catalogue()
    load_study(file, size or DEFAULT_SIZE, (), known)
    print(with_defaults(file.data, known), end="")


def watch(directory: ResultsDirectory) -> None:
    """Watch a run that another terminal has started.

    Shows the ranking so far, intervals, time left, the current trial, and noise.
    """
    from thunderherd.run.watch import watch_run

    watch_run(directory)
