"""The pages of designs and primitives: code, system calls, when each wins and what it costs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handbook.markdown import ROOT, fenced, made_from, page, plain, table
from handbook.pages.drawing import drawing
from handbook.pages.notes import (
    HOWS,
    PLACES,
    DesignNotes,
    PrimitiveNotes,
    notes_file,
    read_notes,
)
from handbook.pages.recorded_figures import Kind, link, recorded, system_calls
from handbook.pages.settings import settings_table
from handbook.records.kept import Kept, KeptRow

Entry = Mapping[str, Any]
Calls = tuple[Path, dict[str, Any]] | None

DESIGNS, PRIMITIVES = Path("docs/generated/designs"), Path("docs/generated/primitives")

WAITS: Mapping[str, str] = {
    "in_the_call": "a process or a thread sleeps in accept, receive or send",
    "for_readiness": "the kernel reports which sockets would not block",
    "for_completion": "the server submits operations, and the kernel reports their completion",
}
"""Way of waiting → its meaning."""

FAIRNESS = Path("docs/methodology/fairness.md")
"""The page on fairness while requests compute."""

BUSY_POLLS = "busy-polls"
"""A design that never waits. Its notes describe what it does instead."""

USUAL = {"primitive": "send_each", "receive": "recv"}

SENDING: Mapping[str, Kind] = {
    "": lambda row: row.primitive,
    "The clients send by it.": lambda row: row.client_primitive,
}
RECEIVING: Mapping[str, Kind] = {
    "": lambda row: row.receive,
    "The clients receive by it.": lambda row: row.client_receive,
}
"""The sides whose primitives a table may compare."""


@dataclass(frozen=True)
class Recorded:
    """The records: of studies, and of system calls."""

    studies: Sequence[Kept]
    calls: Calls


def documents(catalogue: Mapping[str, Any], kept: Recorded, root: Path = ROOT) -> dict[Path, str]:
    """Return all pages, lists and drawings, by path relative to the root."""
    found: dict[Path, str] = {}
    for entry in catalogue["designs"]:
        found[DESIGNS / f"{entry['name']}.md"] = design_page(entry, kept, root)
    for entry in catalogue["primitives"]:
        path = PRIMITIVES / f"{entry['name']}.md"
        notes = read_notes("primitives", entry["name"], PrimitiveNotes, root)
        found[path] = primitive_page(entry, notes, kept, root)
        if notes is not None:
            found[path.with_suffix(".svg")] = drawing(entry["name"], notes.paths)
    found[DESIGNS / "README.md"] = _designs_list(catalogue["designs"])
    found[PRIMITIVES / "README.md"] = _primitives_list(catalogue["primitives"], root)
    return found


# Designs ----------------------------------------------------------------------------------------------------


def design_page(entry: Entry, kept: Recorded, root: Path = ROOT) -> str:
    """Write the page of a design."""
    name, path = entry["name"], DESIGNS / f"{entry['name']}.md"
    code = Path("engine/src/designs") / f"{name}.rs"
    notes = read_notes("designs", name, DesignNotes, root)
    return page(
        f"# {name}",
        made_from(str(code), str(notes_file("designs", name)), "records/"),
        f"**{plain(entry['summary'])}.** {module_words(root / code)}",
        _facts(entry, [_waiting(entry, notes), _makes(entry)]),
        "## When it wins",
        notes.wins if notes else _unwritten("designs", name),
        "## What it costs",
        notes.costs if notes else _unwritten("designs", name),
        _beside(notes),
        "## When requests compute",
        f"{plain(entry['fairness'])} [Fairness]({link(FAIRNESS, path)}) says how this is tested.",
        "## Its code",
        f"From [{code}]({link(code, path)}), without imports and tests; `{_serve(name)}` runs it.",
        fenced("rust", code_of(root / code)),
        "## Its system calls",
        system_calls(kept.calls, "designs", name, path),
        "## In recorded runs",
        recorded(kept.studies, name, {"": lambda row: row.design if _usual(row) else None}, path),
        "## Its settings",
        settings_table(entry["settings"]) if entry["settings"] else "None.",
        "[Settings](../reference/settings.md#every-server) has the settings of every server.",
    )


def waits_of(entry: Entry) -> str:
    """Return how a design waits for its sockets, in words."""
    return BUSY_POLLS if entry["spins"] else entry["waits"].replace("_", " ")


def _waiting(entry: Entry, notes: DesignNotes | None) -> str:
    """Return a sentence on how a design waits, with the meaning."""
    word = waits_of(entry)
    if entry["spins"]:
        return f"{word.capitalize()}{f': {notes.instead}' if notes and notes.instead else ''}."
    return f"Waits {word}: {WAITS[entry['waits']]}."


def _usual(row: KeptRow) -> bool:
    """True if a contender has the usual primitives, so that its row is about its design."""
    return row.primitive == USUAL["primitive"] and row.receive == USUAL["receive"]


def _makes(entry: Entry) -> str:
    return f"Starts a {entry['makes']} for every connection." if entry.get("makes") else ""


def _beside(notes: DesignNotes | None) -> str:
    if notes is None or not notes.compare_with:
        return ""
    links = ", ".join(f"[{name}]({name}.md)" for name in notes.compare_with)
    return f"Compare with {links}: their code is otherwise the same."


def _serve(name: str) -> str:
    return f"thunderherd serve {name}"


def _designs_list(entries: Sequence[Entry]) -> str:
    return page(
        "# Server designs",
        made_from("the engine's registry of designs"),
        "A design decides how a server accepts connections, and which process or thread serves them. "
        "Each page has the code, its system calls, when the design wins and what it costs, with figures of "
        "recorded runs.",
        table(
            ["design", "what it is", "waits"],
            [
                [
                    f"[{each['name']}]({each['name']}.md)",
                    plain(each["summary"]),
                    waits_of(each),
                ]
                for each in entries
            ],
        ),
    )


# Primitives -------------------------------------------------------------------------------------------------


def primitive_page(entry: Entry, notes: PrimitiveNotes | None, kept: Recorded, root: Path = ROOT) -> str:
    """Write the page of a primitive."""
    name, path = entry["name"], PRIMITIVES / f"{entry['name']}.md"
    code, out = Path("engine/src/primitives") / f"{name}.rs", entry["moves"] == "out"
    option = "--primitive" if out else "--receive"
    waits = " or ".join(way.replace("_", " ") for way in entry["waits"])
    return page(
        f"# {name}",
        made_from(str(code), str(notes_file("primitives", name)), "records/"),
        f"**{plain(entry['summary'])}.** {module_words(root / code)}",
        _facts(
            entry,
            [
                f"{'Sends' if out else 'Receives'}, in servers and loads that wait {waits}.",
                f"Only over TCP: {plain(entry['tcp_only'])}." if entry.get("tcp_only") else "",
            ],
        ),
        "## Where each byte is copied",
        *(_copies(name, notes) if notes else [_unwritten("primitives", name)]),
        "## When it wins",
        notes.wins if notes else _unwritten("primitives", name),
        "## What it costs",
        notes.costs if notes else _unwritten("primitives", name),
        "## Its code",
        f"From [{code}]({link(code, path)}), without imports and tests; "
        f"`thunderherd serve thread_per_client {option} {name}` runs it.",
        fenced("rust", code_of(root / code)),
        "## Its system calls",
        system_calls(kept.calls, "primitives", name, path),
        "## In recorded runs",
        recorded(kept.studies, name, SENDING if out else RECEIVING, path),
        "## Its settings",
        settings_table(entry["settings"]) if entry["settings"] else "None.",
        "## Sources",
        "\n".join(f"- [{each.name}]({each.link})" for each in notes.sources)
        if notes
        else plain(entry["source"]),
    )


def _copies(name: str, notes: PrimitiveNotes) -> list[str]:
    rows = [
        [
            plain(journey.of) if not number else "",
            f"{PLACES[begin][0]} → {PLACES[step.to][0]}" if step.how != "discarded" else PLACES[begin][0],
            f"**{HOWS[step.how][0]}**: {HOWS[step.how][1]}",
            plain(step.by),
        ]
        for journey in notes.paths
        for number, (begin, step) in enumerate(
            zip([journey.begins, *(each.to for each in journey.steps)], journey.steps, strict=False)
        )
    ]
    return [
        f"![The path of the bytes with {name}]({name}.svg)",
        table(["of", "from → to", "how", "by"], rows),
    ]


def _primitives_list(entries: Sequence[Entry], root: Path) -> str:
    def rows(moves: str) -> list[list[str]]:
        return [
            [f"[{each['name']}]({each['name']}.md)", plain(each["summary"]), _counted(each["name"], root)]
            for each in entries
            if each["moves"] == moves
        ]

    heads = ["primitive", "what it is", "copies by the CPU"]
    return page(
        "# Primitives",
        made_from("the engine's registry of primitives", "docs/entries/primitives/"),
        "A primitive sends the bytes of one message through a socket, or receives them. Each page has every "
        "copy of the data, the copies that the primitive avoids, the code, its system calls, when the "
        "primitive wins and what it costs.",
        "Over loopback, sent bytes end in the receive queue of the peer. The peer's receive primitive takes "
        "them from there. Its copies come on top.",
        "## Sending",
        table(heads, rows("out")),
        "## Receiving",
        table(heads, rows("in")),
    )


def _counted(name: str, root: Path) -> str:
    notes = read_notes("primitives", name, PrimitiveNotes, root)
    if notes is None:
        return "-"
    return "; ".join(f"{plain(journey.of)}: {journey.copies}" for journey in notes.paths)


# Of both ----------------------------------------------------------------------------------------------------


def _facts(entry: Entry, sentences: Sequence[str]) -> str:
    # Joined by semicolons, since a name may have a comma: `sendmsg(2), MSG_ZEROCOPY`.
    rests = "; ".join(
        plain(each["name"]) + (f" (Linux {each['since']})" if each["since"] else "")
        for each in entry["rests_on"]
    )
    parts = [f"Source: {plain(entry['source'])}.", *sentences, f"Rests on {rests}." if rests else ""]
    return " ".join(each for each in parts if each)


def _unwritten(kind: str, name: str) -> str:
    guide = f"docs/extending/{kind.removesuffix('s')}.md"
    return f"*Not yet written. It belongs in `{notes_file(kind, name)}` ({guide}).*"


def module_words(path: Path) -> str:
    """Return the module documentation of a file of the engine."""
    lines = path.read_text(encoding="utf-8").splitlines()
    words = [line[3:].strip() for line in lines if line.startswith("//!")]
    return "\n".join(words).strip()


def code_of(path: Path) -> str:
    """Return a file of the engine from its entry on, without its tests."""
    text = path.read_text(encoding="utf-8")
    begin = re.search(r"^pub static ENTRY", text, re.MULTILINE)
    tests = re.search(r"^#\[cfg\(test\)\]", text, re.MULTILINE)
    return text[begin.start() if begin else 0 : tests.start() if tests else len(text)].strip()
