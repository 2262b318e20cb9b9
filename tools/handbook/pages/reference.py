"""The reference pages: commands, settings, workloads, loads, labs, counters, machine limits and metrics.

They take every fact from the registries and models that the program uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from handbook.markdown import ROOT, fenced, made_from, page, plain, table
from handbook.pages.settings import settings_table
from thunderherd.cli.main import PROGRAM, app
from thunderherd.engine.client import catalogue as engine_catalogue
from thunderherd.engine.conformance import cases_of
from thunderherd.labs import KINDS
from thunderherd.metrics.table import METRICS, RATIOS

FOLDER, DECISIONS = Path("docs/generated/reference"), Path("docs/decisions")

Catalogue = Mapping[str, Any]

ENDS = {"settings": "", "service_settings": "server", "client_settings": "client"}


def documents(catalogue: Catalogue, root: Path = ROOT) -> dict[Path, str]:
    """Return the pages, by path relative to the root."""
    pages = {
        "commands": commands_page(),
        "settings": settings_page(catalogue),
        "workloads": _entries_page(
            "Workloads",
            "A workload is a protocol, with the server's part and the client's.",
            catalogue["workloads"],
        ),
        "loads": _entries_page(
            "Loads", "A load decides how many clients send requests, and when.", catalogue["loads"]
        ),
        "labs": labs_page(),
        "counters": counters_page(catalogue["counters"]),
        "limits": limits_page(catalogue),
        "metrics": metrics_page(),
        "conform": conform_page(),
    }
    return {
        **{FOLDER / f"{name}.md": text for name, text in pages.items()},
        DECISIONS / "README.md": decisions_page(root),
    }


# Commands ---------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Write the page of all commands of `thunderherd`, with arguments and options."""
    command: Any = typer.main.get_command(app)
    return page(
        "# Commands",
        made_from("lab/thunderherd/cli/main.py", "the commands that it registers"),
        f"{command.help} `{PROGRAM} COMMAND --help` prints the same text. `serve`, `load` and `count` "
        "also take the [settings](settings.md) of the entries that they run.",
        table(
            ["command", "what it does"],
            [
                [f"[{name}](#thunderherd-{name})", plain(_first(each.help))]
                for name, each in command.commands.items()
                if not each.hidden
            ],
        ),
        *(_command(name, each) for name, each in command.commands.items() if not each.hidden),
    )


def _command(name: str, command: Any) -> str:
    parameters = [each for each in command.params if not getattr(each, "hidden", False)]
    usage = " ".join(
        [PROGRAM, name, *(_usage(each) for each in parameters if each.param_type_name == "argument")]
    )
    options = any(each.param_type_name == "option" for each in parameters)
    rows = [[f"`{_usage(each)}`", plain(getattr(each, "help", None) or "")] for each in parameters]
    return page(
        f"## {PROGRAM} {name}",
        fenced("text", usage + (" [OPTIONS]" if options else "")),
        plain(command.help or ""),
        table(["", ""], rows) if rows else "",
    ).rstrip()


