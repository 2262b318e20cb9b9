"""`thunderherd table DIR NAME --format`: each table of a run as text, Markdown, LaTeX and CSV.

What is written is read again by other readers: markdown-it's, polars', and a reading of LaTeX's own escapes.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made.refusals import codes_printed
from made.summaries.summary import summary
from made.summaries.sweeps import summary as sweeps_summary
from markdown_it import MarkdownIt

from thunderherd.cli import results
from thunderherd.cli.main import run_command
from thunderherd.cli.results import TABLE_FORMATS
from thunderherd.files import FORMULA
from thunderherd.records.summary import Summary
from thunderherd.show.tables.by_name import all_tables
from thunderherd.show.tables.formats import (
    as_csv,
    as_latex,
    as_markdown,
    latex_text,
    markdown_line,
    markdown_text,
)
from thunderherd.show.tables.main import main_figures
from thunderherd.show.tables.model import NamedTable, plain_table
from thunderherd.text.figures import main_of
from thunderherd.text.printable import printable

GITHUB = MarkdownIt("commonmark").enable(["table", "strikethrough"])
NASTY = "<script>a|b & c_d_e *f* [g](http://h) `i` ~j~ $k$ #l %m ^n \\o {p} @q www.r.s “t” 5 > 4"


@pytest.fixture(params=[summary, sweeps_summary], ids=["main", "sweeps"])
def of(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Summary:
    found: Summary = request.param()
    monkeypatch.setattr(results, "summary_of", lambda directory: found)
    return found


def cells_of_markdown(text: str) -> list[list[str]]:
    """The cells of all tables of a page, as a reader sees them."""
    rows: list[list[str]] = []
    is_cell = False
    for token in GITHUB.parse(text):
        if token.type == "tr_open":
            rows.append([])
        elif token.type in ("td_open", "th_open", "td_close", "th_close"):
            is_cell = token.type.endswith("_open")
        elif is_cell and token.type == "inline":
            rows[-1].append(plain(list(token.children or [])))
    return rows


def plain(children: list[object]) -> str:
    """The text of an inline token; any other content except comments is unintended markup."""
    texts = []
    for each in children:
        kind, content = getattr(each, "type", ""), getattr(each, "content", "")
        if kind == "html_inline" and content == "<!-- -->":
            continue
        assert kind in ("text", "text_special"), f"{kind} {content}"
        texts.append(content)
    return "".join(texts)


# What there is ----------------------------------------------------------------------------------------------


def test_every_table_is_written_in_each_format(of: Summary, capsys: pytest.CaptureFixture[str]) -> None:
    names = [each.name for each in all_tables(of)]
    assert len(names) == len(set(names)) >= 4
    assert all(re.fullmatch(r"[\w-]+", name) for name in names)
    for name in names:
        for form in TABLE_FORMATS.values():
            assert run_command(["table", "run", name, "--format", form]) == 0
            written = capsys.readouterr()
            assert written.err == ""
            assert len(written.out.splitlines()) > 1


def test_the_main_table_has_the_printed_figures(capsys: pytest.CaptureFixture[str], of: Summary) -> None:
    if not main_of(of):
        pytest.skip("a study of sweeps alone")
    assert run_command(["table", "run", "main", "--format", "markdown"]) == 0
    head, *rows = cells_of_markdown(capsys.readouterr().out)
    shown = main_figures(of)
    assert [row[head.index("Design")] for row in rows] == [*shown]
    assert [row[3] for row in rows] == [cell.value for cell in shown.values()]
    assert [row[4] for row in rows] == [cell.span for cell in shown.values()]


def test_csv_has_the_figures_of_the_summary_with_all_their_digits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = summary()
    monkeypatch.setattr(results, "summary_of", lambda directory: found)
    assert run_command(["table", "run", "main", "--format", "csv"]) == 0
    frame = polars.read_csv(io.StringIO(capsys.readouterr().out))
    unit = "[s per 5,000 connections]"
    for place, each in enumerate(found.contenders):
        assert each.cpu_seconds is not None
        assert frame["contender"][place] == each.name
        for end, value in (("", each.cpu_seconds.value), (" low", each.cpu_seconds.low)):
            assert frame[f"server_cpu_per_connection{end} {unit}"][place] == pytest.approx(value, rel=1e-12)
    assert run_command(["table", "run", "pairs", "--format", "csv"]) == 0
    frame = polars.read_csv(io.StringIO(capsys.readouterr().out))
    assert frame["ratio"].to_list() == [pair.ratio for pair in found.pairs]
    assert frame["verdict"].to_list() == [pair.verdict for pair in found.pairs]


def test_csv_of_a_sweep_has_a_row_for_each_point_and_contender(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = sweeps_summary()
    monkeypatch.setattr(results, "summary_of", lambda directory: found)
    for sweep in found.sweeps:
        assert run_command(["table", "run", f"sweep-{sweep.name}", "--format", "csv"]) == 0
        frame = polars.read_csv(io.StringIO(capsys.readouterr().out), infer_schema_length=None)
        assert frame.height == len(sweep.points) * len(sweep.contenders)
        figure = next(name for name in frame.columns if name.partition(" ")[0] == sweep.metric)
        missing = frame.filter(polars.col(figure).is_null())
        # What is not there says why.
        assert missing.height == 0 or missing["remarks"].null_count() == 0


def test_table_defaults_to_the_first_and_names_the_others(
    of: Summary, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = [each.name for each in all_tables(of)]
    assert run_command(["table", "run", "--format", "csv"]) == 0
    written = capsys.readouterr()
    assert written.err == f"table: {first}; others: {', '.join(others)}\n"
    assert run_command(["table", "run", first, "--format", "csv"]) == 0
    assert capsys.readouterr().out == written.out


def test_a_file_takes_its_format_from_its_name(
    of: Summary, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = all_tables(of)[0].name
    for ending, begins in (("md", "**"), ("tex", "% needs"), ("csv", "")):
        file = tmp_path / f"it.{ending}"
        assert run_command(["table", "run", name, "--output", str(file)]) == 0
        assert capsys.readouterr().out == f"{file}\n"
        assert file.read_text().startswith(begins)


@pytest.mark.parametrize(
    ("words", "code", "fact"),
    [
        (["mian"], "table.unknown_table", "'main'?"),
        (["main", "--format", "html"], "table.unknown_format", "text, markdown, latex, csv"),
        (["main", "--output", "it.html"], "table.unknown_format", "text, markdown, latex, csv"),
        (["main", "--format", "csv", "--output", "it.md"], "table.format_contradicts_output", "it.md"),
        (["main", "--output", "/nowhere/it.md"], "table.output_unwritable", "/nowhere/it.md: "),
        (["main", "--pairs"], "table.option_without_effect", "run pairs`"),
    ],
)
def test_mistakes_say_what_is_allowed(
    words: list[str],
    code: str,
    fact: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "summary_of", lambda directory: summary())
    assert run_command(["table", "run", *words]) == 2
    stderr = capsys.readouterr().err
    assert codes_printed(stderr) == [code] and fact in stderr


# Escaping ---------------------------------------------------------------------------------------------------

some_text = st.text(st.sampled_from(sorted(set(NASTY + "'\"-+.,:!?/=()¹µ×…")))) | st.text(max_size=30)


def one_line(text: str) -> str:
    return " ".join(printable(text).split())


@given(some_text, some_text)
def test_markdown_shows_any_text_as_it_is(head: str, cell: str) -> None:
    table = plain_table(["x", f"y{head}"], [["z", f"y{cell}"]])
    page = as_markdown("t", [replace(table, notes=(cell,))])
    assert cells_of_markdown(page)[:2] == [["x", one_line(f"y{head}")], ["z", one_line(f"y{cell}")]]


@given(some_text)
def test_markdown_lines_start_no_block(text: str) -> None:
    shown = one_line(text)
    tokens = GITHUB.parse(f"- {markdown_line(text)}")
    kinds = [each.type for each in tokens if not each.type.endswith("_close")]
    if shown:
        assert kinds == ["bullet_list_open", "list_item_open", "paragraph_open", "inline"]
        assert plain(list(tokens[3].children or [])) == shown


def test_names_stay_legible_and_addresses_are_no_links() -> None:
    assert markdown_text("server_cpu_per_request") == "server_cpu_per_request"
    assert markdown_text("prefork@bytes=64") == "prefork&#64;bytes=64"
    assert "http:" not in markdown_text("see http://x.y and HTTPS://z")
    assert "www." not in markdown_text("www.example.org")


READ = {
    r"\textbackslash{}": "\\", r"\{": "{", r"\}": "}", r"\$": "$", r"\&": "&", r"\#": "#", r"\%": "%",
    r"\_": "_", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~", r"\textless{}": "<",
    r"\textgreater{}": ">", r"\textbar{}": "|", r"\textquotedbl{}": '"', "{[}": "[", "{]}": "]",
    r"\textasteriskcentered{}": "*", r"\textasciigrave{}": "`", "{}": "",
}  # fmt: skip
"""What LaTeX shows of each of these."""


@given(st.text(st.sampled_from("ab ,-?!'`\\{}$&#%_^~<>|\"[]*")))
def test_latex_shows_any_text_as_it_is(text: str) -> None:
    written = latex_text(text)
    parts = re.split("(" + "|".join(map(re.escape, sorted(READ, key=len, reverse=True))) + ")", written)
    assert "".join(READ.get(part, part) for part in parts) == one_line(text)
    rest = "".join(part for part in parts if part not in READ)
    assert not set(rest) & set('\\{}$&#%_^~<>|"[]*`')
    assert not re.search(r"--|''|,,", written)


def test_latex_has_rules_and_as_many_columns_as_it_says() -> None:
    table = plain_table(["a", "b & c"], [["[d]", "1¹"], ["e", "2"]])
    text = as_latex("title", [replace(table, caption="x_y", notes=("¹ a note, 5 %",))], "study-main")
    assert r"\begin{tabular}{lr}" in text and r"\label{tab:study-main}" in text
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [1, 1, 1]
    assert r"{[}d{]} & 1\textsuperscript{1} \\" in text


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on this machine")
def test_latex_compiles(tmp_path: Path) -> None:
    table = plain_table(["a", NASTY], [["µ × ≤ ¹²", NASTY]])
    found: list[NamedTable] = [*all_tables(summary()), *all_tables(sweeps_summary())]
    tables = [as_latex(each.title, each.tables(), each.name) for each in found]
    tables.append(as_latex(NASTY, [replace(table, caption=NASTY, notes=(NASTY,))], "nasty"))
    page = "\n".join(
        [r"\documentclass{article}\usepackage{booktabs}\begin{document}", *tables, r"\end{document}"]
    )
    (tmp_path / "page.tex").write_text(page)
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]


@given(some_text)
def test_csv_is_read_as_it_was_written(text: str) -> None:
    shown = as_csv(plain_table(["a", "b"], [[f"x{text}", 0.1], ["y", None]]))
    frame = polars.read_csv(io.BytesIO(shown.encode("utf-8", "replace")), infer_schema_length=None)
    assert frame["b"].to_list() == [0.1, None]


def test_no_field_of_csv_is_a_formula(of: Summary) -> None:
    """A summary of somebody else names contenders, which are fields, and metrics and axes, the heads."""
    text = of.model_dump_json(by_alias=True).replace('"x_label":"', '"x_label":"=1+1+')
    for base in {each.base for each in of.contenders}:
        text = text.replace(f'"{base}', f'"=1+1+{base}')
    for metric in {of.study.metric, *(sweep.metric for sweep in of.sweeps)}:
        text = text.replace(f'"{metric}"', f'"=1+1+{metric}"')
        # A comparison of no known metric is refused.
        text = text.replace(f'"metric":"=1+1+{metric}"', f'"metric":"{metric}"')
    tables = [as_csv(each.for_programs()) for each in all_tables(Summary.model_validate_json(text))]
    fields = [field for table in tables for line in csv.reader(io.StringIO(table)) for field in line]
    assert any(field.startswith("'=1+1") for field in fields)
    assert not [field for field in fields if field.startswith(FORMULA) and not is_number(field)]


def is_number(field: str) -> bool:
    return field == "-" or re.fullmatch(r"[-+][\d.]+(e-?\d+)?", field) is not None
