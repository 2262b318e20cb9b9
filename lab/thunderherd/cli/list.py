"""The command `list`: the engine's registries, the bundled studies, and what can be combined."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from thunderherd.cli.options import AsJson
from thunderherd.errors import UserError
from thunderherd.toml.quantities import quantity_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from thunderherd.engine.catalogue import Catalogue

SECTIONS = ("designs", "primitives", "workloads", "loads", "labs", "counters", "limits", "studies")

HEADINGS = {
    "designs": "Designs: ways to accept and serve connections (thunderherd serve DESIGN)",
    "primitives": "Primitives: calls that send (--primitive) and receive (--receive) the bytes of a message",
    "workloads": "Workloads: one protocol, both ends (--workload; thunderherd load WORKLOAD)",
    "loads": "Loads: kinds of clients, and the times of their requests (--load)",
    "labs": "Labs: places of server and clients, and the link between them (--lab; [lab] kind of a study)",
    "counters": "Counters: events counted during a trial",
    "limits": "Limits: cost of one operation on an otherwise idle machine (thunderherd limits)",
    "studies": "Studies: a question, and the experiment that answers it (thunderherd run STUDY)",
}

SHARED_SETTINGS = {
    "designs": ("server_settings", "every server"),
    "loads": ("load_settings", "every load"),
    "limits": ("limit_settings", "thunderherd limits"),
}
"""Section → the list of settings that all its entries share, and the commands that take them."""

SETTING_LISTS = {"settings": "", "service_settings": "serve", "client_settings": "load"}
"""An entry's lists of settings, and the command that takes them if its two ends have different ones."""

PLAIN_WIDTH = 160
"""Columns if the output is no terminal: wide enough that a pipe sees one entry a line."""

Entry = dict[str, Any]


def list_(
    what: Annotated[
        str | None,
        typer.Argument(metavar=f"[{'|'.join(SECTIONS)}]", help="Kind of entry (default: all kinds)."),
    ] = None,
    as_json: AsJson = False,
    matrix: Annotated[
        bool,
        typer.Option(
            "--matrix", help="Print which primitives fit which designs, loads and workloads (default: off)."
        ),
    ] = False,
) -> None:
    """List designs, primitives, workloads, loads, labs, counters, limits and studies."""
    if matrix and what is not None:
        raise UserError(
            f"--matrix covers all kinds, not '{what}' alone",
            code="list.matrix_of_one_kind",
            hint=f"leave {what} out",
            where="list",
        )
    if matrix:
        print_matrix(as_json)
    else:
        print_list(what, as_json)


def print_list(what: str | None, as_json: bool) -> None:
    """Print one section, or all, as text or as JSON (one section: a list; all: an object).

    Raises `UserError` for an unknown section.
    """
    if what is not None and what not in SECTIONS:
        from thunderherd.toml.file import unknown

        raise UserError(unknown("list", what, SECTIONS, "list").at("list"))
    wanted = SECTIONS if what is None else (what,)
    offered = _offered(wanted)
    if as_json:
        print(json.dumps(offered if what is None else offered[wanted[0]], indent=2, ensure_ascii=False))
        return
    console = _console()
    for name in wanted:
        shared, whose = SHARED_SETTINGS.get(name, ("", ""))
        entries = offered[name]
        if name == "counters":
            entries = [*entries, _events(offered["events_of_perf"])]
        _print_section(console, HEADINGS[name], entries, offered.get(shared, []), whose)


def _events(of_perf: Sequence[str]) -> Entry:
    """Return an entry for events that may be requested like a counter and are in no list."""
    from thunderherd.engine.counter_names import FORMS

    names = f"; further names of perf: {', '.join(of_perf)}" if of_perf else ""
    return {"name": "...", "summary": f"{FORMS}{names}"}


def print_matrix(as_json: bool) -> None:
    """Print the engine's matrix of what fits what; as JSON, what does not fit, with reasons."""
    if as_json:
        holes = _offered(("primitives",))["holes"]
        print(json.dumps(holes, indent=2, ensure_ascii=False))
        return
    from thunderherd.engine.client import matrix

    print(matrix(), end="")


def _offered(wanted: tuple[str, ...]) -> dict[str, Any]:
    """Return the registries of the engine and the package. Start no engine if only studies are requested."""
    offered: dict[str, Any] = {}
    if wanted != ("studies",):
        from thunderherd.engine.client import catalogue

        engine = catalogue()
        offered = engine.model_dump(mode="json", by_alias=True)
        if "labs" in wanted:
            offered["labs"] = _labs(engine)
    if "studies" in wanted:
        offered["studies"] = _studies()
    return offered


