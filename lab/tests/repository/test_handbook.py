"""The pages that `make docs` writes: from entries and registries; drawings, links, the site."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import make_records
from handbook import links, site
from handbook.catalogued import catalogue
from handbook.markdown import between, fenced, plain, table
from handbook.pages import demo, entries, reference
from handbook.pages.drawing import drawing, in_words
from handbook.pages.notes import (
    DesignNotes,
    Journey,
    PrimitiveNotes,
    Step,
    notes_file,
    read_notes,
    without_entry,
)
from handbook.pages.recorded_figures import NOT_RECORDED
from handbook.records import strace_counts
from handbook.records.kept import kept_studies
from thunderherd.cli.main import app
from thunderherd.engine.catalogue import Catalogue
from thunderherd.errors import UserError
from thunderherd.metrics.table import METRICS
from thunderherd.study.loading import load_study

ROOT = Path(__file__).resolve().parents[3]
NOTHING_KEPT = entries.Recorded((), None)
COLOURED = (["copied"], ["kept"], ["device"])
FORMS: dict[str, Any] = {"designs": DesignNotes, "primitives": PrimitiveNotes}


# Entries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FORMS)
def test_every_entry_has_a_notes_file_and_vice_versa(kind: str) -> None:
    names = {each["name"] for each in catalogue()[kind]}
    missing = [str(notes_file(kind, name)) for name in names if read_notes(kind, name, FORMS[kind]) is None]
    assert missing == []
    assert without_entry(kind, names) == []


def test_designs_are_compared_with_existing_designs() -> None:
    names = {each["name"] for each in catalogue()["designs"]}
    for name in names:
        notes = read_notes("designs", name, DesignNotes)
        assert notes is not None and set(notes.compare_with) <= names - {name}, name


def test_pages_of_busy_polling_designs_say_how_they_wait(tmp_path: Path) -> None:
    for entry in catalogue()["designs"]:
        notes = read_notes("designs", entry["name"], DesignNotes)
        assert notes is not None and (notes.instead is not None) == entry["spins"], entry["name"]
    polling = next(each for each in catalogue()["designs"] if each["name"] == "polling")
    other = {**polling, "name": "other"}
    (tmp_path / "engine/src/designs").mkdir(parents=True)
    (tmp_path / "engine/src/designs/other.rs").write_text("pub static ENTRY")
    assert " Busy-polls. " in entries.design_page(other, NOTHING_KEPT, tmp_path)
    file = tmp_path / notes_file("designs", "other")
    file.parent.mkdir(parents=True)
    file.write_text("wins = 'x'\ncosts = 'y'\ninstead = 'it guesses'\n")
    assert " Busy-polls: it guesses. " in entries.design_page(other, NOTHING_KEPT, tmp_path)
    assert {entries.waits_of(each) for each in catalogue()["designs"]} == {
        "in the call", "for readiness", "for completion", "busy-polls",
    }  # fmt: skip


def test_copies_in_notes_match_the_catalogue() -> None:
    """An entry that asks the kernel not to copy has a path without a copy. Another entry has no such path
    from or into the program's memory."""
    for entry in catalogue()["primitives"]:
        notes = read_notes("primitives", entry["name"], PrimitiveNotes)
        assert notes is not None
        copies = [journey.copies for journey in notes.paths]
        of_memory = [
            journey.copies for journey in notes.paths if "program" in (journey.begins, journey.steps[-1].to)
        ]
        if entry["completes"] or entry["lends"] or not entry["stores"]:
            assert min(copies) == 0, entry["name"]
        else:
            assert of_memory and min(of_memory) >= 1, entry["name"]
        if entry["completes"]:
            # What loops back is copied after all (Linux, Documentation/networking/msg_zerocopy.rst).
            looped = [journey for journey in notes.paths if "loopback" in journey.of]
            assert [journey.copies for journey in looped] == [1], entry["name"]
        ends = {journey.steps[-1].to for journey in notes.paths}
        assert ends <= ({"card", "peer_queue"} if entry["moves"] == "out" else {"program", "nothing"})


