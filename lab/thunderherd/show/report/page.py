"""The report of one or more runs: one HTML file that works offline.

Charts are drawn twice. SVG is visible at once, prints, and needs no script. Vega-Lite, whose script is in the
file, adds figures under the pointer. The page's content security policy allows the file's two scripts by
their hashes, and no connection. So neither a study's name nor a bug can run other scripts or fetch data.
"""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Sequence
from functools import cache, partial
from importlib import metadata, resources
from pathlib import Path

import vl_convert
from jinja2 import Environment
from markupsafe import Markup

from thunderherd.errors import UserError
from thunderherd.files import read_bytes, write_text
from thunderherd.machine.room import OF_CHARTS, NoRoomError, check_room
from thunderherd.records.cache import kept
from thunderherd.records.directory import load
from thunderherd.records.summary import Summary
from thunderherd.show.charts import style
from thunderherd.show.charts.files import vega_lite_version
from thunderherd.show.report.run import ReportedRun, run_variables
from thunderherd.show.report.templates import environment
from thunderherd.text.printable import printable

__all__ = ["ReportedRun", "render", "render_runs", "report_of_run", "write_report"]

FILE_NAME = "report.html"

WRITTEN_BY = '<meta name="generator" content="Thunderherd">'
"""The line by which a report is recognised."""


def write_report(source: Summary | Path | Sequence[Path], path: Path | None = None) -> Path:
    """Writes the report and returns its path.

    Parameters
    ----------
    source
        A summary, or the directory of a run that has ended, or several of them for one report.
    path
        The file to be written. If not given, `report.html` in the run's directory; of several runs, in the
        current one.

    Raises
    ------
    UserError
        A directory holds no run, or one that has not ended, or is given twice; or a summary comes without a
        path, or with one in a directory that is not there; or the file of several runs, whose name was not
        given, is there and is no report.
    """
    is_typed = path is not None
    if isinstance(source, Summary):
        runs = [ReportedRun(source)]
        if path is None:
            raise UserError(
                "the report of a summary needs the path of the file to write",
                code="report.no_path",
                hint="give `path`",
                where="report",
            )
    else:
        directories = [source] if isinstance(source, Path) else [*source]
        runs = [_run(directory) for directory in _different(directories)]
        path = path or (directories[0] / FILE_NAME if len(directories) == 1 else _here())
    if not path.parent.is_dir():
        raise UserError(
            f"{path} cannot be written: there is no directory {path.parent}",
            code="report.no_folder",
            hint="make it, or choose another place with --output",
            where="report: --output",
        )
    if path.is_dir():
        raise UserError(
            f"{path} cannot be written: it is a directory",
            code="report.path_is_folder",
            hint=f"name a file in it: {path / FILE_NAME}",
            where="report: --output",
        )
    check_room(OF_CHARTS, "a report")
    text = render_runs(runs)
    if is_typed:
        # It may be a link, or /dev/stdout, which a new file would replace.
        path.write_text(text, encoding="utf-8")
    else:
        write_text(path, text)
    return path


def report_of_run(directory: Path) -> Path | None:
    """Writes the report of a run that has just ended; None, with the reason on stderr, if a limit forbids."""
    try:
        return write_report(directory)
    except NoRoomError as error:
        print(f"thunderherd: no report: {error.problems[0].message}", file=sys.stderr)
        return None


def _run(directory: Path) -> ReportedRun:
    results = load(directory)
    if results.summary is None:
        raise UserError(
            f"{directory} holds a run that has not ended",
            code="report.run_not_ended",
            hint="resume it: thunderherd run ... --resume",
            where="report",
        )
    return ReportedRun(results.summary, directory, results.trials)


def _different(directories: Sequence[Path]) -> Sequence[Path]:
    seen: dict[Path, Path] = {}
    for each in directories:
        if (first := seen.setdefault(each.resolve(), each)) is not each:
            raise UserError(
                f"{each} is the same directory as {first}",
                code="report.same_run_twice",
                hint="leave one of them out",
                where="report",
            )
    return directories


def _here() -> Path:
    """Gives the path of a report of several runs, in the current directory."""
    path = Path(FILE_NAME)
    if path.exists() and WRITTEN_BY.encode() not in read_bytes(path)[:4096]:
        raise UserError(
            f"{path} exists and is no report",
            code="report.would_overwrite",
            hint="write the report elsewhere: --output FILE",
            where="report",
        )
    return path


def render(summary: Summary, directory: Path | None = None) -> str:
    """Renders the report of one run without its trials. Commands that replay it name `directory`."""
    return render_runs([ReportedRun(summary, directory)])


def render_runs(runs: Sequence[ReportedRun]) -> str:
    """Renders the report of one or more runs. A contender has the same colour in all of them."""
    templates = environment()
    library, start = _vega(), _start_script(templates)
    colours = style.colours_of(*(run.summary for run in runs))
    alone = len(runs) == 1
    page = {
        "colours": colours,
        "alone": alone,
        "palette": {
            "ink": style.INK,
            "muted": style.MUTED,
            "rule": style.RULE,
            "dark": style.DARK_GROUND,
        },
    }
    of_runs = [
        run_variables(run, colours, "" if alone else f"run{place}-")
        for place, run in enumerate(runs, start=1)
    ]
    drawn = [chart for own in of_runs for chart in own["drawn"]]
    of_run = templates.get_template("run.html")
    return templates.get_template("report.html").render(
        page,
        written_by=Markup(WRITTEN_BY),
        title=printable(runs[0].summary.study.title) if alone else f"{len(runs)} runs",
        of_runs=of_runs,
        runs=[
            Markup(of_run.render(page | own | {"number": number}))
            for number, own in enumerate(of_runs, start=1)
        ],
        charts_data=[{"id": each.id, **each.live} for each in drawn],
        policy=_policy(library, start),
        library=Markup(library),
        start=Markup(start),
    )


# Scripts --------------------------------------------------------------------------------------------------


@cache
def _vega() -> str:
    """Bundles Vega, Vega-Lite and Vega-Embed as one script that sets `vegaEmbed`."""
    version = vega_lite_version()
    make = partial(vl_convert.javascript_bundle, "window.vegaEmbed = vegaEmbed;", vl_version=version)
    bundle = kept(f"vega-of-vl-convert-{metadata.version('vl-convert-python')}-{version}.js", make)
    # A copied report contains the libraries, so it needs their licences.
    licences = resources.files("thunderherd.show.report") / "templates/licences.txt"
    return _inside_script(f"/*!\n{licences.read_text(encoding='utf-8')}*/\n(() => {{{bundle}}})();")


def _start_script(templates: Environment) -> str:
    return _inside_script(str(templates.get_template("report.js").render()))


def _inside_script(script: str) -> str:
    """Escapes texts that would end a script element or open a comment in it."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _policy(*scripts: str) -> str:
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    # Vega sets styles on its elements and draws its downloads from data and blob addresses; nothing is
    # fetched.
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
