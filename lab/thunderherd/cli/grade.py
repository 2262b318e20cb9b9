"""The command `grade`: the points of a submission."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import typer

from thunderherd.cli.options import Lab, Out, Seed, check_output, command_line, write_output
from thunderherd.errors import UserError
from thunderherd.toml.file import unknown

if TYPE_CHECKING:
    from thunderherd.grade.grading import Grade, Prediction

__all__ = ["grade"]

TEXT = "text"
"""The format for people. Those for programs are the grade's."""
ASK = "ask"
"""The prediction that is asked for on the terminal."""


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
    workload: Annotated[
        str | None,
        typer.Option("--workload", metavar="NAME", help="Workload, see `list workloads` (default bytes)."),
    ] = None,
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
    seed: Seed = None,
    out: Out = None,
) -> int:
    """Grade a server: its conformance, and its CPU against a reference.

    Example: thunderherd grade './server {port}' --workload bytes --reference prefork
    """
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

    if predict is not None:
        _known("prediction", predict, (*PREDICTIONS, ASK), "predict")
    offered = catalogue()
    subject = typed_server(server, workload, offered, command="grade")
    assignments = [
        Assignment(
            subject=subject,
            reference=reference,
            rubric=used,
            catalogue=offered,
            lab=tuple(lab or ()),
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
