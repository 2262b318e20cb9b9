"""Makes records: runs studies, or takes existing runs, and keeps what pages and readers need."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handbook.markdown import ROOT, fenced, page, plain, table
from handbook.records.kept import (
    ARCHIVE,
    ERRATA,
    FIGURES,
    REPORT_PICTURE,
    TABLE,
    Kept,
    KeptChart,
    KeptClaim,
    KeptFigures,
    KeptPair,
    KeptRow,
    KeptTable,
)
from thunderherd.errors import UserError
from thunderherd.records.directory import (
    COUNTED,
    EXTRAPOLATED,
    LIMITS,
    PROFILES,
    RUN,
    SUMMARY,
    TRIALS,
    UNAVAILABLE,
    WITH_COUNTERS,
    WITHOUT_COUNTERS,
    load,
)
from thunderherd.records.summary import (
    ClaimSummary,
    ContenderSummary,
    PairSummary,
    Summary,
    SweepSummary,
    TrialRecord,
)
from thunderherd.show.charts.by_name import NamedChart, all_charts
from thunderherd.show.charts.files import as_file
from thunderherd.show.sentences.tables import main_caption
from thunderherd.show.tables.main import main_figures
from thunderherd.show.tables.sweeps import why_none
from thunderherd.show.terminal.study import print_study
from thunderherd.text.figures import ABSENT, BETWEEN, capital, main_of, number
from thunderherd.text.layout import make_console
from thunderherd.text.shown import at_points, caption_of, digits_for, shown_of, unit_for

FORM = 1

CLAIMS_SIZE = "claims"
"""The size of a study that goes on until its claims are decided."""

MOST_BYTES = 4 << 20
"""The largest size of an archive. Files that would exceed it are left out, and the README names them."""

ALWAYS = (RUN, SUMMARY, LIMITS)
RAW = TRIALS
IN_PLACE_OF_RAW = "trials.parquet"
IF_THERE_IS_ROOM = (COUNTED, WITH_COUNTERS, WITHOUT_COUNTERS, PROFILES, UNAVAILABLE, EXTRAPOLATED)

COLUMNS = 120
PICTURE_SIZE = "1280,670"
"""Pixels of the report's picture: its answer, ranking, machine and notes."""
BROWSER_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={PICTURE_SIZE}",
)  # fmt: skip
LONGEST_PICTURE_SECONDS = 60
LONGEST_RUN_SECONDS = 3600


def run(study: str, seed: int, directory: Path, options: Sequence[str] = ()) -> None:
    """Run the quick size of a study, which is bundled or a file below the root.

    Raises UserError if it fails or takes more than an hour.
    """
    command = ["run", study, "--quick", "--seed", str(seed), *options, "--out", str(directory)]
    print(f"==> thunderherd {shlex.join(command)}", flush=True)
    try:
        status = subprocess.run(
            [sys.executable, "-m", "thunderherd", *command], timeout=LONGEST_RUN_SECONDS, cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"{study} did not end within {LONGEST_RUN_SECONDS} s; its trials are in {directory}",
            code="records.run_too_long",
        ) from None
    if status.returncode:
        raise UserError(
            f"{study} ended with status {status.returncode}; its results so far are in {directory}",
            code="records.run_failed",
        )


