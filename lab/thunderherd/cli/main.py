"""The command `thunderherd`: reads the command line, calls the laboratory, says what went wrong in one line.

Nothing is decided here. What a command needs is imported when it runs, so that `list`, `serve` and mistakes
answer at once. Exit status: 0, or 2 for a mistake in what was asked, 130 for Ctrl-C, 1 for whatever else
failed (of `crossover`, that its trials gave no answer; of `doctor`, that a study cannot run); `serve`, `load`
and `count` become the engine and end with its status.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand

from thunderherd.cli.engine import merge
from thunderherd.cli.export import report
from thunderherd.cli.knee import knee
from thunderherd.cli.options import ResultsDirectory
from thunderherd.cli.plot import plot
from thunderherd.cli.summary import summary
from thunderherd.cli.table import table
from thunderherd.cli.watch import watch
from thunderherd.errors import Problem, UserError
from thunderherd.labs.words import OPTION, OPTION_HELP

PROGRAM = "thunderherd"
MISTAKE, INTERRUPTED, FAILED = 2, 130, 1

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="fio for sockets: which server design, and which way of moving bytes, wins on this machine, "
    "by how much, how sure are we, and why.",
)


def main() -> NoReturn:
    """Runs the command line of this process and ends it with the command's exit status."""
    sys.exit(run_command(sys.argv[1:]))


def run_command(arguments: list[str]) -> int:
    """Runs one command line; returns its exit status. Mistakes become one line on stderr."""
    try:
        status = app(args=arguments, prog_name=PROGRAM, standalone_mode=False) or 0
        sys.stdout.flush()
        return int(status)
    except UserError as mistake:
        return _complain(mistake.problems, MISTAKE, as_json="--json" in arguments)
    except typer.TyperException as mistake:
        return _complain([_usage_problem(mistake)], MISTAKE, as_json="--json" in arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has gone (`thunderherd list | head`). What Python would still flush at exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        return _complain([_system_problem(error)], FAILED, as_json="--json" in arguments)
    except Exception as error:
        if not _is_engine_error(error):
            raise
        return _complain([Problem(str(error), "engine.failed")], FAILED, as_json="--json" in arguments)


def _complain(problems: Sequence[Problem], status: int, *, as_json: bool) -> int:
    """Prints each problem in a line on stderr, its hint on the next; with `--json` also as JSON on stdout."""
    for each in problems:
        for line in each.line.splitlines() or [""]:
            print(f"{PROGRAM}: {line.strip()}", file=sys.stderr)
        if each.hint:
            print(f"hint: {' '.join(each.hint.split())}", file=sys.stderr)
    if as_json:
        print(json.dumps({"errors": [asdict(each) for each in problems]}, indent=2))
    return status


def _usage_problem(mistake: typer.TyperException) -> Problem:
    """What Typer found wrong; as hint the near match that it knows, or the command whose --help helps."""
    near: list[str] = sorted(getattr(mistake, "possibilities", None) or [])
    context = getattr(mistake, "ctx", None)
    command = context.command_path if context else PROGRAM
    hint = f"`{command} --help` lists what there is"
    if near:
        return Problem(mistake.message, "usage.unknown_option", f"did you mean {' or '.join(near)}? {hint}")
    message, _, meant = " ".join(mistake.format_message().split()).rstrip(".").partition(". Did you mean")
    return Problem(message, "usage.invalid", f"did you mean{meant} {hint}" if meant else hint)


def _is_engine_error(error: Exception) -> bool:
    """Whether the engine failed; where its module was never imported, nothing can have come from it."""
    engine = sys.modules.get("thunderherd.engine.client")
    return engine is not None and isinstance(error, engine.EngineError)


def _system_problem(error: OSError) -> Problem:
    """What the system refused, for which file, and what helps, if that is known."""
    elsewhere = "choose another place with --out (for a report: --output)"
    space = "free some space, or choose another place with --out; --resume continues a run"
    helps = {
        **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR), elsewhere),
        **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), space),
        errno.EMFILE: "raise the limit on open files (ulimit -n)",
        errno.ENFILE: "the whole system has no descriptor left (sysctl fs.file-max)",
    }
    name = errno.errorcode.get(error.errno or 0, "error").lower()
    where = str(error.filename) if error.filename else ""
    return Problem(error.strerror or str(error), f"system.{name}", helps.get(error.errno or 0, ""), where)


# The command itself -----------------------------------------------------------------------------------------


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"{PROGRAM} {metadata.version('thunderherd')}")
        raise typer.Exit()


