"""Options and arguments that several commands share, and what these commands do with them."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thunderherd.errors import UserError
from thunderherd.hosts.addresses import LOAD, SCHEDULER, SERVER, parse_scheduler
from thunderherd.machine.room import check_room as check_room

if TYPE_CHECKING:
    from thunderherd.records.summary import Summary, TrialRecord

PROGRAM = "thunderherd"

LAB_VALUE = "Kind of lab (`list labs`), or a key of one such as mtu=9000; may be repeated"
"""Help on the value of --lab, for every command that has the option."""

StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="Bundled study (`list studies`), or path of a TOML file.")
]
ResultsDirectory = Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a run's results.")]

Lab = Annotated[
    list[str] | None,
    typer.Option(
        "--lab",
        metavar="LAB",
        help=f"{LAB_VALUE} (default: that of the study, if there is one, else loopback).",
    ),
]
RunsAs = Annotated[
    str | None,
    typer.Option(
        "--user",
        metavar="NAME",
        help="User that servers and clients run as if root runs this (default: root itself).",
    ),
]
ServerHost = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="HOST",
        help="Host of the server, such as ssh://alice@a (default: that of the study, if there is one, else "
        "this machine).",
    ),
]
LoadHosts = Annotated[
    list[str] | None,
    typer.Option(
        "--load",
        metavar="HOST",
        help="Host of the load, such as ssh://b; may be repeated (default: as for --server).",
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Scheduler of a Dask cluster that is already there, such as tls://head:8786. If no hosts are "
        "named, they are its workers by name: server, load-0, load-1 ... (default: none).",
    ),
]
AllowCommands = Annotated[
    bool,
    typer.Option(
        "--allow-commands",
        help="Run commands on other hosts, and use commands and hosts of a study in another user's folder "
        "(default: refuse).",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Value of a key of the study; may be repeated (default: none)."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="N", min=0, help="Seed of the trial order (default: drawn, and recorded)."
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", help="Directory for the results (default: a new one below results/)."
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Continue the unfinished run or search in --out (default: start a new one)."
    ),
]
NoConform = Annotated[
    bool,
    typer.Option(
        "--no-conform", help="Skip the conformance cases of servers that are not ours (default: run them)."
    ),
]
Workload = Annotated[
    str | None,
    typer.Option("--workload", metavar="NAME", help="Workload, see `list workloads` (default bytes)."),
]
Clients = Annotated[
    str | None, typer.Option("-c", "--clients", metavar="N", help="Connections (default 64).")
]
ReplySize = Annotated[
    str | None,
    typer.Option("--bytes", metavar="SIZE", help="Size of a reply or message, such as 4KiB (default 4000)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON (default: text).")]


def command_line() -> list[str]:
    """Return the command line of this process, for the record of a run."""
    return [PROGRAM, *sys.argv[1:]]


def check_resume(command: str, *, resume: bool, out: Path | None) -> None:
    """Raise `UserError` for --resume without --out."""
    if resume and out is None:
        raise UserError(
            "--resume needs the directory to continue in",
            code=f"{command}.resume_without_out",
            hint="add --out DIR",
            where=command,
        )


def chosen_labs(
    lab: Sequence[str] | None,
    user: str | None,
    server: str | None = None,
    load: Sequence[str] | None = None,
    scheduler: str | None = None,
) -> list[str]:
    """Return the values of --lab, with --user, --server, --load and --scheduler among them.

    A scheduler is asked for the hosts that are not named.
    """
    if scheduler is not None:
        scheduler, server, load = workers(scheduler, server, load)
    named = {"user": user, SERVER: server, LOAD: list(load or ()) or None, SCHEDULER: scheduler}
    return [
        *(lab or ()),
        *(f"{key}={json.dumps(value)}" for key, value in named.items() if value is not None),
    ]


def workers(
    scheduler: str, server: str | None = None, load: Sequence[str] | None = None
) -> tuple[str, str, list[str]]:
    """Return the address of a scheduler, and its workers for both sides."""
    from thunderherd.labs.remote import check_cluster

    check_cluster()

    from thunderherd.hosts.schedulers import hosts_of

    address = parse_scheduler(scheduler)
    return address, *hosts_of(address, server, load)


# The results of a run ---------------------------------------------------------------------------------------


def summary_of(directory: Path) -> Summary:
    """Return the summary of a finished run; raise `UserError` if there is no such run."""
    return ended(directory)[0]


def ended(directory: Path) -> tuple[Summary, Sequence[TrialRecord]]:
    """Return the summary and the trials of a finished run; raise `UserError` if there is no such run."""
    from thunderherd.records.directory import load

    results = load(directory)
    if results.summary is None:
        files = [word for word in results.run.command if word.endswith(".toml")]
        study = files[0] if files else results.run.study.get("name", "STUDY")
        raise UserError(
            f"the run has not ended ({len(results.trials)} trials so far)",
            code="results.unfinished",
            hint=f"continue it: `{PROGRAM} run {study} --out {directory} --resume`",
            where=str(directory),
        )
    return results.summary, results.trials


NOTHING_MEASURED = 3
"""The exit status of a run without any figure, and of a comparison without two figures to compare."""


def status_of_run(summary: Summary, command: str) -> int:
    """Return the exit status of a run that has ended. If it has no figure, say why on stderr."""
    if any(each.metrics or each.spread for each in summary.contenders):
        return 0
    reasons = summary.trials.invalid_reasons
    why = max(reasons, key=lambda reason: reasons[reason]) if reasons else "no block counts"
    print(f"{PROGRAM}: {command}: nothing was measured: {why} [run.nothing_measured]", file=sys.stderr)
    print("hint: `thunderherd doctor` examines this machine", file=sys.stderr)
    return NOTHING_MEASURED


# Files that commands write ----------------------------------------------------------------------------------


def chosen_format(
    command: str, typed: str | None, output: Path | None, formats: Mapping[str, str], usual: str
) -> str:
    """Return the format that was typed, else that of the file's ending, else the usual one.

    `formats` maps endings of files to formats. Raises `UserError` for an unknown format, and for a format and
    an ending that contradict each other.
    """
    ending = output.suffix[1:].lower() if output is not None else ""
    found = typed or formats.get(ending, ending) or usual
    if found not in formats.values():
        raise UserError(
            f"no such format '{found}'",
            code=f"{command}.unknown_format",
            hint=f"allowed: {', '.join(formats.values())}",
            where=f"{command}: --format {typed}" if typed else f"{command}: --output {output}",
        )
    if formats.get(ending, found) != found:
        raise UserError(
            f"--format {typed} and --output {output} contradict each other",
            code=f"{command}.format_contradicts_output",
            hint="leave one out",
            where=command,
        )
    return found


def check_output(command: str, option: str, path: Path | None) -> None:
    """Raise `UserError` if a file cannot be written, before a command works for minutes."""
    if path is None:
        return
    if path.is_dir():
        reason = os.strerror(errno.EISDIR)
    elif not path.parent.is_dir():
        reason = os.strerror(errno.ENOENT)
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        reason = os.strerror(errno.EACCES)
    else:
        return
    raise UserError(
        f"cannot be written: {reason}",
        code=f"{command}.output_unwritable",
        hint="choose another place",
        where=f"{command}: {option} {path}",
    )


def write_output(
    command: str, path: Path, content: bytes, *, typed: bool = True, quiet: bool = False
) -> None:
    """Write a file and print its path, unless `quiet`; raise `UserError` if it cannot be written.

    A path that the user typed may be a link or a pipe, as after a shell's `>`. With `typed=False` the command
    has chosen it in a folder that may be somebody else's, so no link is followed.
    """
    from thunderherd.files import write_bytes

    try:
        if typed:
            path.write_bytes(content)
        else:
            write_bytes(path, content)
    except OSError as error:
        raise UserError(
            f"cannot be written: {error.strerror}",
            code=f"{command}.output_unwritable",
            hint="choose another place with --output",
            where=f"{command}: {path}",
        ) from None
    if not quiet:
        print(path)
