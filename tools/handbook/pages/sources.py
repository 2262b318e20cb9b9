"""docs/generated/sources.md: every item of the sources' checklists, its original command line, ours,
and the test that runs it.

Written by `make docs` from the `checklist.csv` of each folder of studies. A row of a checklist has

server, client  our command lines; the client's may be several, joined by `&&`. The server says its --port.
expect          a regular expression that is found in what the two print
test            FILE::TEST[ROW], the test that runs them
not_built       what of the item is not there, and why
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

Written by `make docs` from the checklists beside the studies; change those, not this.

Every row is an item of a source: what it says, the original command line where it has one, ours, and the
test that runs ours. In *ours*, a line that begins with `thunderherd serve` is for one terminal, the others
are for another one; Ctrl-C in the first ends the server, which then prints its summary. What is not
built says why. *Note* is what the source itself gets wrong about the item.
"""


class SourceRow(BaseModel):
    """One item of a checklist; texts are empty where the checklist has nothing."""

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
        """The row's name in tests, such as unp-ch30-server-row-2m."""
        return re.sub(r"[^A-Za-z0-9]+", "-", f"{self.document}-{self.area}-{self.item}").strip("-")

    def faults(self) -> list[str]:
        """What the row lacks, in words: it is either run by a test, or says why it is not built."""
        found = []
        if not self.client and not self.not_built:
            found.append("neither a command of ours nor a reason why it is not built")
        if self.server and not self.client:
            found.append("a server that nobody asks")
        if bool(self.client) != bool(self.test) or bool(self.client) != bool(self.expect):
            found.append("a command, what to expect of it and its test go together; one of them is missing")
        return [f"{self.where}: {self.name} has {fault}" for fault in found]


def source_rows() -> list[SourceRow]:
    """The rows of all checklists, in the order of the bundled studies.

    Raises UserError for a bad checklist.
    """
    folders = dict.fromkeys(path.parent for path in bundled_studies().values())
    return [row for folder in folders if (folder / CHECKLIST).is_file() for row in rows_of(folder)]


def rows_of(folder: Path) -> list[SourceRow]:
    """The rows of one folder's checklist, with the notes of its list of inconsistencies."""
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
            raise UserError(f"{path}: row {number}: expect is no regular expression: {error}") from None
        rows.append(
            SourceRow(**{name: row[name] for name in columns}, note=note, where=f"{path.name} row {number}")
        )
    return rows


# The document -----------------------------------------------------------------------------------------------


def document(rows: Sequence[SourceRow]) -> str:
    """The whole page, in Markdown."""
    text = HEAD
    for name in dict.fromkeys(row.document for row in rows):
        of_source = [row for row in rows if row.document == name]
        built = sum(1 for row in of_source if row.client)
        text += f"\n## {name}\n\n{len(of_source)} items, {built} of them run by a test.\n\n"
        text += "| item | what the source has | original | ours | shown by |\n|---|---|---|---|---|\n"
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
    """A text that stays in its cell of a table and keeps its signs."""
    return re.sub(r"([|*_<\[\]])", r"\\\1", text).replace("\n", " ")