def _labs(catalogue: Catalogue) -> list[Entry]:
    """Return the kinds of lab, and whether they are available on this machine."""
    from thunderherd.labs import KINDS

    return [
        {
            "name": each.name,
            "summary": each.summary,
            "source": each.source,
            "keys": list(each.keys),
            "available": each.unavailable(catalogue) is None,
            "reason": each.unavailable(catalogue),
        }
        for each in KINDS.values()
    ]


def _studies() -> list[Entry]:
    """Return the bundled studies. Their titles are read without validating the studies."""
    from thunderherd.study.file.names import bundled_studies

    studies = []
    for name, path in sorted(bundled_studies().items()):
        text = tomllib.loads(path.read_text(encoding="utf-8"))
        studies.append(
            {
                "name": name,
                "summary": str(text.get("title", "")),
                "question": str(text.get("question", "")).strip(),
                "sizes": sorted(text.get("sizes", {})),
                "path": str(path),
            }
        )
    return studies


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH)


def _print_section(
    console: Console, heading: str, entries: list[Entry], shared: list[Entry], everybody: str
) -> None:
    """Print a heading, the name and summary of each entry, then every setting once for each default."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for entry in entries:
        names = f"  ({options})" if (options := _options(entry)) else ""
        table.add_row(
            Text(f"  {entry['name']}", style="bold"), Text.assemble(_summary(entry), (names, "dim"))
        )
    own = [setting for entry in entries for key in SETTING_LISTS for setting in entry.get(key) or []]
    for setting in {(setting["name"], setting["default"]): setting for setting in own}.values():
        table.add_row(*_setting_row(setting, _owners(setting, entries)))
    for setting in shared:
        table.add_row(*_setting_row(setting, everybody))
    console.print(Text(heading, style="bold underline" if console.is_terminal else ""))
    _print(console, table)
    console.print()


def _print(console: Console, table: Table) -> None:
    """Print a table without blanks at the ends of its lines."""
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        print(line.rstrip(), file=console.file)


def _summary(entry: Entry) -> str:
    does = {"out": "sends: ", "in": "receives: "}.get(entry.get("moves", ""), "")
    of_perf = f"; perf: {', '.join(names)}" if (names := entry.get("names_of_perf")) else ""
    summary = does + str(entry["summary"]) + of_perf
    if entry.get("available") is False:
        return f"{summary}; unavailable on this machine: {entry.get('reason')}"
    return summary


def _options(entry: Entry) -> str:
    """Return the options of an entry, by end if it has two: `serve: --form; load: --form, --closes`."""
    sides = {side: entry.get(key) or [] for key, side in SETTING_LISTS.items()}
    named = [
        _of_side(side, [_option(setting) for setting in settings])
        for side, settings in sides.items()
        if settings
    ]
    sizes = [f"--size {size}" for size in entry.get("sizes", ())]
    return "; ".join(named) or ", ".join([*sizes, *(f"lab.{key}" for key in entry.get("keys", ()))])


def _owners(setting: Entry, entries: list[Entry]) -> str:
    """Return the entries that have a setting: `prefork, prethread`, or `serve: bytes; load: bucket`."""
    owners: dict[str, list[str]] = {}
    for entry in entries:
        sides = [
            side
            for key, side in SETTING_LISTS.items()
            if any(_is_alike(setting, other) for other in entry.get(key) or [])
        ]
        if sides:
            owners.setdefault(" and ".join(sides), []).append(entry["name"])
    return "; ".join(_of_side(side, names) for side, names in owners.items())


def _is_alike(setting: Entry, other: Entry) -> bool:
    return all(setting[key] == other[key] for key in ("name", "default"))


def _of_side(side: str, names: list[str]) -> str:
    return f"{side}: {', '.join(names)}" if side else ", ".join(names)


def _setting_row(setting: Entry, owners: str) -> tuple[Text, Text]:
    """Return an option with its default; its purpose, its values, and the entries that have it."""
    from rich.text import Text

    return (
        Text(f"    {_option(setting)} {_default(setting)}"),
        Text(f"{_meaning(setting)} [{owners}]", style="dim"),
    )


def _option(setting: Entry) -> str:
    return f"--{setting['name'].replace('_', '-')}"


def _default(setting: Entry) -> str:
    default = setting["default"]
    if setting["kind"] == "integer":
        return quantity_of(setting.get("unit")).write(default)
    return str(default).lower() if isinstance(default, bool) else str(default)


def _meaning(setting: Entry) -> str:
    """Return the purpose and the values of a setting: `workers in the pool (1 to 1024)`."""
    match setting["kind"]:
        case "integer":
            unit = setting.get("unit") or ""
            allowed = quantity_of(unit).between(setting["minimum"], setting["maximum"], unit)
        case "boolean":
            allowed = "true or false"
        case "text":
            allowed = f"1 to {setting['longest']} visible ASCII characters"
        case _:
            allowed = " or ".join(setting["choices"])
    return f"{setting['help']} ({allowed})"