def keep(directory: Path, root: Path, date: str) -> Kept:
    """Keep a run below records/DATE, and replace the record of the same study and day.

    The errata of a record stay if it is made again of the same run.

    Raises UserError if the directory has no complete run.
    """
    results = load(directory)
    summary = results.summary
    if summary is None or not summary.study.complete:
        raise UserError(
            "the run is not complete",
            code="records.incomplete_run",
            hint="type thunderherd run ... --resume",
            where=str(directory),
        )
    folder = Path("records") / date / summary.study.name
    target = root / folder
    target.parent.mkdir(parents=True, exist_ok=True)
    # Written to a temporary folder first: the old record goes only when the new one is complete.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as beside:
        made = Path(beside) / target.name
        made.mkdir()
        printed = _printed(summary)
        has_claims = bool(summary.claims or summary.questions)
        (made / TABLE).write_text(printed, encoding="utf-8")
        charts = [_chart(each, made) for each in _wanted(summary, results.trials)]
        figures = figures_of(summary, charts, results.run.model_dump(mode="json"))
        (made / FIGURES).write_text(figures.model_dump_json(indent=1) + "\n", encoding="utf-8")
        kept, left_out = archived(directory, made / ARCHIVE)
        (made / "README.md").write_text(
            _readme(figures, printed, kept, left_out, has_claims), encoding="utf-8"
        )
        if (target / ERRATA).is_file() and _is_of(directory, target / ARCHIVE):
            shutil.copy(target / ERRATA, made)
        if target.exists():
            shutil.rmtree(target)
        made.rename(target)
    return Kept(folder, figures)


# Figures ----------------------------------------------------------------------------------------------------


def figures_of(summary: Summary, charts: Sequence[KeptChart], run: Mapping[str, Any]) -> KeptFigures:
    """Return the figures of a run that pages show."""
    study = summary.study
    tables = [_main(summary)] if main_of(summary) else []
    tables += [_sweep(summary, sweep) for sweep in summary.sweeps]
    return KeptFigures(
        form=FORM,
        study=study.name,
        title=study.title,
        question=study.question.strip(),
        size=study.size,
        seed=study.seed,
        blocks=study.blocks,
        command=tuple(_command(study.command, study.seed)),
        started=study.started,
        finished=study.finished,
        version=str(run["version"]),
        machine=_machine(run["machine"]),
        tables=tuple(tables),
        charts=tuple(charts),
        decides_claims=study.size == CLAIMS_SIZE,
        claims=tuple(_claim(each) for each in summary.claims),
        foreign_share=summary.trials.foreign_share,
        rejected_blocks=len(summary.trials.rejected_blocks),
        repeated_trials=summary.trials.repeated,
        noisy_blocks=len(summary.trials.noisy_blocks_kept),
    )


def _claim(each: ClaimSummary) -> KeptClaim:
    return KeptClaim(
        id=each.id,
        statement=each.statement,
        paper=each.paper_figure,
        ours=each.our_figure,
        verdict=each.verdict,
        why=each.why,
        blocks_needed=each.blocks_needed,
        decided_at=each.decided_at,
    )


def _main(summary: Summary) -> KeptTable:
    texts = {
        name: (cell.value, cell.span.replace(BETWEEN, "..")) for name, cell in main_figures(summary).items()
    }
    study = summary.study
    rows = [_row(each, summary, study.metric, texts[each.name]) for each in main_of(summary)]
    pairs = [_pair(each) for each in summary.pairs if each.sweep is None]
    return KeptTable(
        sweep=None,
        title=study.title,
        caption=capital(main_caption(summary).partition(";")[0]),
        better=study.better,
        remarks=tuple(study.remarks),
        rows=tuple(rows),
        pairs=tuple(pairs),
    )


def _sweep(summary: Summary, sweep: SweepSummary) -> KeptTable:
    """Return a sweep's table of the metric of its verdicts, or of the metric shown in its place."""
    metric = sweep.substitutes.get(sweep.metric, sweep.metric)
    contenders = [each for each in at_points(summary, sweep).values() if each.sweep == sweep.name]
    figures = {each.name: shown_of(summary, each, metric) for each in contenders}
    unit = unit_for(summary, metric, figures.values())
    digits = digits_for([unit.of(figure.value) for figure in figures.values() if figure], metric)
    rows = []
    for each in contenders:
        figure = figures[each.name]
        text = (
            (number(unit.of(figure.value), digits), figure.span(unit, digits, ".."))
            if figure
            else (ABSENT, "")
        )
        rows.append(_row(each, summary, metric, text))
    return KeptTable(
        sweep=sweep.name,
        title=sweep.title,
        caption=capital(caption_of(metric, unit)),
        better=sweep.better,
        remarks=tuple(sweep.remarks),
        rows=tuple(rows),
        pairs=tuple(_pair(each) for each in summary.pairs if each.sweep == sweep.name),
    )


