"""The reference: commands, settings, workloads, loads, labs, counters, limits, metrics. Nothing is typed
twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from handbook.markdown import ROOT, fenced, made_from, page, plain, table
from handbook.settings import settings_table
from thunderherd.cli.main import PROGRAM, app
from thunderherd.labs import KINDS
from thunderherd.metrics.table import METRICS, RATIOS

FOLDER, DECISIONS = Path("docs/reference"), Path("docs/decisions")

Catalogue = Mapping[str, Any]

ENDS = {"settings": "", "service_settings": "server", "client_settings": "client"}


def documents(catalogue: Catalogue, root: Path = ROOT) -> dict[Path, str]:
    """The pages, by path below the root."""
    pages = {
        "commands": commands_page(),
        "settings": settings_page(catalogue),
        "workloads": _entries_page("Workloads", "One protocol, both ends.", catalogue["workloads"]),
        "loads": _entries_page("Loads", "Who asks, and how often.", catalogue["loads"]),
        "labs": labs_page(),
        "counters": counters_page(catalogue["counters"]),
        "limits": limits_page(catalogue),
        "metrics": metrics_page(),
    }
    return {
        **{FOLDER / f"{name}.md": text for name, text in pages.items()},
        DECISIONS / "README.md": decisions_page(root),
    }


# Commands ---------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command of `thunderherd` with what it takes."""
    command: Any = typer.main.get_command(app)
    return page(
        "# Commands",
        made_from("lab/thunderherd/cli/main.py", "the commands that it registers"),
        f"{command.help} `{PROGRAM} COMMAND --help` says the same. `serve`, `load` and `count` take the "
        "settings of whatever they are given: [settings](settings.md).",
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
    """`STUDY`, `--out DIR`, `--quick`."""
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
    """The settings that all servers, all loads and all limits have; the others stand with their entries."""
    return page(
        "# Settings",
        made_from("the engine's registries"),
        "An option of `serve` and `load` is a setting of a study, with `_` in the place of `-`. Those of "
        "a [design](../designs/README.md), a [primitive](../primitives/README.md), a "
        "[workload](workloads.md) or a [load](loads.md) stand with it.",
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
            blocks.append(f"Port {entry['port']} if none is given.")
        for key, end in ENDS.items():
            if entry.get(key):
                blocks += [f"Of the {end}:" if end else "", settings_table(entry[key])]
    return page(*blocks)


def labs_page() -> str:
    """The kinds of lab, and their keys."""
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
        "Where server and clients are: `--lab KIND` of `run`, `serve` and `load`, `[lab] kind` of a "
        "study. The keys are those of [`[lab]`](study_file.md).",
        table(["kind", "what it is", "keys", "source"], rows),
    )


def counters_page(counters: Sequence[Mapping[str, Any]]) -> str:
    """What can be read before and after."""
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
        "those of perf, and any event of the machine. Whether one can be had on a machine, `thunderherd "
        "list counters` says there.",
        table(["counter", "what it is", "unit", "perf calls it", "source"], rows),
    )


def limits_page(catalogue: Catalogue) -> str:
    """What one thing costs when nothing else is done."""
    rows = [
        [f"`{each['name']}`", plain(each["summary"]), each["figure"].replace("_", " "), plain(each["source"])]
        for each in catalogue["limits"]
    ]
    return page(
        "# Limits",
        made_from("the engine's registry of limits"),
        "`thunderherd limits` measures these; every run does so before its first trial.",
        table(["limit", "what it is", "figure", "source"], rows),
    )


def metrics_page() -> str:
    """What a trial gives one number for."""
    rows = [
        [f"`{each.name}`", plain(each.words), plain(each.unit), each.better, each.side]
        for each in METRICS.values()
    ]
    return page(
        "# Metrics",
        made_from("lab/thunderherd/metrics/table.py"),
        "What a trial gives one number for: `measure.metric`, `metrics` of sweeps and claims take these "
        "names. Figures of one side that a study asks for by counters are `server.NAME` and "
        "`client.NAME`, also `_per_request`, `_per_byte`, `_per_second` and `_per_cpu_second`; "
        "`both.NAME_per_request` and `both.NAME_per_byte` are of the two together. Ratios of such "
        f"figures: {', '.join(f'`{name}`' for name in RATIOS)}.",
        table(["metric", "in words", "unit", "better", "side"], rows),
    )


# Decisions --------------------------------------------------------------------------------------------------


def decisions_page(root: Path = ROOT) -> str:
    """The titles of all decisions, each of which is the first line of its page."""
    titles = [
        (path.name, path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# "))
        for path in sorted((root / DECISIONS).glob("[0-9]*.md"))
    ]
    return page(
        "# Decisions",
        made_from("the pages beside it"),
        "Design decisions with their context and consequences, oldest first.",
        "\n".join(f"- [{plain(title)}]({name})" for name, title in titles),
    )
