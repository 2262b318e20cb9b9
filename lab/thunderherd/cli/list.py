"""The command `list`: the engine's registries, the bundled studies, and what can be combined."""

from __future__ import annotations

import json
import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
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

FACTS = {"unit": "Unit", "question": "Question", "fairness": "Fairness", "source": "Source", "path": "File"}
"""Texts of an entry besides its summary, and their labels."""

MARK = "*"
"""Follows the name of an unavailable entry in the overview."""

SHORTENED = ("counters", "limits")
"""Kinds that a first command does not need. The overview has only as many of their names as fit in `SHORT`
characters, in one line, so that all fits a screen of 80 columns and 24 lines."""

SHORT = 34

PLAIN_WIDTH = 160
"""Columns if the output is no terminal and $COLUMNS is not set: wide enough for almost every summary."""

Entry = dict[str, Any]


def list_(
    what: Annotated[
        str | None,
        typer.Argument(metavar=f"[{'|'.join(SECTIONS)}]", help="Kind of entry (default: all kinds)."),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="[ENTRY]", help="Entry to describe (default: a line for each).")
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
        print_list(what, name, as_json)


def print_list(what: str | None, name: str | None, as_json: bool) -> None:
    """Print all kinds, one kind or one entry, as text or as JSON.

    The JSON of all kinds is an object with a list for each, the JSON of an entry its object in that list.
    Raises `UserError` for an unknown kind or entry.
    """
    if what is not None and what not in SECTIONS:
        from thunderherd.toml.file import unknown

        raise UserError(unknown("list", what, SECTIONS, "list").at("list"))
    offered = _offered(SECTIONS if what is None else (what,))
    if what is None:
        printed: Any = offered
    elif name is None:
        printed = offered[what]
    else:
        printed = _entry(what, name, offered[what])
    if as_json:
        print(json.dumps(printed, indent=2, ensure_ascii=False))
    elif what is None:
        _print_overview(offered)
    elif name is None:
        _print_kind(what, offered)
    else:
        _print_entry(what, printed, offered)


def _entry(what: str, name: str, entries: list[Entry]) -> Entry:
    """Return the entry of this name. Raises `UserError` if there is none."""
    for entry in entries:
        if entry["name"] == name:
            return entry
    from thunderherd.toml.file import unknown

    names = [entry["name"] for entry in entries]
    raise UserError(unknown("entry", name, names, "list", f"thunderherd list {what}").at(f"list {what}"))


def _events(of_perf: Sequence[str]) -> str:
    """Return the forms of names that events may have which can be counted without being listed."""
    from thunderherd.engine.counter_names import FORMS

    names = f"; further names of perf: {', '.join(of_perf)}" if of_perf else ""
    return f"{FORMS}{names}"


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
                "commands": _commands(text),
            }
        )
    return studies


def _commands(study: Mapping[str, Any]) -> list[str]:
    """Return the commands that the contenders and loads of a study run, each once."""
    tables = [
        *study.get("contenders", []),
        *(each for sweep in study.get("sweeps", []) for each in sweep.get("contenders", [])),
    ]
    own = [each for each in tables if isinstance(each, dict)]
    loads = [each["load"] for each in (study, *own) if "load" in each]
    named = [each[key] for each in (*own, *loads) for key in ("build", "version", "command") if key in each]
    return [*dict.fromkeys(shlex.join(words) for words in named)]


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and not os.environ.get("COLUMNS"):
        console.width = PLAIN_WIDTH
    return console


def _print_overview(offered: dict[str, Any]) -> None:
    """Print each kind with the number and the names of its entries."""
    console, table = _console(), _table(columns=3)
    for kind in SECTIONS:
        entries = offered[kind]
        names = [f"{each['name']}{'' if _is_available(each) else MARK}" for each in entries]
        table.add_row(_title(kind), f"{len(entries):2}", _listed(names, kind))
    _print(console, table)
    console.print()
    if not all(_is_available(each) for kind in SECTIONS for each in offered[kind]):
        console.print(f"{MARK} unavailable on this machine")
    usual = offered["defaults"]["design"]
    console.print(f"`list designs` for a kind, `list designs {usual}` for an entry")


