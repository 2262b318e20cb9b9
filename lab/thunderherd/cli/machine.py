"""The commands `doctor`, what this machine can do, `limits`, what operations cost, and `hosts`, others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from thunderherd.cli.options import PROGRAM, AsJson, Scheduler, workers
from thunderherd.errors import UserError
from thunderherd.toml.cpus import cpus_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from thunderherd.doctor.diagnosis import Diagnosis
    from thunderherd.doctor.kind import Change, Finding
    from thunderherd.doctor.runnable_studies import ClaimsHere, LeftOut, SizeHere, StudyHere
    from thunderherd.hosts.addresses import HostAddress

__all__ = ["doctor", "limits", "page", "print_page"]

Parameters = ParamSpec("Parameters")
Fact = TypeVar("Fact")

HERE = ""
"""Stands for this machine among the addresses of hosts."""
DOCTOR_SECONDS = 60.0
"""The time limit of an examination on a host."""

RUN, SOME_CANNOT = 0, 1
"""Exit status if all bundled studies can run, wholly or in part; and if one cannot."""

MARKS = {"good": " ", "notable": "!", "stops": "x", "unknown": "?"}
OF_STUDIES = {"wholly": " ", "in part": "!", "not": "x"}
STYLES = {"!": "yellow", "x": "bold red", "?": "dim", " ": ""}
LEGEND = "! worth knowing   x not possible here   ? unknown on this machine"

LONGEST_LIST = 4
"""The maximum number of contenders and reasons that the page names; --json has all."""

NAME = 26
"""Columns for the name of a finding; a longer name moves its text to the right."""

ServerToExamine = Annotated[
    str | None,
    typer.Option(
        "--server", metavar="HOST", help="Host to examine, such as ssh://alice@a (default: this machine)."
    ),
]
LoadsToExamine = Annotated[
    list[str] | None,
    typer.Option("--load", metavar="HOST", help="Further host to examine; may be repeated (default: none)."),
]


def doctor(
    server: ServerToExamine = None,
    load: LoadsToExamine = None,
    scheduler: Scheduler = None,
    as_json: AsJson = False,
) -> int:
    """Show what this machine can measure, and how to change that.

    Takes a few seconds and changes nothing. Schema of the JSON: docs/generated/reference/doctor.schema.json.
    With several hosts, the JSON has one such object for each, by its address.

    Exit status: 0 if all bundled studies can run, wholly or in part (the page names what is left out, and
    why); 1 if one cannot run; 2 for wrong usage.
    """
    from thunderherd.doctor.diagnosis import diagnose
    from thunderherd.text.layout import make_console

    console, found = make_console(), _asked((server, load, scheduler), DOCTOR_SECONDS, diagnose)
    if as_json:
        _print_json({host: each.model_dump(mode="json") for host, each in found.items()})
        return _status(found.values())
    for host, each in found.items():
        if host != HERE:
            console.print(host, style="bold")
        print_page(console, each)
    return _status(found.values())


def _status(found: Iterable[Diagnosis]) -> int:
    return RUN if all(each.all_studies_run for each in found) else SOME_CANNOT


def _asked(
    hosts: tuple[str | None, Sequence[str] | None, str | None],
    seconds: float,
    fact: Callable[Parameters, Fact],
    *args: Parameters.args,
    **kwargs: Parameters.kwargs,
) -> dict[str, Fact]:
    """Return what a function finds on each host, by address; without hosts, on this machine.

    `hosts` are the values of --server, --load and --scheduler. On a host, the function has `seconds`.
    """
    server, load, scheduler = hosts
    addresses, scheduler = _hosts([*([server] if server else []), *(load or ())], scheduler)
    if not addresses:
        return {HERE: fact(*args, **kwargs)}

    from thunderherd.labs.remote import check_cluster

    check_cluster()

    from thunderherd.hosts.cluster import Cluster

    with Cluster(addresses, scheduler) as cluster:
        places = [cluster.place(each) for each in cluster.addresses]
        return {each.host: each.ask_for(seconds, fact, *args, **kwargs) for each in places}


def _hosts(typed: Sequence[str], scheduler: str | None) -> tuple[list[HostAddress], str | None]:
    """Return the hosts, and their scheduler. If none are typed, they are the workers of the scheduler."""
    from thunderherd.hosts.addresses import parse_host_of

    if scheduler is not None and not typed:
        scheduler, server, load = workers(scheduler)
        typed = [server, *load]
    return [parse_host_of(each, scheduler) for each in typed], scheduler


def _print_json(found: Mapping[str, Any]) -> None:
    """Print what was found on each host, by address; if there is only one, without the address."""
    shown = next(iter(found.values())) if len(found) == 1 else found
    print(json.dumps(shown, indent=2, ensure_ascii=False))


def print_page(console: Console, found: Diagnosis) -> None:
    """Print the page: a line for each good finding; for others what they mean and what to type."""
    for line in page(console, found):
        console.print(line, soft_wrap=True)


def _print_notable(console: Console, found: Diagnosis) -> None:
    """Print the findings that are not good, without titles."""
    findings = [each for examined in found.examinations.values() for each in examined.findings]
    for finding in findings:
        if finding.judgement != "good":
            for line in _finding(console, finding):
                console.print(line, soft_wrap=True)


def page(console: Console, found: Diagnosis) -> Iterator[Text]:
    """Yield the lines of the page, at most as wide as the console. Commands are never divided."""
    from rich.text import Text

    yield from _paragraph(console, f"{found.processor}, Linux {found.kernel}", "", "bold")
    yield from _paragraph(console, LEGEND, "", "dim")
    for examined in found.examinations.values():
        yield Text(examined.title, style="bold")
        for finding in examined.findings:
            yield from _finding(console, finding)
    yield Text("Studies", style="bold")
    for study in found.studies:
        yield from _study(console, study)
    yield from _paragraph(console, verdict(found), "", "bold")


def verdict(found: Diagnosis) -> str:
    """Return a sentence on whether the bundled studies can run, with the exit status."""
    runs = [each.runs for each in found.studies]
    cannot = [each.name for each in found.studies if each.runs == "not"]
    if cannot:
        others = f"{len(runs) - len(cannot)} of {len(runs)} bundled studies can"
        return f"{', '.join(cannot)} cannot run on this machine; {others} (exit status {SOME_CANNOT})."
    how = f"{runs.count('wholly')} wholly, {runs.count('in part')} in part"
    return f"All {len(runs)} bundled studies can run here: {how} (exit status {RUN})."


def _finding(console: Console, finding: Finding) -> Iterator[Text]:
    mark = MARKS[finding.judgement]
    if finding.judgement == "good":
        text = "; ".join(filter(None, (finding.seen, finding.means)))
        yield from _row(console, mark, finding.name, text)
        return
    yield from _row(console, mark, finding.name, finding.seen)
    if finding.means:
        yield from _paragraph(console, finding.means, " " * NAME)
    yield from _changes(finding.changes)


def _study(console: Console, study: StudyHere) -> Iterator[Text]:
    from thunderherd.records.extra_trials import WHAT_EXPLAINS

    sizes = f"sizes {', '.join(study.sizes)}"
    summary = f"{study.runs} ({sizes})" if study.runs != "not" else f"cannot run: size {study.usual_size}"
    yield from _row(console, OF_STUDIES[study.runs], study.name, summary)
    for alike, size in _alike(study.sizes):
        lines = _of_size(size)
        for line, changes in lines:
            yield from _paragraph(console, f"{' and '.join(alike)}: {line}", " " * NAME)
            yield from _changes(changes)
    if study.uncounted:
        yield from _paragraph(console, f"not counted here: {', '.join(study.uncounted)}", " " * NAME)
    if study.claims is not None and study.claims.not_testable:
        for line in _claims(study.claims):
            yield from _paragraph(console, line, " " * NAME)
    if not study.has_counted_trials:
        why = "no counted trials, so nothing for `thunderherd explain`; `--set counting.trials=1` adds some"
        yield from _paragraph(console, why, " " * NAME)
    if study.uncounted_apart:
        without = [each for each in study.uncounted_apart if each in WHAT_EXPLAINS]
        means = f"; `thunderherd explain` attributes nothing to {_or(without)}" if without else ""
        why = f"not counted in its counted trials: {', '.join(study.uncounted_apart)}{means}"
        yield from _paragraph(console, why, " " * NAME)


def _claims(claims: ClaimsHere) -> Iterator[str]:
    """Yield how many claims can be decided here, then those that cannot, by reason."""
    several = len(claims.testable) + len(claims.not_testable)
    yield f"{len(claims.testable)} of {several} claims can be decided here"
    for reason in dict.fromkeys(claims.not_testable.values()):
        names = [name for name, why in claims.not_testable.items() if why == reason]
        yield f"not {', '.join(names)}: {reason}"


def _or(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _alike(sizes: dict[str, SizeHere]) -> Iterator[tuple[list[str], SizeHere]]:
    """Group the sizes that are alike."""
    seen: list[SizeHere] = []
    for size in sizes.values():
        if size not in seen:
            seen.append(size)
            yield [name for name, each in sizes.items() if each == size], size


def _of_size(size: SizeHere) -> Iterator[tuple[str, Sequence[Change]]]:
    from thunderherd.text.figures import count

    for reason in size.reasons[:LONGEST_LIST]:
        yield f"cannot run: {reason}", ()
    if (more := len(size.reasons) - LONGEST_LIST) > 0:
        yield f"cannot run for {count(more, 'further reason')}: --json has them", ()
    begins = "cannot run without" if size.runs == "not" else "without"
    for each in size.left_out:
        yield f"{begins} {_names(each)}: {each.reason}", each.changes


def _names(left_out: LeftOut) -> str:
    names = left_out.contenders
    more = len(names) - LONGEST_LIST
    return ", ".join(names) if more <= 0 else f"{', '.join(names[:LONGEST_LIST])} and {more} more"


def _changes(changes: Iterable[Change]) -> Iterator[Text]:
    """Yield commands to type. Their lines are not divided, so that they can be copied."""
    from rich.text import Text

    for change in changes:
        yield Text.assemble(("      type  ", "dim"), (change.command, "cyan"))
        if change.undo:
            yield Text.assemble(("      undo  ", "dim"), change.undo)


def _row(console: Console, mark: str, name: str, text: str) -> Iterator[Text]:
    from rich.text import Text

    from thunderherd.text.layout import wrapped

    head = f"  {mark} {name}".ljust(NAME - 1) + " "
    first, *others = wrapped(text, console, head=head)
    yield Text.assemble((first[:4], STYLES[mark]), first[4:])
    yield from map(Text, others)


def _paragraph(console: Console, text: str, indent: str, style: str = "") -> Iterator[Text]:
    from rich.text import Text

    from thunderherd.text.layout import wrapped

    yield from (Text(line, style=style) for line in wrapped(text, console, head=indent))


# Limits -----------------------------------------------------------------------------------------------------


def limits(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES...]", help="Limits, see `list limits` (default: all)."),
    ] = None,
    as_json: AsJson = False,
    cpus: Annotated[
        str | None,
        typer.Option("--cpus", metavar="A,B", help="CPU that measures, and CPU of its peer (default: any)."),
    ] = None,
    duration: Annotated[
        str | None,
        typer.Option("--duration", metavar="TIME", help="Approximate duration, up to 10min (default 10s)."),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, max=10_000, help="Rounds (default 31).")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of the order within a round (default 1).")
    ] = None,
    server: ServerToExamine = None,
    load: LoadsToExamine = None,
    scheduler: Scheduler = None,
) -> None:
    """Measure the cost of calls, copies and processes on this machine.

    With several hosts, the JSON has one object for each, by its address.
    """
    chosen = _cpus(cpus)

    from thunderherd.engine.client import catalogue
    from thunderherd.engine.setting_rules import SettingValue
    from thunderherd.machine.limits import limits_of_lines, measured_lines, measuring_seconds
    from thunderherd.show.terminal.limits import print_limits
    from thunderherd.study.file.tables import NoiseTable
    from thunderherd.text.layout import make_console
    from thunderherd.toml.file import unknown

    offered_here = catalogue()
    listed = offered_here.limits
    offered = [each.name for each in listed]
    for name in names or []:
        if name not in offered:
            raise UserError(unknown("limit", name, offered, "limits").at("limits"))
    # The engine has a default for each setting that is left out.
    given = {"duration": duration, "rounds": rounds, "seed": seed}
    settings: dict[str, SettingValue] = {}
    for setting in offered_here.limit_settings:
        if (value := given.get(setting.name)) is None:
            continue
        if refusal := setting.refusal(value):
            where = f"limits: --{setting.name} {value}"
            hint = refusal.hint.replace('"', "")
            raise UserError(refusal.message, code=f"limits.{refusal.code}", hint=hint, where=where)
        settings[setting.name] = setting.read(value)
    lines = _asked(
        (server, load, scheduler),
        measuring_seconds(settings, offered_here.limit_settings),
        measured_lines,
        names or [],
        cpus=chosen,
        settings=settings,
        allowed=NoiseTable(),
    )
    found = {host: limits_of_lines(each, listed) for host, each in lines.items()}
    if as_json:
        _print_json({host: each.model_dump(mode="json", by_alias=True) for host, each in found.items()})
        return
    console = make_console()
    for host, each in found.items():
        if host != HERE:
            console.print(host, style="bold")
        print_limits(each, console)


def _cpus(text: str | None) -> list[int] | None:
    """Parse a list such as `0,1`. The engine checks which CPUs exist."""
    try:
        return None if text is None else cpus_of(text)
    except ValueError:
        raise UserError(
            f"'{text}' is not a list of CPUs",
            code="limits.invalid_cpus",
            hint="give one CPU, or two with a comma, counted from 0: --cpus 0,1",
            where=f"limits: --cpus {text}",
        ) from None


# Hosts ------------------------------------------------------------------------------------------------------


def hosts(
    addresses: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="HOST...",
            help="Hosts, such as ssh://alice@a; `this` is this machine, worker:NAME a worker of --scheduler.",
        ),
    ] = None,
    scheduler: Scheduler = None,
    install: Annotated[
        bool, typer.Option("--install", help="Copy the agent to these hosts (default: look at them).")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Remove the agent from these hosts (default: look at them).")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look at hosts and their paths, or install the agent there.

    The agent is what servers and loads need on another host. It is one file, in a folder of your user there.

    Example: thunderherd hosts --install ssh://a ssh://b
    """
    options = {"--install": install, "--uninstall": uninstall, "--scheduler": scheduler is not None}
    given = [name for name, is_given in options.items() if is_given]
    if len(given) > 1:
        raise UserError(
            f"{' and '.join(given)} contradict each other",
            code="hosts.both",
            hint="give one of them",
            where="hosts",
        )
    found, scheduler = _hosts(addresses or [], scheduler)
    if not found:
        raise UserError(
            "no host is given", code="hosts.no_host", hint=f"such as {PROGRAM} hosts ssh://a", where="hosts"
        )
    if install or uninstall:
        _change(found, install=install)
        return

    from thunderherd.labs.remote import check_cluster

    check_cluster()

    from thunderherd.doctor.diagnosis import Diagnosis, diagnose
    from thunderherd.hosts.survey import survey
    from thunderherd.show.terminal.hosts import print_survey
    from thunderherd.text.layout import make_console

    seen, console = survey(found, diagnose, DOCTOR_SECONDS, scheduler), make_console()
    if as_json:
        print(json.dumps(seen.model_dump(mode="json"), indent=2))
        return
    print_survey(seen, console)
    for machine in seen.machines:
        assert isinstance(machine.doctor, Diagnosis)
        console.print(f"\nWhat disturbs or limits measurements on {machine.address}", style="bold")
        console.print(LEGEND, style="dim", soft_wrap=True)
        _print_notable(console, machine.doctor)
        whole = f"{PROGRAM} doctor --server {machine.address}"
        of = f" --scheduler {scheduler}" if scheduler else ""
        console.print(f"the whole page: {whole}{of}", style="dim", soft_wrap=True)


def _change(found: list[HostAddress], *, install: bool) -> None:
    from thunderherd.hosts.installing import install as install_on
    from thunderherd.hosts.installing import uninstall as uninstall_from

    for each in found:
        if install:
            size = install_on(each)
            print(f"{each}: installed ({size / 1e6:.0f} MB sent)")
        elif names := uninstall_from(each):
            print(f"{each}: removed {', '.join(names)}")
        else:
            print(f"{each}: nothing was installed")
