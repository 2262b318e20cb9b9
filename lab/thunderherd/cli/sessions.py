"""The commands for several runs: baselines, capsules, differences, and series for other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thunderherd.cli.options import (
    AsJson,
    Clients,
    Out,
    ReplySize,
    ResultsDirectory,
    check_output,
    check_room,
    chosen_labs,
    command_line,
    status_of_run,
)
from thunderherd.errors import UserError
from thunderherd.text.figures import count
from thunderherd.text.printable import printable

if TYPE_CHECKING:
    from thunderherd.capsule.container import Manifest
    from thunderherd.capsule.verdicts import Compared
    from thunderherd.gate.baseline import Session
    from thunderherd.records.directory import SavedRun
    from thunderherd.show.tables.model import Table

__all__ = ["baseline", "capsule", "diff", "export", "replay"]

FAILED = 1

Capsule = Annotated[Path, typer.Argument(metavar="FILE", help="Capsule, as `thunderherd capsule` wrote it.")]
RunOrCapsule = Annotated[Path, typer.Argument(metavar="RUN", help="Directory of a run, or a capsule.")]


def capsule(
    directory: ResultsDirectory,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="File to write (default STUDY.thd)."),
    ] = None,
) -> None:
    """Pack a run into one file for somebody else.

    The file is a zip archive: trials, summary, study, machine, and a manifest of hashes.
    """
    from thunderherd.capsule.packing import capsule_of
    from thunderherd.records.directory import read_run

    target = output or Path(f"{read_run(directory).study.get('name', 'run')}.thd")
    check_output("capsule", "--output", target)
    # A link that the user typed leads to the file.
    manifest = capsule_of(directory, target.resolve())
    size = target.stat().st_size
    written = f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"
    print(f"{target}: {count(len(manifest.files), 'file')} and a manifest, {written}")


def replay(
    file: Capsule,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure", help="Run the study again on this machine, with the same seed (default: no)."
        ),
    ] = False,
    allow_commands: Annotated[
        bool,
        typer.Option(
            "--allow-commands",
            help="With --measure, run commands of its study, and measure on its hosts (default: refuse).",
        ),
    ] = False,
    out: Out = None,
) -> int:
    """Check a capsule: compute its figures again from its trials.

    With --measure, run its study here, and report whether its verdicts are reproduced (ACM's term: another
    team, same artifact). The exit status is 1 if something differs.
    """
    from thunderherd.capsule.replay import measured_again, recomputed
    from thunderherd.capsule.verdicts import DID_NOT_HOLD, reproduced
    from thunderherd.records.directory import default_directory, load

    if (allow_commands or out is not None) and not measure:
        raise UserError(
            f"{'--allow-commands' if allow_commands else '--out'} is an option of a run",
            code="replay.option_without_measure",
            hint="add --measure",
            where="replay",
        )
    with _unpacked(file) as (directory, manifest):
        saved, again = recomputed(directory)
        assert saved.summary is not None
        differing = [each for each in again if each.before != each.now]
        print(
            f"{printable(saved.summary.study.name)}, seed {saved.run.seed}: {len(again)} verdicts and "
            f"figures computed again from {len(saved.trials)} trials, {len(differing)} differ"
        )
        _print_verdicts(differing)
        if manifest.version != (here := version("thunderherd")):
            print(f"Note: the capsule was made with version {manifest.version}; this is {here}")
        if not measure:
            return FAILED if differing else 0
        check_room()
        place = out or default_directory(f"replay-{saved.summary.study.name}")
        summary, _, found = measured_again(
            directory, place, command_line(), allow_commands=allow_commands, with_out=out is not None
        )
        if status := status_of_run(summary, "replay"):
            return status
        _print_verdicts(found)
        print(reproduced(found))
        _print_machines(saved, load(place), ("capsule", "here"))
        return FAILED if differing or any(each.outcome == DID_NOT_HOLD for each in found) else 0


def diff(a: RunOrCapsule, b: RunOrCapsule) -> None:
    """Compare two runs or capsules: settings, machines, verdicts."""
    from thunderherd.capsule.verdicts import compared, named_verdicts
    from thunderherd.records.directory import load
    from thunderherd.run.runner import differences

    with _opened(a) as one, _opened(b) as other:
        runs = (load(one), load(other))
        settings = differences(runs[0].run.study, runs[1].run.study)
        print(f"Settings: {_differences(settings)}")
        for line in settings:
            print(f"  {printable(line)}")
        _print_machines(*runs, ("first", "second"))
        summaries = [run.summary for run in runs]
        found = compared(*({} if summary is None else named_verdicts(summary) for summary in summaries))
        same = sum(each.before == each.now for each in found)
        print(f"Verdicts: {same} of {len(found)} are the same")
        _print_verdicts([each for each in found if each.before != each.now])


# Baselines ------------------------------------------------------------------------------------------------


def baseline(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="save, compare or list.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [SERVER]",
            help="Name of the baseline; to save one, also the server, as for `gate --base`.",
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", metavar="SERVER", help="With save, a server that does not change (default: none)."
        ),
    ] = None,
    across_sessions: Annotated[
        bool,
        typer.Option(
            "--across-sessions", help="Compare although the baseline has no reference (default: refuse)."
        ),
    ] = False,
    margin: Annotated[
        str | None,
        typer.Option("--margin", metavar="N%", help="With save, the slowdown that is allowed (default 5%)."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", metavar="TIME", help="With save, the time of a session (default 1min)."),
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option("--workload", metavar="NAME", help="With save, the workload (default bytes)."),
    ] = None,
    clients: Clients = None,
    size: ReplySize = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="NAME",
            help="With save, the user that servers and clients run as if root runs this (default: root "
            "itself).",
        ),
    ] = None,
    as_json: AsJson = False,
    out: Out = None,
) -> int:
    """Compare a server with an earlier session.

    `save` measures a server and keeps the result, replacing a baseline of the same name. `compare` measures
    the server again; its exit status is that of `gate`: 0 not slower, 1 slower, 125 undecided.

    Example: thunderherd baseline save monday './server {port}' --reference epoll
    """
    from thunderherd.gate.baseline import baselines

    if action != "list":
        check_room()
    given = words or []
    named = {"clients": clients, "bytes": size}
    options: dict[str, dict[str, object]] = {
        "save": {
            "--reference": reference,
            "--margin": margin,
            "--budget": budget,
            "--workload": workload,
            "--user": user,
            **{f"--{name}": text for name, text in named.items()},
            **({} if action == "save" else {word: word for word in given if word.startswith("-")}),
        },
        "compare": {"--across-sessions": across_sessions or None, "--json": as_json or None, "--out": out},
    }
    for of, values in options.items():
        if action in ("save", "compare", "list") and action != of:
            _refuse_options(action, [name for name, value in values.items() if value is not None])
    if action == "list":
        if given:
            raise UserError(
                f"list takes no name; '{given[0]}' was given",
                code="baseline.words",
                hint="leave it out: `baseline list` lists all",
                where="baseline",
            )
        for each in baselines():
            basis = f"with reference {each.reference}" if each.reference else "without a reference"
            print(printable(f"{each.name}  {each.saved[:10]}  {each.server} {basis}"))
        return 0
    if action == "save":
        given += [f"--{name}={text}" for name, text in named.items() if text is not None]
        return _save(given, reference, margin or "5%", budget or "1min", workload, chosen_labs(None, user))
    if action == "compare":
        return _compare(given, out, across_sessions=across_sessions, as_json=as_json)
    raise UserError(
        f"no such action '{action}'",
        code="baseline.unknown_action",
        hint="save, compare or list",
        where="baseline",
    )


def _refuse_options(action: str, given: Sequence[str]) -> None:
    if given:
        raise UserError(
            f"`baseline {action}` has no option {given[0]}",
            code="baseline.no_such_option",
            hint="leave it out; `thunderherd baseline --help` lists the options of each action",
            where="baseline",
        )


def _save(
    words: Sequence[str],
    reference: str | None,
    margin: str,
    budget: str,
    workload: str | None,
    lab: list[str],
) -> int:
    from thunderherd.cli.compare import parted, percent
    from thunderherd.gate.baseline import Baseline, save

    servers, settings = parted(words, "baseline")
    if len(servers) != 2:
        raise UserError(
            f"save takes a name and a server, not {count(len(servers), 'word')}",
            code="baseline.words",
            hint="such as baseline save monday './server {port}' --reference epoll",
            where="baseline",
        )
    allowed = percent(margin, "baseline", "--margin")
    made = Baseline(
        name=servers[0], server=servers[1], reference=reference, budget=budget, workload=workload,
        criteria={"server_cpu_per_request": allowed, "latency_p50_seconds": allowed}, settings=settings,
        lab=lab, directory=str(Path.cwd()), saved="",
    )  # fmt: skip
    print(f"kept in {save(made, command_line())}")
    return 0


def _compare(words: Sequence[str], out: Path | None, *, across_sessions: bool, as_json: bool) -> int:
    import json

    from thunderherd.capsule.machines import changes
    from thunderherd.gate.baseline import RUN, SESSION, compare_with, folder_of, measured, read_baseline
    from thunderherd.gate.verdict import EXIT_STATUS, together
    from thunderherd.records.directory import default_directory, load

    if len(words) != 1:
        raise UserError(
            "compare takes the name of a baseline",
            code="baseline.words",
            hint="`thunderherd baseline list` lists them",
            where="baseline",
        )
    kept = read_baseline(words[0])
    if kept.reference is None and not across_sessions:
        raise UserError(
            "no reference, so the machine's drift cannot be distinguished from the server's",
            code="baseline.no_reference",
            hint="save it again with --reference SERVER, or insist with --across-sessions",
            where=f"baseline: {kept.name}",
        )
    then = load(folder_of(kept.name) / RUN / SESSION)
    place = out or default_directory("baseline")
    now = measured(kept, place, command_line(), folder_of(kept.name) / RUN)
    found = compare_with(kept, then, now)
    verdict = together([each.verdict for each in found])
    changed = changes(then.run.machine, now.run.machine)
    alone = "across sessions, without a reference"
    basis = alone if kept.reference is None else f"relative to {kept.reference}"
    if as_json:
        rows = [{**each.__dict__} for each in found]
        for row in rows:
            for name in ("slowdown_percent", "drift_percent"):
                row[name] = row[name] and row[name].model_dump()
        about = {"verdict": verdict, "baseline": kept.model_dump(), "changed": changed, "rows": rows}
        print(json.dumps(about, indent=2))
    else:
        print(f"{verdict.capitalize()} since {kept.saved[:10]}, {basis}: {kept.server}")
        _print_table(_sessions(found))
        for each in changed:
            print(f"Note: changed since then: {printable(each)}")
    return EXIT_STATUS[verdict]


def _sessions(found: Sequence[Session]) -> Table:
    """Return the table of two sessions: a row for each metric."""
    from thunderherd.gate.page import slowdown
    from thunderherd.show.sentences.compared import head_and_phrase
    from thunderherd.show.tables.model import Cell, Column, Row, Table

    columns = (
        Column("metric", "name"), Column("slower by"), Column("allowed"), Column("reference drifted by"),
        Column("verdict", "short"),
    )  # fmt: skip
    rows = tuple(
        Row(
            (
                Cell(head_and_phrase(each.metric)[0]),
                Cell(slowdown(each.slowdown_percent)),
                Cell(f"{each.margin_percent:g} %"),
                Cell(slowdown(each.drift_percent)),
                Cell(each.verdict),
            )
        )
        for each in found
    )
    return Table("", columns, rows)


# Series ---------------------------------------------------------------------------------------------------


def export(
    directories: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Directories of runs.")],
    otava: Annotated[
        Path,
        typer.Option(
            "--otava",
            metavar="FILE",
            help="CSV file for Apache Otava; Otava's configuration goes to FILE.yaml.",
        ),
    ],
) -> None:
    """Write the figures of several runs as a series."""
    from thunderherd.capsule.series import as_csv, otava_test
    from thunderherd.files import write_text
    from thunderherd.records.directory import load

    check_output("export", "--otava", otava)
    saved = [load(each) for each in directories]
    text, metrics = as_csv(saved)
    otava.write_text(text, encoding="utf-8")
    test = otava.with_name(f"{otava.name}.yaml")
    # Nobody typed this name, so a link is not followed.
    write_text(test, otava_test(otava, metrics))
    series = f"{count(len(saved), 'run')}, {len(metrics)} series common to all runs"
    print(f"{otava}: {series}; {test}: Otava's configuration")


# What these commands share ----------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """Yield the directory of a run, or the folder of an unpacked capsule."""
    if path.is_dir():
        yield path
    else:
        with _unpacked(path) as (directory, _):
            yield directory


@contextmanager
def _unpacked(path: Path) -> Iterator[tuple[Path, Manifest]]:
    from thunderherd.capsule.container import unpack
    from thunderherd.files import temporary_folder

    with temporary_folder() as folder:
        yield folder, unpack(path, folder)


def _print_verdicts(found: Sequence[Compared]) -> None:
    from thunderherd.show.tables.model import Cell, Column, Row, Table

    if not found:
        return
    columns = (
        Column("verdict on", "words"),
        Column("before", "short"),
        Column("now", "short"),
        Column("outcome", "short"),
    )
    rows = tuple(
        Row(tuple(Cell(text or "none") for text in (each.name, each.before, each.now, each.outcome)))
        for each in found
    )
    _print_table(Table("", columns, rows))


def _print_machines(one: SavedRun, other: SavedRun, headings: tuple[str, str]) -> None:
    from thunderherd.capsule.machines import machine_differences
    from thunderherd.show.tables.model import Cell, Column, Row, Table

    found = machine_differences(one.run.machine, other.run.machine)
    print(f"Machines: {_differences(found)}{', those likely to matter first' if found else ''}")
    if found:
        columns = (Column("what", "short"), *(Column(each, "words") for each in headings))
        rows = tuple(Row(tuple(map(Cell, each))) for each in found)
        _print_table(Table("", columns, rows))


def _differences(found: Sequence[object]) -> str:
    return count(len(found), "difference") if found else "no differences"


def _print_table(table: Table) -> None:
    from thunderherd.show.terminal.tables import print_table
    from thunderherd.text.layout import make_console

    print_table(table, make_console())