def _row(each: ContenderSummary, summary: Summary, metric: str, text: tuple[str, str]) -> KeptRow:
    figure = shown_of(summary, each, metric)
    return KeptRow(
        contender=each.name,
        base=each.base,
        point=each.point,
        design=each.design,
        primitive=each.primitive,
        receive=each.receive,
        client_primitive=each.load.get("primitive") if each.load else None,
        client_receive=each.load.get("receive") if each.load else None,
        is_control=each.control_of is not None,
        value=figure.value if figure else None,
        low=figure.low if figure else None,
        high=figure.high if figure else None,
        shown=text[0],
        span=text[1],
        rank=each.rank,
        letters=each.letters,
        why=None if figure else why_none(summary, metric, each),
    )


def _pair(pair: PairSummary) -> KeptPair:
    return KeptPair(
        a=pair.a,
        b=pair.b,
        point=pair.point,
        verdict=pair.verdict,
        ratio=pair.ratio,
        low=pair.low,
        high=pair.high,
    )


def _machine(machine: Mapping[str, Any]) -> str:
    """Describe a machine: `2 CPUs (AMD EPYC), Linux 6.18.44, Debian GNU/Linux 12 (bookworm)`."""
    cpu = machine["cpu"]
    kernel = " ".join(str(machine["kernel"]).split()[:2]).partition("-")[0]
    return f"{cpu['count']} CPUs ({cpu['model']}), {kernel}, {machine['distribution']}"


# Files ------------------------------------------------------------------------------------------------------


def _printed(summary: Summary) -> str:
    """Return the table as a terminal of COLUMNS columns shows it, without colours."""
    stream = io.StringIO()
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = str(COLUMNS)
    try:
        print_study(summary, make_console(stream))
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before
    return "\n".join(line.rstrip() for line in stream.getvalue().strip("\n").splitlines()) + "\n"


def _wanted(summary: Summary, trials: Sequence[TrialRecord]) -> list[NamedChart]:
    """Return the charts of the main table, and one chart of each sweep: that of its verdicts.

    They are drawn as `thunderherd plot` draws them, since the README shows that command below each chart.
    """
    wanted = {
        each.name
        for each in all_charts(summary)
        if not each.name.startswith("sweep-") or each.name.endswith("-0")
    }
    return [each for each in all_charts(summary, trials) if each.name in wanted]


def _chart(chart: NamedChart, folder: Path) -> KeptChart:
    file = f"{chart.name}.svg"
    (folder / file).write_bytes(as_file(chart.specification(), "svg"))
    return KeptChart(name=chart.name, title=chart.title, file=file)