def test_a_page_without_notes_and_without_records_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "engine").symlink_to(ROOT / "engine")
    pages = entries.documents(catalogue(), NOTHING_KEPT, tmp_path)
    page = pages[Path("docs/generated/designs/epoll.md")]
    assert page.count("`docs/entries/designs/epoll.toml` (docs/extending/design.md)") == 2
    assert page.count(NOT_RECORDED) == 2
    assert "fn serve(run: &'static Run)" in page
    assert "docs/entries/primitives/splice.toml" in pages[Path("docs/generated/primitives/splice.md")]
    assert Path("docs/generated/primitives/splice.svg") not in pages


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("wins = 3\ncosts = 'x'\n", "wins"),
        ("wins = 'x'\n", "costs"),
        ("wins = 'x'\ncosts = 'y'\nbesides = []\n", "besides"),
        ("wins = \n", "line 1"),
    ],
)
def test_invalid_notes_are_refused_with_their_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / notes_file("designs", "epoll")
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(UserError, match=said) as raised:
        read_notes("designs", "epoll", DesignNotes, tmp_path)
    assert str(file) in str(raised.value)


def test_a_page_has_code_without_imports_and_tests() -> None:
    code = entries.code_of(ROOT / "engine/src/primitives/uring_send_zc.rs")
    assert code.startswith("pub static ENTRY") and "#[cfg(test)]" not in code and "impl Sender" in code


def test_every_design_and_primitive_is_in_a_study_that_records_keep() -> None:
    """Pages rest on records: what is in no study of a source is in one of these."""
    plans = {
        name: load_study(str(ROOT / file), "quick", [], Catalogue.model_validate(catalogue())).contenders
        for name, file in make_records.EVERY_ENTRY.items()
    }
    assert {each.design for each in plans["every-design"]} == {
        each["name"] for each in catalogue()["designs"]
    }
    moved = {name for each in plans["every-primitive"] for name in (each.primitive, each.receive)}
    assert moved == {each["name"] for each in catalogue()["primitives"]}


def test_no_record_compares_cpu_time_of_a_busy_polling_server() -> None:
    told = Catalogue.model_validate(catalogue())
    study = load_study(str(ROOT / make_records.EVERY_ENTRY["every-design"]), "quick", [], told)
    awake = {each.name for each in study.contenders if each.spins}
    assert awake and not study.load.is_timed
    assert [pair for pair in study.comparisons if awake & {pair.a, pair.b}] == []
    page = (ROOT / "docs/generated/designs/polling.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| `polling` | - | - | - | ")]
    assert "busy-polls" in row
    assert "`polling`" not in (ROOT / "docs/generated/designs/prefork.md").read_text()


def test_page_lists_required_features() -> None:
    """A name of a feature may have a comma."""
    page = (ROOT / "docs/generated/primitives/zerocopy.md").read_text()
    assert " sendmsg(2); sendmsg(2), MSG\\_ZEROCOPY (Linux 4.14)." in page


# Drawings ---------------------------------------------------------------------------------------------------


def journey(*steps: tuple[Any, Any, str], begins: Any = "program", of: str = "a message") -> Journey:
    return Journey(of=of, begins=begins, steps=tuple(Step(to=to, how=how, by=by) for to, how, by in steps))


def test_drawing_is_well_formed_and_describes_its_steps() -> None:
    drawn = journey(
        ("pipe", "copied", "write <now> & then"), ("send_queue", "by_reference", "splice"), of="a < b"
    )
    root = ElementTree.fromstring(drawing("<splice>", [drawn, drawn]))
    texts = [each.text or "" for each in root.iter()]
    assert [text for text in texts if text.startswith("<splice>: ")]
    assert [text for text in texts if text.startswith("a < b: one copy ")]
    description = next(each.text or "" for each in root.iter() if each.tag.endswith("desc"))
    assert description.count("(write <now> & then)") == 2
    steps = re.findall(r"(not copied|copied) to (pipe|send queue)", description)
    assert steps == [("copied", "pipe"), ("not copied", "send queue")] * 2
    arrows = [each for each in root.iter() if "arrow" in (each.get("class") or "").split()]
    assert [(each.get("class") or "").split()[1] for each in arrows] == ["copied", "kept"] * 2