@app.callback(invoke_without_command=True)
def thunderherd(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(MISTAKE)


# Studies ----------------------------------------------------------------------------------------------------

StudyName = Annotated[
    str, typer.Argument(metavar="STUDY", help="A bundled study (`list studies`), or a TOML file.")
]
LabWords = Annotated[list[str] | None, typer.Option(OPTION, metavar="LAB", help=OPTION_HELP)]


@app.command()
def run(
    study: StudyName,
    quick: Annotated[bool, typer.Option("--quick", help="The study's quick size. The default.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="The study's full size: all its planned looks.")
    ] = False,
    size: Annotated[
        str | None,
        typer.Option("--size", metavar="NAME", help="Another size of the study (`list studies` has them)."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key of the study; may be repeated."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of the order of trials; drawn and recorded if not given."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the results go; results/... if not given."),
    ] = None,
    lab: LabWords = None,
    profile: Annotated[
        bool, typer.Option("--profile", help="Sample the contenders afterwards: where their time goes.")
    ] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the unfinished run in --out: same seed, same order.")
    ] = False,
) -> None:
    """Run a study: every contender, in randomised blocks; then print its table."""
    named = [("quick", "--quick")] if quick else []
    named += [("full", "--full")] if full else []
    named += [(size, f"--size {size}")] if size is not None else []
    if len({each for each, _ in named}) > 1:
        options = " and ".join(option for _, option in named)
        raise UserError(f"run: {options} contradict each other; give one of them")
    if resume and out is None:
        raise UserError("run: --resume goes on with a run that was begun; say which with --out DIR")

    from thunderherd.cli.run import run_and_show

    run_and_show(
        study=study,
        size=named[0][0] if named else None,
        overrides=overrides or [],
        lab=lab or [],
        profile=profile,
        seed=seed,
        out=out,
        resume=resume,
        command=[PROGRAM, *sys.argv[1:]],
    )


@app.command()
def crossover(
    a: Annotated[
        str,
        typer.Argument(
            metavar="A", help="A design, a primitive, or what it is made of: design=prefork,pool=30."
        ),
    ],
    b: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    over: Annotated[
        list[str], typer.Option("--over", metavar="SETTING=LOW..HIGH", help="Such as message_bytes=64..4MiB.")
    ],
    workload: Annotated[
        str | None, typer.Option("--workload", help="The first that has the setting if not given.")
    ] = None,
    load: Annotated[
        str | None, typer.Option("--load", help="The first that can end by time if not given.")
    ] = None,
    design: Annotated[
        str | None, typer.Option("--design", help="The server of contenders that are primitives.")
    ] = None,
    side: Annotated[
        str | None,
        typer.Option(
            "--side",
            help="Who moves bytes by primitives, and has the SETTING that both ends have: server, client or "
            "both; the end that the workload is about if not given.",
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            "--metric",
            help="What is compared; requests_per_second, or gigabits_per_second of a stream, if not given.",
        ),
    ] = None,
    show: Annotated[
        list[str] | None, typer.Option("--show", metavar="METRIC", help="A further metric; may be repeated.")
    ] = None,
    lab: LabWords = None,
    study: Annotated[
        str | None,
        typer.Option("--study", metavar="STUDY", help="A and B, and all else, are those of this study."),
    ] = None,
    milliseconds: Annotated[
        int | None, typer.Option("--milliseconds", min=1, help="How long a trial measures; 500.")
    ] = None,
    points: Annotated[
        int | None, typer.Option("--points", min=2, max=64, help="Sizes of the first stage.")
    ] = None,
    blocks: Annotated[int, typer.Option("--blocks", min=1, max=1000, help="Blocks of each stage.")] = 12,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Fix a key of the study; may be repeated."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of the order of trials; drawn and recorded if not given."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the results go; results/... if not given."),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with the unfinished search in --out: same words, same seed."),
    ] = False,
) -> int:
    """From which size on does A beat B? Both over a range, then around the place where they change places."""
    if resume and out is None:
        raise UserError("crossover: --resume goes on with a search that was begun; say which with --out DIR")
    if len(over) > 1:
        given = ", and ".join(over)
        raise UserError(f"crossover: --over is given {len(over)} times: {given}; leave all out but one")

    from thunderherd.search.crossover import find_crossover
    from thunderherd.search.crossover_study import Asked

    asked = Asked(
        a=a,
        b=b,
        over=over[0],
        study=study,
        workload=workload,
        load=load,
        design=design,
        side=side,
        metric=metric,
        show=tuple(show or ()),
        lab=tuple(lab or ()),
        milliseconds=milliseconds,
        points=points,
        blocks=blocks,
    )
    return find_crossover(
        asked, fixed=overrides or [], seed=seed, out=out, resume=resume, command=[PROGRAM, *sys.argv[1:]]
    )


app.command()(knee)
app.command()(merge)


@app.command("list")
def list_(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[designs|primitives|workloads|loads|labs|counters|limits|studies]",
            help="All if not given.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    matrix: Annotated[bool, typer.Option("--matrix", help="Which primitive fits what, and why not.")] = False,
) -> None:
    """List what there is: designs, primitives, workloads, loads, labs, counters, limits, studies."""
    from thunderherd.cli import list as cli_list

    if matrix and what is not None:
        raise UserError(f'list: --matrix shows what fits what, of all kinds; leave out "{what}"')
    if matrix:
        cli_list.print_matrix(as_json)
    else:
        cli_list.print_list(what, as_json)


