"""The command `gate`: did the server get slower?

Exit status: 0 not slower by more than the margin, 1 slower, 125 undecided within the budget, 128 and more for
failures of the command itself. `git bisect run` skips a commit with 125, and stops at 128 and more.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thunderherd.cli.compare import parted, percent
from thunderherd.cli.options import (
    PROGRAM,
    AllowCommands,
    AsJson,
    Clients,
    Lab,
    LoadHosts,
    NoConform,
    Out,
    Overrides,
    ReplySize,
    Resume,
    RunsAs,
    Scheduler,
    Seed,
    ServerHost,
    check_output,
    check_resume,
    check_room,
    chosen_labs,
    command_line,
    write_output,
)
from thunderherd.errors import UserError

if TYPE_CHECKING:
    from thunderherd.gate.gate import Gated
    from thunderherd.gate.request import Criterion, GateRequest
    from thunderherd.gate.verdict import GateResult

__all__ = ["gate"]

SKIPPED = 125
"""The exit status that `git bisect run` takes for a commit that cannot be tested."""
USUAL_MARGIN, USUAL_POWER, USUAL_BUDGET = "2%", "90%", "3min"
USUAL_METRICS = ("server_cpu_per_request", "latency_p50_seconds")
NOT_KNOWN_YET = (
    "before the run: the smallest slowdown that this budget can find is unknown until the first blocks "
    "(`thunderherd gate --calibrate N` measures it beforehand)"
)


def gate(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]",
            help="A study with two contenders, instead of --base and --head (`list studies`).",
            show_default=False,
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            "--base",
            metavar="SERVER",
            help="The server as it was: a command in quotes with {port}, a URL, or a design (default: none).",
        ),
    ] = None,
    head: Annotated[
        str | None, typer.Option("--head", metavar="SERVER", help="The server as it is now (default: none).")
    ] = None,
    base_rev: Annotated[
        str | None,
        typer.Option(
            "--base-rev",
            metavar="REV",
            help="Git revision of base, with --serve instead of --base (default: none).",
        ),
    ] = None,
    head_rev: Annotated[
        str | None,
        typer.Option(
            "--head-rev", metavar="REV", help="Git revision of head (default: HEAD of the repository)."
        ),
    ] = None,
    build: Annotated[
        str | None,
        typer.Option(
            "--build", metavar="COMMAND", help="Shell command that builds a revision (default: none)."
        ),
    ] = None,
    serve: Annotated[
        str | None,
        typer.Option(
            "--serve", metavar="COMMAND", help="Command of a revision's server, with {port} (default: none)."
        ),
    ] = None,
    margin: Annotated[
        str,
        typer.Option(
            "--margin", metavar="N%", help="Slowdown that is allowed (default 2%).", show_default=False
        ),
    ] = USUAL_MARGIN,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME[=N%]",
            help="Metric, perhaps with its own margin; may be repeated (default: server CPU per request, and "
            "the median latency at a rate that both can serve).",
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="TIME", help="Time for all trials (default 3min).", show_default=False
        ),
    ] = None,
    power: Annotated[
        str,
        typer.Option(
            "--power",
            metavar="N%",
            help="Chance of finding the slowdown in the column `would find` (default 90%).",
            show_default=False,
        ),
    ] = USUAL_POWER,
    workload: Annotated[
        list[str] | None,
        typer.Option("--workload", metavar="NAME", help="Workload, see `list workloads` (default bytes)."),
    ] = None,
    clients: Clients = None,
    size: ReplySize = None,
    bisect: Annotated[
        bool,
        typer.Option(
            "--bisect", help="Exit with status 125 if a build fails, for `git bisect run` (default: 128)."
        ),
    ] = False,
    calibrate: Annotated[
        int | None,
        typer.Option(
            "--calibrate",
            metavar="N",
            min=1,
            max=1000,
            help="Run N gates of base with itself, and keep the number of false alarms (default: run the "
            "gate).",
        ),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="File for Markdown (default: none).")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="File for JUnit XML (default: none).")
    ] = None,
    as_json: AsJson = False,
    lab: Lab = None,
    user: RunsAs = None,
    server: ServerHost = None,
    load_hosts: LoadHosts = None,
    scheduler: Scheduler = None,
    allow_commands: AllowCommands = False,
    overrides: Overrides = None,
    seed: Seed = None,
    out: Out = None,
    resume: Resume = False,
    no_conform: NoConform = False,
) -> int:
    """Find out whether a server got slower.

    Base and head run in the same blocks. The exit status is 0 if head is not slower by more than the margin,
    1 if it is, 125 if the budget was too short for a verdict, and 128 or more if the command fails.

    Example: thunderherd gate --base './old {port}' --head './new {port}' --workload http
    """
    check_room()
    check_resume("gate", resume=resume, out=out)
    for option, path in (("--markdown", markdown), ("--junit", junit)):
        check_output("gate", option, path)
    studies, settings = parted(words or [], "gate")
    named = {"clients": clients, "bytes": size}
    settings = [*((name, text) for name, text in named.items() if text is not None), *settings]
    chance = _share(power)
    chosen = _one_workload(workload or [])
    allowed = percent(margin, "gate", "--margin")

    from thunderherd.gate.gate import gate as run_gate
    from thunderherd.gate.gate import gate_study
    from thunderherd.gate.request import GateRequest, StudyGateRequest
    from thunderherd.study.lab_option import as_overrides, read

    typed = _criteria(metric or (), allowed, of_study=bool(studies))
    if studies:
        others = {
            "--base-rev": base_rev, "--head": head, "--head-rev": head_rev, "--serve": serve,
            "--build": build, "--bisect": bisect or None, "--workload": chosen, "--calibrate": calibrate,
            **{f"--{name}": text for name, text in settings},
        }  # fmt: skip
        _refuse_with_study(studies, [name for name, value in others.items() if value is not None])
        labs = read(chosen_labs(lab, user, server, load_hosts, scheduler), command="gate: ")
        fixed = (*as_overrides(labs), *(overrides or ()))
        found = gate_study(
            StudyGateRequest(
                study=studies[0], size="quick", margin_percent=allowed, margins=tuple(typed), base=base,
                budget=budget, fixed=fixed, seed=seed, out=out, resume=resume, words=tuple(command_line()),
                conform=not no_conform, allow_commands=allow_commands, power=chance,
            ),
            None if resume else partial(_tell_what_can_be_found, workload=None),
        )  # fmt: skip
    else:
        if calibrate is not None:
            _refuse_with_calibration(
                {"--head": head, "--head-rev": head_rev, "--markdown": markdown, "--junit": junit}
            )
            head, head_rev = base, base_rev
        pair, labels, folders = _servers(base, head, (base_rev, head_rev), build, serve, bisect=bisect)
        request = GateRequest(
            contenders=pair, labels=labels, directories=folders, settings=tuple(settings), workload=chosen,
            criteria=tuple(typed or [_criterion(name, allowed) for name in USUAL_METRICS]),
            lab=tuple(chosen_labs(lab, user, server, load_hosts, scheduler)), budget=budget or USUAL_BUDGET,
            fixed=tuple(overrides or ()), seed=seed, out=out, resume=resume, words=tuple(command_line()),
            conform=not no_conform, allow_commands=allow_commands, power=chance,
        )  # fmt: skip
        if calibrate is not None:
            return _calibrate(request, calibrate, chance, as_json=as_json)
        found = run_gate(request, None if resume else partial(_tell_what_can_be_found, workload=chosen))
    result = _result(found, chance)
    _write(found, result, markdown, junit, as_json=as_json)
    return result.exit_status


def _servers(
    base: str | None,
    head: str | None,
    revisions: tuple[str | None, str | None],
    build: str | None,
    serve: str | None,
    *,
    bisect: bool,
) -> tuple[tuple[str, str], tuple[str, str] | None, tuple[Path, Path] | None]:
    """Return base and head as a comparison takes them, their labels, and the folders in which they run.

    None: the labels are as typed, and the folder is the current one.
    """
    if revisions[0] is None:
        given = {
            "--head-rev": revisions[1], "--build": build, "--serve": serve, "--bisect": bisect or None,
        }  # fmt: skip
        if extra := [name for name, value in given.items() if value is not None]:
            raise UserError(
                f"{extra[0]} without --base-rev",
                code="gate.no_base_revision",
                hint=f"add --base-rev REV, or leave {extra[0]} out",
                where="gate",
            )
        if base is None or (head is None):
            missing = "--base" if base is None else "--head"
            raise UserError(
                f"no {missing}",
                code="gate.too_few_servers",
                hint="such as gate --base './old {port}' --head './new {port}', or gate STUDY",
                where="gate",
            )
        return (base, head), None, None
    if base is not None or head is not None:
        raise UserError(
            "--base-rev and --base or --head contradict each other",
            code="gate.revision_and_server",
            hint="give revisions with --serve, or two servers",
            where="gate",
        )
    if serve is None:
        raise UserError(
            "--base-rev without --serve",
            code="gate.no_serve",
            hint="add the server's command, such as --serve './server {port}'",
            where="gate",
        )

    from thunderherd.gate.revisions import BuildFailedError, built, resolved

    here = Path.cwd()
    found = [
        resolved(revisions[0], here, "--base-rev"),
        resolved(revisions[1] or "HEAD", here, "--head-rev"),
    ]
    below = here.relative_to(found[0].repository.resolve())
    folders = [built(found[0], build, below)]
    try:
        folders.append(built(found[1], build, below))
    except BuildFailedError as error:
        # A base that cannot be built would make `git bisect` skip every commit.
        if bisect:
            error.exit_status = SKIPPED
        raise
    labels = (found[0].label, found[1].label)
    return (serve, serve), labels, (folders[0], folders[1])


def _tell_what_can_be_found(metrics: Sequence[str], workload: str | None) -> None:
    """Print what gates of a calibration with this workload would have found, if there is one."""
    from thunderherd.gate.calibration import kept_calibration
    from thunderherd.gate.page import found_by_calibrated
    from thunderherd.machine.description import describe

    found = kept_calibration(describe())
    lines = found_by_calibrated(found, metrics) if found and found.workload == workload else []
    for line in lines or [NOT_KNOWN_YET]:
        print(line, file=sys.stderr)


def _result(found: Gated, power: float) -> GateResult:
    """Return the verdict of a gate with its sentence, and the calibration of this machine."""
    from thunderherd.gate.calibration import kept_calibration
    from thunderherd.gate.page import sentence
    from thunderherd.gate.verdict import result_of
    from thunderherd.records.directory import load
    from thunderherd.show.sentences.compared import to_know

    saved = load(found.directory)
    result = result_of(
        found.summary,
        saved.trials,
        found.questions,
        found.labels,
        power=power,
        pilot_seconds=found.pilot_seconds,
        directory=str(found.directory),
        calibration=kept_calibration(saved.run.machine),
        notes=to_know(found.summary),
    )
    return result.model_copy(update={"sentence": sentence(result)})


def _write(
    found: Gated, result: GateResult, markdown: Path | None, junit: Path | None, *, as_json: bool
) -> None:
    """Print the verdict, and write it for programs."""
    from thunderherd.gate.formats import as_junit, as_markdown, tell_github
    from thunderherd.gate.page import facts, gate_table
    from thunderherd.gate.verdict import NOT_SLOWER, UNDECIDED
    from thunderherd.show.report.page import report_of_run
    from thunderherd.show.terminal.result_page import ResultPage, print_result
    from thunderherd.text.layout import Sentence, make_console

    report = report_of_run(found.directory)
    if as_json:
        print(result.model_dump_json(by_alias=True, indent=2))
    else:
        better = ("head",) if result.verdict == NOT_SLOWER else ()
        answer = Sentence(result.sentence, better, result.verdict == UNDECIDED)
        told = facts(result)
        page = ResultPage(
            [answer],
            gate_table(result, found.summary),
            [text for head, text in told if head == "Note"],
            (
                *[(head, text) for head, text in told if head != "Note"],
                ("Report", "" if report is None else str(report)),
            ),
        )
        print_result(page, make_console())
    if markdown is not None:
        write_output("gate", markdown, as_markdown(result, found.summary).encode(), quiet=as_json)
    if junit is not None:
        write_output("gate", junit, as_junit(result), quiet=as_json)
    for line in tell_github(result, found.summary, os.environ):
        print(line, file=sys.stderr if as_json else sys.stdout)


def _refuse_with_calibration(given: Mapping[str, object | None]) -> None:
    for option, value in given.items():
        if value is not None:
            raise UserError(
                f"{option} with --calibrate",
                code="gate.option_of_one_gate",
                hint=f"leave {option} out: --calibrate runs several gates of base with itself",
                where="gate",
            )


def _calibrate(request: GateRequest, gates: int, power: float, *, as_json: bool) -> int:
    """Run gates of base with itself; print and keep the number of false alarms."""
    from statistics import median

    from thunderherd.gate.calibration import Calibration, keep_calibration, machine_key, now
    from thunderherd.gate.gate import gate as run_gate
    from thunderherd.gate.page import calibrated
    from thunderherd.gate.verdict import SLOWER, UNDECIDED
    from thunderherd.records.directory import default_directory, load
    from thunderherd.toml.quantities import TIME, parse_quantity

    place = request.out or default_directory("gate-calibration")
    if request.out is None:
        request = replace(request, words=(*request.words, "--out", str(place)))
    elif place.is_dir() and any(place.iterdir()) and not request.resume:
        raise request.refusal(
            f"--out {place}", "it is not empty", "search.out_not_empty", "choose another directory with --out"
        )
    results: list[GateResult] = []
    machine = {}
    for number in range(1, gates + 1):
        seed = None if request.seed is None else request.seed + number
        own = replace(request, out=place / f"{number}", seed=seed)
        found = run_gate(own)
        machine = load(found.directory).run.machine
        results.append(_result(found, power))
        print(f"{PROGRAM}: gate {number} of {gates}: {results[-1].verdict}", file=sys.stderr)
    if not any(each.blocks for each in results):
        raise UserError(
            "no gate has a block that counts, so nothing is known of false alarms",
            code="gate.nothing_measured",
            hint=f"`thunderherd table {place / '1/gate'}` shows the trials of the first gate",
            where="gate",
        )
    found_percent = {
        row.metric: [each for result in results for each in _found(result, row.metric)]
        for row in results[0].rows
    }
    calibration = Calibration(
        server=results[0].base,
        workload=request.workload,
        gates=gates,
        alarms=sum(each.verdict == SLOWER for each in results),
        undecided=sum(each.verdict == UNDECIDED for each in results),
        margins={each.metric: each.margin_percent for each in request.criteria},
        budget_seconds=parse_quantity(request.budget or USUAL_BUDGET, "gate: --budget", TIME) / 1e9,
        power=power,
        would_find_percent={name: median(values) for name, values in found_percent.items() if values},
        measured=now(),
        machine=machine_key(machine),
    )
    print(calibration.model_dump_json(indent=2) if as_json else f"False alarms: {calibrated(calibration)}")
    path = keep_calibration(calibration, machine)
    print(f"kept in {path}", file=sys.stderr)
    return 0


def _found(result: GateResult, metric: str) -> list[float]:
    return [
        each.would_find_percent
        for each in result.rows
        if each.metric == metric and each.would_find_percent is not None
    ]


def _criteria(texts: Sequence[str], usual: float, *, of_study: bool) -> list[Criterion]:
    """Return the metrics with their margins; raise `UserError` for one that is given twice."""
    found: dict[str, Criterion] = {}
    for text in texts:
        if of_study and "=" not in text:
            raise UserError(
                "no margin; the study chooses its metrics",
                code="gate.metric_of_study",
                hint=f"give --metric {text}=5%, or leave it out",
                where=f"gate: --metric {text}",
            )
        each = _criterion(text, usual, of_study=of_study)
        if each.metric in found:
            raise UserError(
                f"{each.metric} is given twice",
                code="gate.metric_twice",
                hint="give each metric once, perhaps with its margin",
                where=f"gate: --metric {text}",
            )
        found[each.metric] = each
    return list(found.values())


def _criterion(text: str, usual: float, *, of_study: bool = False) -> Criterion:
    """Return a metric with its margin. `margins_of` checks the metrics of a study when the study is read."""
    from thunderherd.gate.request import Criterion
    from thunderherd.gate.study import METRICS_OF_GATES
    from thunderherd.toml.file import unknown

    name, equals, margin = text.partition("=")
    if not of_study and name not in METRICS_OF_GATES:
        raise UserError(
            unknown("metric of a gate", name, METRICS_OF_GATES, "gate").at(f"gate: --metric {text}")
        )
    return Criterion(name, percent(margin, "gate", f"--metric {name}=") if equals else usual)


def _one_workload(given: Sequence[str]) -> str | None:
    if len(given) > 1:
        raise UserError(
            f"{len(given)} workloads: {', '.join(given)}",
            code="gate.several_workloads",
            hint="give one, or a study that compares base and head by each",
            where="gate: --workload",
        )
    return given[0] if given else None


def _share(text: str) -> float:
    """Return the value of --power, such as 90%, as a number below 1."""
    found = percent(text, "gate", "--power") / 100
    if not 0.5 <= found < 1:
        raise UserError(
            f"{text} is not from 50% to 99%",
            code="gate.invalid_power",
            hint="90% is usual",
            where=f"gate: --power {text}",
        )
    return found


def _refuse_with_study(studies: Sequence[str], given: Sequence[str]) -> None:
    if len(studies) > 1:
        raise UserError(
            f"{len(studies)} studies: {', '.join(studies)}",
            code="gate.several_studies",
            hint="give one study, or --base and --head",
            where="gate",
        )
    if given:
        raise UserError(
            f"{given[0]} and a study contradict each other",
            code="gate.option_contradicts_study",
            hint=f"leave {given[0]} out; --set changes a key of the study",
            where="gate",
        )