def test_drawing_boxes_lie_within_the_image() -> None:
    for entry in catalogue()["primitives"]:
        root = ElementTree.parse(ROOT / "docs/generated/primitives" / f"{entry['name']}.svg").getroot()
        width, height = float(root.get("width", 0)), float(root.get("height", 0))
        for box in (each for each in root.iter() if each.get("class") == "box"):
            assert 0 <= float(box.get("x", -1)) <= width - float(box.get("width", 0))
            assert 0 <= float(box.get("y", -1)) <= height - float(box.get("height", 0))


def test_drawing_labels_do_not_cross_lines() -> None:
    """No label, at 7 pixels a character as in usual fonts of 12 pixels, crosses the border of two lanes, the
    arrow next to it, or a box."""
    for entry in catalogue()["primitives"]:
        root = ElementTree.parse(ROOT / "docs/generated/primitives" / f"{entry['name']}.svg").getroot()
        parts = [(each, (each.get("class") or "").split()) for each in root.iter()]
        borders = [float(each.get("y1", 0)) for each, kinds in parts if kinds == ["rule"]]
        boxes = [
            [float(each.get(key, 0)) for key in ("x", "y", "width", "height")]
            for each, kinds in parts
            if kinds == ["box"]
        ]
        turns = [
            [float(number) for number in re.findall(r"-?[0-9.]+", each.get("d", ""))]
            for each, kinds in parts
            if "arrow" in kinds
        ]
        labels = [each for each, kinds in parts if each.tag.endswith("text") and kinds[:1] in COLOURED]
        assert labels
        for each in labels:
            text, x, y = each.text or "", float(each.get("x", 0)), float(each.get("y", 0))
            left, right, top, bottom = x - 3.5 * len(text), x + 3.5 * len(text), y - 10, y + 3
            where = (entry["name"], text)
            assert not any(top < border < bottom for border in borders), where
            assert not any(
                left < box[0] + box[2] and box[0] < right and top < box[1] + box[3] and box[1] < bottom
                for box in boxes
            ), where
            assert not any(
                left < begin < right and min(y0, y1) < bottom and top < max(y0, y1)
                for begin, y0, y1, _ in turns
            ), where


def test_words_of_discarded_bytes_name_no_destination() -> None:
    told = in_words(
        journey(("receive_queue", "dma", "the card"), ("nothing", "discarded", "recv"), begins="card")
    )
    assert told.endswith("then discarded (recv).")


# The reference ----------------------------------------------------------------------------------------------


def test_the_reference_has_every_command_setting_and_metric() -> None:
    pages = {path.stem: text for path, text in reference.documents(catalogue()).items()}
    for command in app.registered_commands:
        name = command.name or getattr(command.callback, "__name__", "").replace("_", "-")
        assert f"## thunderherd {name}\n" in pages["commands"]
    assert all(f"| `{name}` |" in pages["metrics"] for name in METRICS)
    told = catalogue()
    for kind in ("server_settings", "load_settings", "limit_settings"):
        assert all(f"| `{each['name']}` |" in pages["settings"] for each in told[kind])
    for kind, keys in (("workloads", ("service_settings", "client_settings")), ("loads", ("settings",))):
        for entry in told[kind]:
            part = pages[kind].partition(f"## {entry['name']}\n")[2].partition("\n## ")[0]
            assert all(f"| `{each['name']}` |" in part for key in keys for each in entry[key]), entry["name"]
    assert all(f"| `{each['name']}` |" in pages["counters"] for each in told["counters"])
    assert all(f"| `{each['name']}` |" in pages["limits"] for each in told["limits"])