def _usage(parameter: Any) -> str:
    """Return a parameter as a user types it: `STUDY`, `--out DIR`, `--quick`."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    if getattr(parameter, "is_flag", False) or getattr(parameter, "count", False):
        return names
    return f"{names} {parameter.metavar or parameter.name.upper()}"


def _first(text: str | None) -> str:
    return (text or "").split("\n\n")[0].replace("\n", " ")


# Registries -------------------------------------------------------------------------------------------------


def settings_page(catalogue: Catalogue) -> str:
    """Write the page of the settings that all servers, all loads or all limits share."""
    return page(
        "# Settings",
        made_from("the engine's registries"),
        "Each option of `serve` and `load` is a setting of a study, with `_` in place of `-`. The pages of "
        "[designs](../designs/README.md), [primitives](../primitives/README.md), [workloads](workloads.md) "
        "and [loads](loads.md) have their settings.",
        "## Every server",
        settings_table(catalogue["server_settings"]),
        "## Every load",
        settings_table(catalogue["load_settings"]),
        "## Limits",
        settings_table(catalogue["limit_settings"]),
    )


def _entries_page(title: str, about: str, entries: Sequence[Mapping[str, Any]]) -> str:
    blocks = [f"# {title}", made_from(f"the engine's registry of {title.lower()}"), about]
    for entry in entries:
        blocks += [f"## {entry['name']}", f"{plain(entry['summary'])}. Source: {plain(entry['source'])}."]
        if "port" in entry:
            blocks.append(f"Default port: {entry['port']}.")
        for key, end in ENDS.items():
            if entry.get(key):
                blocks += [f"Settings of the {end}:" if end else "", settings_table(entry[key])]
    return page(*blocks)


def labs_page() -> str:
    """Write the page of labs, with their keys."""
    rows = [
        [
            f"`{each.name}`",
            plain(each.summary),
            ", ".join(f"`{key}`" for key in each.keys),
            plain(each.source),
        ]
        for each in KINDS.values()
    ]
    return page(
        "# Labs",
        made_from("lab/thunderherd/labs/"),
        "A lab is the place of server and clients. Choose one with `--lab KIND` of `run`, `serve` and "
        "`load`, or `[lab] kind` in a study. The keys are those of [`[lab]`](study_file.md).",
        table(["kind", "what it is", "keys", "source"], rows),
    )


def counters_page(counters: Sequence[Mapping[str, Any]]) -> str:
    """Write the page of counters."""
    rows = [
        [
            f"`{each['name']}`",
            plain(each["summary"]),
            plain(each["unit"] or ""),
            ", ".join(f"`{name}`" for name in each["names_of_perf"]),
            plain(each["source"]),
        ]
        for each in counters
    ]
    return page(
        "# Counters",
        made_from("the engine's registry of counters"),
        "`--count` of `serve`, `load` and `count`, and `measure.counters` of a study take these names, "
        "perf's names, and the name of any event of the machine. `thunderherd list counters` prints which "
        "counters a machine has.",
        table(["counter", "meaning", "unit", "name in perf", "source"], rows),
    )


def limits_page(catalogue: Catalogue) -> str:
    """Write the page of machine limits."""
    rows = [
        [f"`{each['name']}`", plain(each["summary"]), each["figure"].replace("_", " "), plain(each["source"])]
        for each in catalogue["limits"]
    ]
    return page(
        "# Limits",
        made_from("the engine's registry of limits"),
        "A machine limit is what one operation costs when the machine does nothing else. "
        "`thunderherd limits` measures the limits, and so does every run before its first trial.",
        table(["limit", "what it is", "figure", "source"], rows),
    )


def metrics_page() -> str:
    """Write the page of metrics."""
    rows = [
        [f"`{each.name}`", plain(each.words), plain(each.unit), each.better, each.side]
        for each in METRICS.values()
    ]
    return page(
        "# Metrics",
        made_from("lab/thunderherd/metrics/table.py"),
        "A metric is one figure of a trial. `measure.metric`, and `metrics` of sweeps and claims take these "
        "names.",
        "A study that requests counters has more metrics. `server.NAME` and `client.NAME` are of one side, "
        "each also with `_per_request`, `_per_byte`, `_per_second` or `_per_cpu_second` at the end. "
        "`both.NAME_per_request` and `both.NAME_per_byte` are of both sides together. Ratios of such "
        f"figures are {', '.join(f'`{name}`' for name in RATIOS)}.",
        table(["metric", "meaning", "unit", "better", "side"], rows),
    )


def conform_page() -> str:
    """Write the page of the cases that any server must pass."""
    workloads = {each.name for each in engine_catalogue().workloads}
    rows = [
        [
            str(each.number),
            plain(each.name),
            plain(each.rule),
            plain(each.source or ""),
            "all" if set(each.workloads) == workloads else ", ".join(each.workloads),
        ]
        for each in cases_of()
    ]
    return page(
        "# Conformance cases",
        made_from("engine/src/conform/"),
        "`thunderherd conform` runs these cases ([Does a server do what it must?](../../conform.md)). The "
        "number of a case stays the same.",
        table(["no.", "case", "what a server must do", "source", "workloads"], rows),
    )


# Decisions --------------------------------------------------------------------------------------------------


def decisions_page(root: Path = ROOT) -> str:
    """Write the list of decisions, from the first line of each page."""
    titles = [
        (path.name, path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "))
        for path in sorted((root / DECISIONS).glob("[0-9]*.md"))
    ]
    return page(
        "# Decisions",
        made_from("the pages in this folder"),
        "Design decisions with their context and consequences, oldest first.",
        "\n".join(f"- [{plain(title)}]({name})" for name, title in titles),
    )
