"""The verdict of a gate for programs: Markdown for a pull request, JUnit XML, and GitHub's annotations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from thunderherd.gate.page import facts, gate_table
from thunderherd.gate.verdict import SLOWER, UNDECIDED, GateResult
from thunderherd.records.summary import Summary
from thunderherd.show.tables.formats import markdown_line, markdown_table, markdown_text

__all__ = ["as_junit", "as_markdown", "tell_github"]

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""The variable with the file of GitHub's step summary."""
ACTIONS = "GITHUB_ACTIONS"
"""The variable that is "true" in a workflow of GitHub."""


def as_markdown(found: GateResult, summary: Summary) -> str:
    """Return the sentence, the table and the notes as Markdown."""
    table = gate_table(found, summary)
    lines = [f"**{markdown_text(found.sentence)}**", "", markdown_table(table), ""]
    lines += [f"- {markdown_line(note)}" for note in table.notes]
    lines += [f"- {markdown_line(f'{head}: {text}')}" for head, text in facts(found)]
    return "\n".join(lines) + "\n"


def as_junit(found: GateResult) -> bytes:
    """Return JUnit XML with a test for each metric: failed if head is slower, skipped if undecided."""
    verdicts = [each.verdict for each in found.rows]
    suite = ElementTree.Element(
        "testsuite",
        name="thunderherd gate",
        tests=str(len(verdicts)),
        failures=str(verdicts.count(SLOWER)),
        errors="0",
        skipped=str(verdicts.count(UNDECIDED)),
        time=f"{found.seconds:.3f}",
    )
    for each in found.rows:
        place = f"{each.metric} {each.sweep}={each.point}" if each.sweep else each.metric
        case = ElementTree.SubElement(suite, "testcase", classname="gate", name=place)
        if each.verdict == SLOWER:
            ElementTree.SubElement(case, "failure", message=found.sentence).text = each.why
        elif each.verdict == UNDECIDED:
            ElementTree.SubElement(case, "skipped", message=each.why)
    ElementTree.indent(suite)
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def tell_github(found: GateResult, summary: Summary, environment: Mapping[str, str]) -> list[str]:
    """Append to GitHub's step summary if its variable is set, and return annotations, a line each."""
    if path := environment.get(STEP_SUMMARY):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(as_markdown(found, summary))
    if environment.get(ACTIONS) != "true":
        return []
    kind = {SLOWER: "error", UNDECIDED: "warning"}.get(found.verdict, "notice")
    text = found.sentence.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return [f"::{kind} title=thunderherd gate::{text}"]