# Markdown and links -----------------------------------------------------------------------------------------


def test_parts_of_a_page() -> None:
    assert table(["a"], [["b|c\nd"]]) == "| a |\n|---|\n| b\\|c d |"
    assert plain("a_b `c_d` <e>") == "a\\_b `c_d` \\<e\\>"
    assert plain("a ` b_c") == "a \\` b\\_c"
    assert fenced("text", "```\nx") == "````text\n```\nx\n````"
    assert between("<!-- a -->\nold\n<!-- end of a -->\nrest", "a", "new") == (
        "<!-- a -->\nnew\n<!-- end of a -->\nrest"
    )
    for wrong in ("no marks", "<!-- end of a -->\n<!-- a -->\n", "<!-- a -->\n<!-- a -->\n<!-- end of a -->"):
        with pytest.raises(ValueError, match="<!-- a -->"):
            between(wrong, "a", "new")


def test_repository_has_no_broken_link() -> None:
    assert links.faults() == []


@pytest.mark.parametrize(
    ("link", "why"),
    [
        ("docs/other.md", None),
        ("docs/other.md#two-words-and_one", None),
        ("docs/other.md#two-words-and_one-1", None),
        ("#here", None),
        ("https://example.org/x", None),
        ("docs", None),
        ("docs/none.md", "docs/none.md"),
        ("docs/other.md#three", "#three"),
        ("../outside.md", "../outside.md"),
        ("http://example.org", "https"),
    ],
)
def test_links(tmp_path: Path, link: str, why: str | None) -> None:
    root = tmp_path / "repository"
    (root / "docs").mkdir(parents=True)
    (tmp_path / "outside.md").write_text("x")
    (root / "docs/other.md").write_text(
        "# Two words, `and_one`\n\n# Two words and_one\n\n```\n[x](none)\n```\n"
    )
    (root / "README.md").write_text(f"# Here\n\n[a link]({link})\n")
    found = links.faults(root)
    assert len(found) == (why is not None)
    assert why is None or (why in found[0] and found[0].startswith("README.md: "))


def test_site_has_no_broken_link(tmp_path: Path) -> None:
    built = site.build(tmp_path / "site")
    pages = sorted((tmp_path / "site").rglob("*.html"))
    assert len(pages) == built + 1 == len(links.pages()) + 1
    for page in pages:
        text = page.read_text()
        assert "<script" not in text
        for target in re.findall(r'(?:href|src)="([^"]+)"', text):
            if target.startswith("https://"):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            assert file.is_file(), (page, target)
            assert not anchor or f'id="{anchor}"' in file.read_text(), (page, target)


def test_pages_of_the_demo_have_its_current_output() -> None:
    shown = demo.documents(kept_studies())
    assert set(shown) == set(demo.PAGES)
    for path, text in shown.items():
        assert text == (ROOT / path).read_text(encoding="utf-8"), f"{path} is not current; type `make docs`"
        assert "fork_per_client" in text.partition("<!-- demo -->")[2].partition("<!-- end of demo -->")[0]


# System calls -----------------------------------------------------------------------------------------------


def test_system_calls_are_counted_for_one_request() -> None:
    if not shutil.which("strace"):
        pytest.skip("no strace")
    told = catalogue()
    entry = next(each for each in told["designs"] if each["name"] == "prefork_file_lock")
    found = strace_counts.entry_counts(entry, strace_counts.of_design(entry))
    assert found["calls"]["accept4"] == found["calls"]["sendto"] == found["calls"]["close"] == 1
    assert found["calls"]["fcntl"] == 2
    assert not {"execve", "clone"} & set(found["calls"])


def test_unavailable_entry_has_its_reason() -> None:
    entry = {"name": "x", "settings": [], "available": False, "reason": "no ring"}
    found = strace_counts.entry_counts(entry, strace_counts.of_design(entry))
    assert found["absent"] == "no ring" and "calls" not in found