@app.command()
def doctor(
    as_json: Annotated[
        bool, typer.Option("--json", help="As JSON (docs/reference/doctor.schema.json).")
    ] = False,
) -> int:
    """What this machine can and cannot do, what that means for measurements, and what to type to change it.

    Looks for some seconds, and changes nothing. Exit status: 0 if all bundled studies can run, wholly or
    without contenders or counters that are named with the reason; 1 if one cannot run; 2 for wrong usage.
    """
    from thunderherd.cli.doctor import show

    return show(as_json=as_json)


@app.command()
def limits(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAMES...]", help="Only these (`list limits`); all if none."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    cpus: Annotated[
        str | None,
        typer.Option("--cpus", metavar="A,B", help="The CPU that measures, and that of other ends."),
    ] = None,
    milliseconds: Annotated[
        int | None, typer.Option("--milliseconds", min=1, max=600_000, help="How long, about; 10,000.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, max=10_000, help="How many rounds; 31.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of the order within the rounds; 1.")
    ] = None,
) -> None:
    """Measure what one system call, copy, wake-up, process cost here: the limits of this machine."""
    from thunderherd.cli.limits import cpus_of, show_limits

    show_limits(
        names or [],
        cpus=cpus_of(cpus),
        milliseconds=milliseconds,
        rounds=rounds,
        seed=seed,
        as_json=as_json,
    )


@app.command()
def claims(study: StudyName, directory: ResultsDirectory) -> None:
    """Judge the claims of a study's source by the results of a run."""
    from thunderherd.cli.run import show_claims

    show_claims(study, directory)


app.command()(table)
app.command()(summary)
app.command()(watch)


@app.command()
def explain(
    directory: ResultsDirectory,
    a: Annotated[
        str | None, typer.Argument(metavar="[A]", help="A contender; the best of each table if not given.")
    ] = None,
    b: Annotated[
        str | None, typer.Argument(metavar="[B]", help="Another; each other one if not given.")
    ] = None,
    per: Annotated[
        str | None,
        typer.Option(
            "--per",
            metavar="request|byte|connection",
            help="CPU time of what; of a byte where the study compares by bytes, else of a request.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Why does A need more CPU time than B? What happens more often, at its price."""
    from thunderherd.cli.run import show_why

    show_why(directory, a, b, per=per, as_json=as_json)


app.command()(report)
app.command()(plot)

# The engine's own commands ----------------------------------------------------------------------------------


class EngineCommand(TyperCommand):
    """A command whose arguments, --help among them, are the engine's business, untouched by Typer."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Takes all arguments as they stand."""
        ctx.args = list(args)
        return []


@app.command(cls=EngineCommand, add_help_option=False)
def serve(context: typer.Context) -> None:
    """Serve a workload by one server design until Ctrl-C (the engine's own command; see serve --help).
    --lab veth serves in a network namespace of its own."""
    _become_engine_in_a_lab("serve", context.args)


@app.command(cls=EngineCommand, add_help_option=False)
def load(context: typer.Context) -> None:
    """Load a server with requests and check its replies (the engine's own command; see load --help).
    --lab veth joins the server's network."""
    _become_engine_in_a_lab("load", context.args)


@app.command(cls=EngineCommand, add_help_option=False)
def count(context: typer.Context) -> None:
    """Run serve or load and count what it used from exec to exit (the engine's own command; see
    count --help)."""
    _become_engine("count", context.args)


def _become_engine_in_a_lab(command: str, arguments: list[str]) -> NoReturn:
    """As `_become_engine`, where --lab says. What the laboratory need not be asked for answers at once."""
    asks_for_help = not {"-h", "--help"}.isdisjoint(arguments)
    if asks_for_help or any(word.partition("=")[0] == OPTION for word in arguments):
        from thunderherd.cli import labs

        if asks_for_help:
            raise typer.Exit(labs.show_help(command, arguments))
        asked = labs.read(command, arguments)
        if asked.serves_in_namespaces:
            raise typer.Exit(labs.serve_in_namespaces(asked))
        arguments = labs.words_of(asked)
    _become_engine(command, arguments)


def _become_engine(command: str, arguments: list[str]) -> NoReturn:
    """Replaces this process by the engine, so that stdin, signals and exit status are the engine's own."""
    from thunderherd.engine.client import find_engine

    engine = find_engine()
    # An exec hands on what is ignored, and Python ignores these two.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execv(engine, [PROGRAM, command, *arguments])
    except OSError as error:
        raise UserError(f"{engine} cannot be started: {error.strerror}; run `make build`") from None
