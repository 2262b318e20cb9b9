"""The commands that check one server: `conform`, its behaviour; `grade`, its behaviour and its cost."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import typer

from thunderherd.cli.options import (
    AsJson,
    Lab,
    Out,
    RunsAs,
    Seed,
    Workload,
    check_output,
    check_room,
    chosen_labs,
    command_line,
    write_output,
)
from thunderherd.errors import UserError
from thunderherd.toml.file import unknown

if TYPE_CHECKING:
    from thunderherd.grade.grading import Grade, Prediction

__all__ = ["conform", "grade"]

FAILED = 1
"""The exit status if a case failed."""

SHORTEST, LONGEST = 0.01, 600.0
"""The limits of --timeout, in seconds."""


def conform(
    server: Annotated[
        str,
        typer.Argument(
            metavar="SERVER",
            help="Command such as './server {port}', URL of a running server, or design.",
        ),
    ],
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="NAME",
            help="Workload, see `list workloads` (default: the URL's, else bytes).",
        ),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(
            "--path",
            metavar="PATH",
            help="Path of a resource that a server of HTTP has (default: the URL's, else /).",
        ),
    ] = None,
    cases: Annotated[
        list[str] | None,
        typer.Option("--case", metavar="N", help="Number of a case; may be repeated (default: all)."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            "--seed", min=0, max=2**64 - 1, help="Seed of random inputs (default 1).", show_default=False
        ),
    ] = 1,
    timeout: Annotated[
        str,
        typer.Option(
            "--timeout",
            metavar="TIME",
            help="Time without progress after which a case has failed (default 5s).",
            show_default=False,
        ),
    ] = "5s",
    plain: Annotated[
        bool,
        typer.Option(
            "--plain",
            help="Send GET wherever a case of HTTP may choose the request (default: GET and others).",
        ),
    ] = False,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="File for JUnit XML (default: none)."),
    ] = None,
    user: RunsAs = None,
    as_json: AsJson = False,
) -> int:
    """Check a server against the numbered cases of its workload.

    The exit status is 1 if a case failed or the server does not start, 2 for wrong usage. A command gets its
    port by {port} or PORT.
    """
    numbers = [number for text in cases or () for number in _numbers(text)]
    check_output("conform", "--junit", junit)

    from thunderherd.conform.formats import as_json as for_programs
    from thunderherd.conform.formats import as_junit, as_junit_error
    from thunderherd.conform.server import typed_server
    from thunderherd.conform.verdicts import conformance
    from thunderherd.engine.client import EngineError, catalogue
    from thunderherd.show.terminal.conformance import print_conformance
    from thunderherd.text.layout import make_console

    longest = _seconds(timeout)
    runs_as = _checked_user("conform", user)
    chosen = replace(typed_server(server, workload, catalogue(), path=path), user=runs_as)
    try:
        found = conformance(chosen, numbers=numbers, seed=seed, patience=longest, plain=plain)
    except EngineError as error:
        if junit is not None:
            write_output("conform", junit, as_junit_error(chosen, str(error)), quiet=True)
        raise
    if as_json:
        print(json.dumps(for_programs(found), indent=2))
    else:
        print_conformance(found, make_console())
    if junit is not None:
        write_output("conform", junit, as_junit(found), quiet=as_json)
    return FAILED if found.failed else 0


def _checked_user(command: str, user: object | None) -> str | None:
    """Return a user that a server can run as; raise `UserError` if it cannot."""
    from thunderherd.study.checks.machine import unavailable_user

    if user is None:
        return None
    if problem := unavailable_user(str(user)):
        raise UserError(problem.at(f"{command}: --user {user}"))
    return str(user)


def _seconds(text: str) -> float:
    """Parse the longest wait, in seconds."""
    from thunderherd.toml.quantities import TIME, parse_quantity

    seconds = parse_quantity(text, f"conform: --timeout {text}", TIME) / 1e9
    if not SHORTEST <= seconds <= LONGEST:
        raise UserError(
            f"{text} is not from {SHORTEST * 1e3:g}ms to {LONGEST:g}s",
            code="conform.invalid_timeout",
            where=f"conform: --timeout {text}",
        )
    return seconds


def _numbers(text: str) -> list[int]:
    """Parse numbers of cases with commas between them."""
    try:
        return [int(each) for each in text.split(",")]
    except ValueError:
        raise UserError(
            f"'{text}' is not the number of a case",
            code="conform.invalid_case",
            hint="such as --case 6, or --case 6,14",
            where=f"conform: --case {text}",
        ) from None


# Grades -----------------------------------------------------------------------------------------------------

TEXT = "text"
"""The format for people. `grade.formats` has those for programs."""
ASK = "ask"
"""The value of --predict that prompts on the terminal."""


def _show_rubric(wanted: bool) -> None:
    if wanted:
        from thunderherd.grade.rubric import bundled_text

        print(bundled_text(), end="")
        raise typer.Exit()


def grade(
    server: Annotated[
        str, typer.Argument(metavar="SERVER", help="Server to grade, such as './server {port}'.")
    ],
    reference: Annotated[
        str,
        typer.Option(
            "--reference", metavar="SERVER", help="Design or command that the cost is compared with."
        ),
    ],
    workload: Workload = None,
    rubric: Annotated[
        Path | None,
        typer.Option("--rubric", metavar="FILE", help="Points, as TOML (default: the bundled rubric)."),
    ] = None,
    show_rubric: Annotated[
        bool,
        typer.Option(
            "--show-rubric",
            callback=_show_rubric,
            is_eager=True,
            help="Print the bundled rubric and exit (default: grade).",
        ),
    ] = False,
    predict: Annotated[
        str | None,
        typer.Option(
            "--predict",
            metavar="WORD",
            help="The student's prediction of the cost: cheaper, same or dearer than the reference, or ask "
            "to be prompted (default: none).",
        ),
    ] = None,
    repeat: Annotated[
        int,
        typer.Option(
            "--repeat",
            metavar="N",
            min=1,
            max=1000,
            help="Grades of the same submission, to see whether points change (default 1).",
            show_default=False,
        ),
    ] = 1,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="NAME", help="Format: text, gradescope, github or classroom50 (default text)."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="File for the grade (default: print it).")
    ] = None,
    lab: Lab = None,
    user: RunsAs = None,
    seed: Seed = None,
    out: Out = None,
) -> int:
    """Grade a server: its conformance, and its CPU against a reference.

    Example: thunderherd grade './server {port}' --workload bytes --reference prefork
    """
    check_room()

    from thunderherd.grade.formats import FORMATS
    from thunderherd.grade.rubric import load_rubric

    used = load_rubric(rubric)
    form = _known("format", format_ or TEXT, (TEXT, *FORMATS))
    if repeat > 1 and form != TEXT:
        raise UserError(
            f"--format {form} has room for one grade",
            code="grade.repeated_format",
            hint="leave --repeat or --format out",
            where=f"grade: --repeat {repeat}",
        )
    check_output("grade", "--output", output)
    if form != TEXT:
        FORMATS[form].check(os.environ)

    from thunderherd.conform.server import typed_server
    from thunderherd.engine.client import catalogue
    from thunderherd.grade.grading import PREDICTIONS, Assignment, NoVerdict
    from thunderherd.grade.grading import grade as grade_once
    from thunderherd.study.lab_option import read

    if predict is not None:
        _known("prediction", predict, (*PREDICTIONS, ASK), "predict")
    offered = catalogue()
    labs = chosen_labs(lab, user)
    # The cases run as the same user as the comparison.
    runs_as = _checked_user("grade", read(labs, command="grade: ").get("user"))
    subject = replace(typed_server(server, workload, offered, command="grade"), user=runs_as)
    assignments = [
        Assignment(
            subject=subject,
            reference=reference,
            rubric=used,
            catalogue=offered,
            lab=tuple(labs),
            seed=seed,
            out=out / str(number) if out is not None and repeat > 1 else out,
            words=tuple(command_line()),
        )
        for number in range(1, repeat + 1)
    ]
    assignments[0].check()
    prediction = _asked(reference) if predict == ASK else predict
    grades, without = [], 0
    for each in assignments:
        try:
            grades.append(grade_once(each, cast("Prediction | None", prediction)))
        except NoVerdict as error:
            if repeat == 1 or (each is assignments[-1] and not grades):
                raise
            print(f"no grade: {error}", file=sys.stderr)
            without += 1
    if output is None:
        _print(grades, without, form, sys.stdout)
        return 0
    page = io.StringIO()
    _print(grades, without, form, page)
    write_output("grade", output, page.getvalue().encode())
    return 0


def _known(what: str, word: str, known: Sequence[str], option: str | None = None) -> str:
    """Return a word of an option if it is one of those that are known."""
    if word not in known:
        raise UserError(unknown(what, word, known, "grade").at(f"grade: --{option or what} {word}"))
    return word


def _asked(reference: str) -> str:
    """Ask for the prediction on the terminal."""
    from thunderherd.grade.grading import PREDICTIONS

    if not sys.stdin.isatty():
        raise UserError(
            "no terminal to ask on",
            code="grade.no_terminal",
            hint="give --predict cheaper, same or dearer",
            where=f"grade: --predict {ASK}",
        )
    question = f"CPU per request of your server, compared with {reference} ({', '.join(PREDICTIONS)})"
    while (word := str(typer.prompt(question, err=True)).strip()) not in PREDICTIONS:
        print(f"one of {', '.join(PREDICTIONS)}", file=sys.stderr)
    return word


def _print(grades: Sequence[Grade], without: int, form: str, stream: TextIO) -> None:
    from thunderherd.grade.formats import FORMATS
    from thunderherd.grade.page import print_grade, print_repeated
    from thunderherd.text.layout import make_console

    if form != TEXT:
        print(json.dumps(FORMATS[form].made(grades[0], os.environ), indent=2), file=stream)
    elif len(grades) + without > 1:
        print_repeated(grades, without, make_console(stream))
    else:
        print_grade(grades[0], make_console(stream))
