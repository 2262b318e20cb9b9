"""The page docs/generated/sources.md, from the `checklist.csv` of each folder of studies.

It has every item of the sources, with the original command line, our command line and the test that runs
ours. A row of a checklist has

server, client  our command lines. The client's may be several, joined by `&&`. The server's has its --port.
expect          a regular expression that must match the output of server or client
test            FILE::TEST[ROW], the test that runs the commands
not_built       which part of the item is missing, and why
"""

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from thunderherd.errors import UserError
from thunderherd.study.file.names import bundled_studies
from thunderherd.study.source_figures import Inconsistency, inconsistencies_of, notes_about, read_table

CHECKLIST = "checklist.csv"
INCONSISTENCIES = "inconsistencies.csv"
DOCUMENT = Path("docs/generated/sources.md")

HEAD = """\
# The sources, item by item

*Written by `make docs` from the checklists (`lab/thunderherd/studies/*/checklist.csv`).
Edit those, not this page.*

Each row is an item of a source: its text, the original command line if it has one, our command line, and the
test that runs ours. In *ours*, type lines that begin with `thunderherd serve` in one terminal, and the other
lines in another. Ctrl-C in the first ends the server, which then prints its summary. An item that is not
built has the reason. *Note* is a mistake of the source about the item.
"""


class SourceRow(BaseModel):
    """One item of a checklist. A text is empty if the checklist has none."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    document: str
    area: str
    item: str
    detail: str
    source: str
    original: str
    server: str
    client: str
    expect: str
    test: str
    not_built: str
    note: str | None
    where: str

    @property
    def name(self) -> str:
        """Returns the row's name in tests, such as unp-ch30-server-row-2m."""
        return re.sub(r"[^A-Za-z0-9]+", "-", f"{self.document}-{self.area}-{self.item}").strip("-")

    def faults(self) -> list[str]:
        """Describe what the row lacks. A row has a command and its test, or a reason why it is not built."""
        found = []
        if not self.client and not self.not_built:
            found.append("neither a command nor a reason why it is not built")
        if self.server and not self.client:
            found.append("a server without a client")
        if bool(self.client) != bool(self.test) or bool(self.client) != bool(self.expect):
            found.append("only some of a command, its expected output and its test")
        return [f"{self.where}: {self.name} has {fault}" for fault in found]


def source_rows() -> list[SourceRow]:
    """Read the rows of all checklists, in the order of the bundled studies.

    Raises UserError for an invalid checklist.
    """
    folders = dict.fromkeys(path.parent for path in bundled_studies().values())
    return [row for folder in folders if (folder / CHECKLIST).is_file() for row in rows_of(folder)]


def rows_of(folder: Path) -> list[SourceRow]:
    """Read the checklist of a folder, with the notes of its list of inconsistencies."""
    path = folder / CHECKLIST
    columns = [name for name in SourceRow.model_fields if name not in ("note", "where")]
    notes: list[Inconsistency] = []
    if (folder / INCONSISTENCIES).is_file():
        notes = inconsistencies_of(folder / INCONSISTENCIES)
    rows = []
    for number, row in enumerate(read_table(path, columns), 1):
        note = notes_about(notes, f"checklist {row['item']}")
        try:
            re.compile(row["expect"])
        except re.error as error:
            raise UserError(f"{path}: row {number}: expect is not a regular expression: {error}") from None
        rows.append(
            SourceRow(**{name: row[name] for name in columns}, note=note, where=f"{path.name} row {number}")
        )
    return rows


# The document -----------------------------------------------------------------------------------------------


def document(rows: Sequence[SourceRow]) -> str:
    """Write the whole page."""
    text = HEAD
    for name in dict.fromkeys(row.document for row in rows):
        of_source = [row for row in rows if row.document == name]
        built = sum(1 for row in of_source if row.client)
        text += f"\n## {name}\n\n{len(of_source)} items, of which tests run {built}.\n\n"
        text += "| item | text of the source | original | ours | test |\n|---|---|---|---|---|\n"
        text += "".join(f"| {' | '.join(_cells(row))} |\n" for row in of_source)
    return text


def _cells(row: SourceRow) -> list[str]:
    origin = "" if row.source == "document" else f" ({row.source})"
    detail = _text(row.detail) + (f"<br>*Note:* {_text(row.note)}" if row.note else "")
    commands = [row.server, *row.client.split(" && ")]
    shown = [f"`{row.test}`"] if row.test else []
    if row.not_built:
        shown.append(f"*Not built:* {_text(row.not_built)}")
    return [
        f"{row.area}: {_text(row.item)}{origin}",
        detail,
        "<br>".join(f"`{line}`" for line in row.original.split(" && ") if line) or "none",
        "<br>".join(f"`{line}`" for line in commands if line) or "none",
        "<br>".join(shown),
    ]


def _text(text: str) -> str:
    """Escape a text for a cell of a Markdown table."""
    return re.sub(r"([|*_<\[\]])", r"\\\1", text).replace("\n", " ")