def _listed(names: list[str], kind: str) -> str:
    """Return the names of a kind in a row, with the number of those that the overview leaves out."""
    shown = list(names)
    while kind in SHORTENED and len(", ".join(shown)) > SHORT:
        shown.pop()
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more: `list {kind}`" if left else "")


def _print_kind(kind: str, offered: dict[str, Any]) -> None:
    """Print the heading of a kind, then the name and the summary of each entry."""
    console, entries, table = _console(), offered[kind], _table()
    console.print(_heading(console, HEADINGS[kind]))
    for entry in entries:
        mark = "" if _is_available(entry) else "unavailable: "
        table.add_row(_title(f"  {entry['name']}"), f"{mark}{_summary(entry)}")
    _print(console, table)
    if kind == "counters":
        _print(console, f"\n{_events(offered['events_of_perf'])}")
    console.print(f"\n`list {kind} {entries[0]['name']}` for an entry")


def _print_entry(kind: str, entry: Entry, offered: dict[str, Any]) -> None:
    """Print the summary, the facts and the settings of an entry."""
    console, facts = _console(), _table()
    for label, text in _facts(entry):
        facts.add_row(_title(f"  {label}"), text)
    console.print(_heading(console, f"{entry['name']}: {_summary(entry)}"))
    if facts.row_count:
        _print(console, facts)
    _print_settings(console, "Settings", _own_settings(entry))
    shared, everybody = SHARED_SETTINGS.get(kind, ("", ""))
    _print_settings(console, f"Settings of {everybody}", [(each, "") for each in offered.get(shared, [])])


def _print_settings(console: Console, heading: str, settings: list[tuple[Entry, str]]) -> None:
    """Print options with their defaults, purposes and values; nothing if there are none."""
    if not settings:
        return
    table = _table()
    for setting, side in settings:
        of_side = f" [{side}]" if side else ""
        table.add_row(f"  {_option(setting)} {_default(setting)}", f"{_meaning(setting)}{of_side}")
    console.print()
    console.print(_heading(console, heading))
    _print(console, table)


def _table(columns: int = 2) -> Table:
    """Return an empty table whose last column is folded."""
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for _ in range(columns - 1):
        table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _title(text: str) -> Text:
    from rich.text import Text

    return Text(text, style="bold")


def _heading(console: Console, text: str) -> Text:
    from rich.text import Text

    return Text(text, style="bold underline" if console.is_terminal else "")


def _print(console: Console, printed: Table | str) -> None:
    """Print a table or a text without blanks at the ends of its lines."""
    with console.capture() as captured:
        console.print(printed)
    for line in captured.get().splitlines():
        print(line.rstrip(), file=console.file)


def _is_available(entry: Entry) -> bool:
    return entry.get("available") is not False


def _summary(entry: Entry) -> str:
    does = {"out": "sends: ", "in": "receives: "}.get(entry.get("moves", ""), "")
    return f"{does}{entry['summary']}"


def _facts(entry: Entry) -> list[tuple[str, str]]:
    """Return what is known of an entry besides its settings, each with a label."""
    facts = []
    if "available" in entry:
        facts.append(("Available", "yes" if _is_available(entry) else f"no: {entry.get('reason')}"))
    facts += [(label, str(entry[key])) for key, label in FACTS.items() if entry.get(key)]
    if names := entry.get("names_of_perf"):
        facts.append(("Names of perf", ", ".join(names)))
    if sizes := entry.get("sizes"):
        facts.append(("Sizes", ", ".join(f"--size {size}" for size in sizes)))
    if commands := entry.get("commands"):
        facts.append(("Commands", "; ".join(commands)))
    if keys := entry.get("keys"):
        facts.append(("Keys", ", ".join(f"lab.{key}" for key in keys)))
    return facts


def _own_settings(entry: Entry) -> list[tuple[Entry, str]]:
    """Return the settings of an entry, each once, with the commands that take them: `serve and load`."""
    sides: dict[tuple[str, Any], list[str]] = {}
    settings: dict[tuple[str, Any], Entry] = {}
    for key, side in SETTING_LISTS.items():
        for setting in entry.get(key) or []:
            known = (setting["name"], setting["default"])
            settings.setdefault(known, setting)
            sides.setdefault(known, []).extend([side] if side else [])
    return [(setting, " and ".join(sides[known])) for known, setting in settings.items()]


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