def keep_report_picture(directory: Path, folder: Path) -> None:
    """Draws the top of a run's report into a folder, with Chromium. Raises UserError if that fails."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise UserError(
            "no picture of the report: no Chromium on this machine",
            code="records.no_browser",
            hint="apt-get install chromium",
        )
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.html"
        subprocess.run(
            [sys.executable, "-m", "thunderherd", "report", str(directory), "--output", str(report)],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        drawn = subprocess.run(
            [chromium, *BROWSER_OPTIONS, f"--screenshot={folder / REPORT_PICTURE}", report.as_uri()],
            capture_output=True,
            text=True,
            timeout=LONGEST_PICTURE_SECONDS,
        )
    if drawn.returncode or not (folder / REPORT_PICTURE).is_file():
        raise UserError(
            f"no picture of the report: Chromium ended with status {drawn.returncode}",
            code="records.no_picture",
        )


def archived(directory: Path, archive: Path) -> tuple[list[str], list[str]]:
    """Pack a run; return the files in the archive, and those that would have made it too large."""
    there = [name for name in IF_THERE_IS_ROOM if (directory / name).is_file()]
    kept = [name for name in ALWAYS if (directory / name).is_file()]
    if (directory / RAW).is_file() and _pack(
        directory, archive, all_of_it := [*kept, RAW, *there]
    ) <= MOST_BYTES:
        return all_of_it, []
    for raw in (RAW, IN_PLACE_OF_RAW):
        # An unpacked record may have only one of the two.
        if (directory / raw).is_file() and _pack(directory, archive, [*kept, raw]) <= MOST_BYTES:
            kept.append(raw)
            break
    else:
        raise UserError(
            f"{directory}: the archive is larger than {MOST_BYTES:,} bytes even without raw lines",
            code="records.archive_too_large",
        )
    for name in there:
        if _pack(directory, archive, [*kept, name]) <= MOST_BYTES:
            kept.append(name)
    _pack(directory, archive, kept)
    left_out = [name for name in (RAW, *there) if name not in kept]
    return kept, left_out


def _pack(directory: Path, archive: Path, names: Sequence[str]) -> int:
    """Write the archive, with the same bytes for the same files; return its size.

    Paths below this clone become relative, since absolute ones name directories of whoever made the record.
    """
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        for name in names:
            content = _without_root(directory / name)
            about = tarfile.TarInfo(f"run/{name}")
            about.size = len(content)
            packed.addfile(about, io.BytesIO(content))
    return archive.stat().st_size


def _without_root(file: Path) -> bytes:
    return file.read_bytes().replace(f"{ROOT}/".encode(), b"")


def _is_of(directory: Path, archive: Path) -> bool:
    """True if an archive was packed from this run."""
    with tarfile.open(archive) as packed, packed.extractfile(f"run/{RUN}") or io.BytesIO() as file:
        return file.read() == _without_root(directory / RUN)


def _readme(
    figures: KeptFigures, printed: str, kept: Sequence[str], left_out: Sequence[str], has_claims: bool
) -> str:
    typed = shlex.join(figures.command)
    unpack = f"tar -xf {ARCHIVE}"
    without = f" Left out to keep the archive small: {', '.join(left_out)}." if left_out else ""
    return page(
        f"# {plain(figures.title)}",
        "*Written by `make records`; do not edit this page.*",
        plain(" ".join(figures.question.split())),
        table(
            ["", ""],
            [
                ["command", f"`{typed}`"],
                ["seed, size", f"{figures.seed}, {figures.size}, {figures.blocks} blocks"],
                ["from, to", f"{figures.started}, {figures.finished}"],
                ["machine", plain(figures.machine)],
                ["version", f"Thunderherd {figures.version}"],
                [
                    "files",
                    f"[{FIGURES}]({FIGURES}): the figures that pages show; [{ARCHIVE}]({ARCHIVE}): "
                    f"{', '.join(kept)}.{without}",
                ],
            ],
        ),
        "run.json describes the whole machine. These commands show the run again and check every figure:",
        fenced(
            "sh",
            f"{unpack}\nthunderherd table run --pairs\nthunderherd report run --output report.html"
            + (f"\nthunderherd claims {figures.study} run" if has_claims else ""),
        ),
        "## Table",
        fenced("text", printed),
        "## Charts" if figures.charts else "",
        *(
            f"![{plain(chart.title)}]({chart.file})\n\n"
            f"`thunderherd plot run {chart.name} --output {chart.file}`"
            for chart in figures.charts
        ),
    )


def _command(command: Sequence[str], seed: int) -> list[str]:
    """Return the command line that starts the same run: without `--out` and `--resume`, and with its seed."""
    words = [word for word in command if word != "--resume"]
    if "--out" in words:
        place = words.index("--out")
        del words[place : place + 2]
    return words if "--seed" in words else [*words, "--seed", str(seed)]
