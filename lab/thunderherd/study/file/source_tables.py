"""What a study file may say of the source's figures: the tables `[[paper]]` and `[[sweeps.paper]]`."""

from typing import Annotated

from pydantic import Field, Tag

from thunderherd.toml.strict import Table, table_or

PAPER_UNIT = 'the source\'s unit, such as "µs"; left out where it is that of ours'

PaperColumns = Annotated[
    Annotated[str, Tag("name")] | Annotated[dict[str, str], Tag("table")], table_or("name")
]


class PaperFigureTable(Table):
    """The source's figures of one metric, in a column of a file that has several."""

    value: str = Field(
        description='the column with the figures; a metric with a dot is written "client.context_switches"'
    )
    unit: str = Field(default="", description=PAPER_UNIT)
    note: str | None = Field(
        default=None, description="what to know about these figures, in the place of the table's note"
    )


PaperFigures = Annotated[
    Annotated[str, Tag("column")] | Annotated[PaperFigureTable, Tag("table")], table_or("column")
]


class PaperTable(Table):
    """The source's figures, of one metric or of several: in a CSV file beside the study, of the main table or
    of a sweep.

    Wide: a column for each contender (`columns`), or for each of the systems on which the source ran it.
    Long: a line for each contender (`contender`, `names`), with the figures of one `metric` in the column
    `value`, or with those of several in a column for each (`figures`). Of a sweep either has a line for each
    `point`. Several lines for the same are several runs, or several workers.
    """

    file: str = Field(description="a CSV file beside the study")
    metric: str = Field(
        default="",
        description='what they stand beside: a metric, such as "requests_per_second"; in the main table also '
        "process_control_seconds or worker_connections",
    )
    unit: str = Field(default="", description=PAPER_UNIT)
    figure: str | None = Field(
        default=None, description='what the list of inconsistencies calls it, such as "fig30_2"'
    )
    point: str | None = Field(default=None, description="of a sweep: its column with the points")
    columns: dict[str, PaperColumns] | None = Field(
        default=None,
        description='wide: for each contender the column with its figures, or { "a system" = "its column" }',
    )
    contender: str | None = Field(default=None, description="long: its column that tells contenders apart")
    names: dict[str, str] | None = Field(
        default=None,
        description="long: for each contender what that column says for it; in the main table its row, if "
        "left out",
    )
    value: str | None = Field(default=None, description="long: its column with the figures")
    figures: dict[str, PaperFigures] | None = Field(
        default=None,
        min_length=1,
        description="long: for each of several metrics its column, or a table such as "
        '{ value = "its column", unit = "us" }',
    )
    where: dict[str, str] = Field(
        default={}, description='only lines with these, such as { delay = "small" }'
    )
    note: str | None = Field(default=None, description="what to know about these figures")
