"""The command `compare`: which contender is better for this workload, in each metric."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thunderherd.cli.options import (
    NOTHING_MEASURED,
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
    Workload,
    check_output,
    check_resume,
    check_room,
    chosen_labs,
    command_line,
)
from thunderherd.errors import UserError

if TYPE_CHECKING:
    from thunderherd.records.summary import Summary

__all__ = ["compare", "parted", "percent", "status_of"]

SHORT = {"d": "duration", "t": "threads", "R": "rate", "H": "header", "m": "method"}
"""The short options of `load`, which mean the same here."""

OF_OTHERS = {
    "-n": "trials end by time: -d TIME is the window of a trial, --budget TIME the time of the comparison",
    "-z": "--budget TIME is the time of the comparison, -d TIME the window of a trial",
    "-q": "-R RATE is the rate of all clients together",
    "-s": "there are no scripts; `thunderherd load --help-all` lists the settings of requests",
    "-k": "leave it out: connections persist, unless --connections per_request is given",
    "--latency": "leave it out: latency at a common rate is always compared",
    "--disable-keepalive": "--connections per_request",
}
"""Options of wrk, oha, hey and ab that `compare` does not have, and what to type instead."""

SLOWER = 1
"""The exit status if a contender is slower than --fail-if-slower allows."""


def compare(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="A B [C ...]",
            help="Designs or primitives, perhaps with settings such as epoll,wait=spin; or other servers: a "
            "URL that answers, or a command in quotes with {port} (`list designs`, `list primitives`).",
        ),
    ],
    workload: Workload = None,
    clients: Clients = None,
    size: ReplySize = None,
    primitive: Annotated[
        str | None,
        typer.Option("--primitive", metavar="NAME", help="Send primitive (default: the usual one)."),
    ] = None,
    receive: Annotated[
        str | None,
        typer.Option("--receive", metavar="NAME", help="Receive primitive (default: the usual one)."),
    ] = None,
    lab: Lab = None,
    user: RunsAs = None,
    server: ServerHost = None,
    load_hosts: LoadHosts = None,
    scheduler: Scheduler = None,
    allow_commands: AllowCommands = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget",
            metavar="TIME",
            help="Time for the whole comparison (default 60s).",
            show_default=False,
        ),
    ] = None,
    fail_if_slower: Annotated[
        str | None,
        typer.Option(
            "--fail-if-slower",
            metavar="N%",
            help="Exit with status 1 if a later contender is worse than A by more than N % (default: never).",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save", metavar="FILE", help="File for the study, which `run` runs again (default: none)."
        ),
    ] = None,
    open_report: Annotated[
        bool, typer.Option("--open", help="Open the report in a browser (default: do not).")
    ] = False,
    as_json: AsJson = False,
    overrides: Overrides = None,
    seed: Seed = None,
    out: Out = None,
    resume: Resume = False,
    no_conform: NoConform = False,
) -> int:
    """Compare servers on this machine, in CPU, throughput, latency and memory.

    Each setting of the servers or of the load is an option, too: --think 50us.

    Example: thunderherd compare epoll prefork,pool=8 -c 100 --bytes 64KiB
    """
    check_room()
    check_resume("compare", resume=resume, out=out)
    contenders, settings = parted(words, "compare")
    named = {"clients": clients, "bytes": size}
    settings = [*((name, text) for name, text in named.items() if text is not None), *settings]
    if len(contenders) < 2:
        raise UserError(
            f"two or more contenders are needed; {len(contenders)} given",
            code="compare.too_few_contenders",
            hint="such as compare epoll thread_per_client",
            where="compare",
        )
    most = None if fail_if_slower is None else percent(fail_if_slower, "compare", "--fail-if-slower")
    # A link that leads nowhere exists, too.
    if save is not None and os.path.lexists(save):
        raise _exists(save)
    check_output("compare", "--save", save)

    from thunderherd.files import read_bytes, write_new
    from thunderherd.search.compare import COMPARISON
    from thunderherd.search.compare import compare as run_comparison
    from thunderherd.search.request import CompareRequest
    from thunderherd.show.report.page import report_of_run
    from thunderherd.show.terminal.compared import print_compared
    from thunderherd.text.layout import make_console

    request = CompareRequest(
        contenders=tuple(contenders),
        settings=tuple(settings),
        workload=workload,
        primitive=primitive,
        receive=receive,
        lab=tuple(chosen_labs(lab, user, server, load_hosts, scheduler)),
        budget=budget,
        fixed=tuple(overrides or ()),
        seed=seed,
        out=out,
        resume=resume,
        words=tuple(command_line()),
        conform=not no_conform,
        allow_commands=allow_commands,
    )
    summary, run = run_comparison(request)
    if save is not None:
        try:
            write_new(save, read_bytes(run.parent / f"{COMPARISON}.toml"))
        except FileExistsError:
            raise _exists(save) from None
    report = report_of_run(run)
    if as_json:
        print(json.dumps(_as_json(summary, report), indent=2))
    else:
        following = (("Results", str(run)), ("Study", "" if save is None else str(save)))
        print_compared(summary, make_console(), report, following)
    if open_report and report is not None:
        from thunderherd.cli.results import open_page

        open_page(report)
    return status_of(summary, most)


def _exists(save: Path) -> UserError:
    return UserError(
        "already exists",
        code="compare.save_exists",
        hint="choose another file",
        where=f"compare: --save {save}",
    )


def status_of(summary: Summary, most: float | None) -> int:
    """Return the exit status. With --fail-if-slower, print on stderr what made it `SLOWER`."""
    from thunderherd.show.sentences.compared import worse_than_first

    if not any(pair.ratio for pair in summary.family):
        print(f"{PROGRAM}: compare: nothing could be compared [compare.no_comparison]", file=sys.stderr)
        return NOTHING_MEASURED
    if most is None:
        return 0
    where = f"{PROGRAM}: compare: --fail-if-slower {most:g}%"
    worse = worse_than_first(summary, most)
    for each in worse:
        print(f"{where}: worse: {each} [compare.slower]", file=sys.stderr)
    return SLOWER if worse else 0


def parted(words: Sequence[str], command: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the contenders, and the settings of `--name value` and `--name=value`."""
    contenders: list[str] = []
    settings: list[tuple[str, str]] = []
    left: Iterator[str] = iter(words)
    for word in left:
        if not word.startswith("-"):
            contenders.append(word)
            continue
        if word[1:2] in SHORT:
            # wrk's users join them: -t2 -d5s.
            name, equals, value = SHORT[word[1]], word[2:], word[2:].removeprefix("=")
        else:
            name, equals, value = word.lstrip("-").partition("=")
            option = word.partition("=")[0]
            if option in OF_OTHERS or not word.startswith("--"):
                raise UserError(
                    "no such option",
                    code="compare.unknown_setting",
                    hint=OF_OTHERS.get(option, f"see `thunderherd {command} --help`"),
                    where=f"{command}: {option}",
                )
        text = value if equals else next(left, "")
        if not text or (text.startswith("--") and not equals):
            raise UserError(
                f"{word} has no value",
                code="compare.setting_without_value",
                hint=f"give {word} VALUE, or see `thunderherd {command} --help`",
                where=command,
            )
        settings.append((name.replace("-", "_"), text))
    return contenders, settings


def percent(text: str, command: str, option: str) -> float:
    """Return a percentage such as `5%`, the value of an option; raise `UserError` for anything else."""
    number = text.strip().removesuffix("%").strip()
    try:
        found = float(number)
    except ValueError:
        found = -1.0
    is_valid = 0 <= found < 1000
    if not is_valid or not text.strip().endswith("%"):
        raise UserError(
            "no unit" if is_valid else "not a percentage",
            code="compare.invalid_percent",
            hint=f"{number}%" if is_valid else "give a number from 0 upward, such as 5%",
            where=f"{command}: {option} {text}",
        )
    return found


def _as_json(summary: Summary, report: Path | None) -> dict[str, Any]:
    from thunderherd.show.sentences.compared import labels_of, metric_answers, to_know

    labels = labels_of(summary)
    return {
        "answers": [
            {
                "metric": answer.metric,
                "sweep": answer.sweep,
                "sentence": answer.sentence,
                "best": list(answer.best),
                "pairs": [pair.model_dump(mode="json") for pair in answer.pairs],
            }
            for answer in metric_answers(summary)
        ],
        "contenders": [
            {
                "name": each.base,
                "label": labels[each.base],
                "sweep": each.sweep,
                "metrics": {name: found.model_dump(mode="json") for name, found in each.metrics.items()},
                "at_least": {name: found.model_dump(mode="json") for name, found in each.at_least.items()},
            }
            for each in summary.contenders
        ],
        "notes": to_know(summary),
        "report": None if report is None else str(report),
    }
