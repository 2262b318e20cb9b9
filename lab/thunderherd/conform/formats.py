"""The verdicts of all cases for programs: JSON, and JUnit XML."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from thunderherd.conform.server import Subject
from thunderherd.conform.verdicts import Conformance

__all__ = ["as_json", "as_junit", "as_junit_error"]

SCHEMA = 1
"""The version of the JSON of a conformance."""


def as_json(found: Conformance) -> dict[str, Any]:
    """Return the verdicts for programs."""
    return {
        "schema": SCHEMA,
        "server": found.subject.typed,
        "workload": found.subject.workload,
        "seed": found.seed,
        "failed": [each.number for each in found.failed],
        "cases": [
            {
                **each.model_dump(exclude={"line", "schema_version"}),
                "replay": found.replay(each),
            }
            for each in found.cases
        ],
    }


def as_junit(found: Conformance) -> bytes:
    """Return the verdicts as JUnit XML, which CI systems read."""
    skipped = found.of("not_judged")
    suite = ElementTree.Element(
        "testsuite",
        name=f"thunderherd conform {found.subject.typed}",
        tests=str(len(found.cases)),
        failures=str(len(found.failed)),
        errors="0",
        skipped=str(len(skipped)),
        time=f"{sum(each.elapsed_ns for each in found.cases) / 1e9:.3f}",
    )
    for each in found.cases:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            classname=f"conform.{found.subject.workload}",
            name=f"{each.number} {each.name}",
            time=f"{each.elapsed_ns / 1e9:.3f}",
        )
        text = f"{each.rule}\nexpected: {each.expected}\nactual: {each.actual}\nreplay: {found.replay(each)}"
        if each.verdict == "failed":
            ElementTree.SubElement(case, "failure", message=f"actual: {each.actual}").text = text
        elif each.verdict == "not_judged":
            ElementTree.SubElement(case, "skipped", message=each.actual or "")
        elif each.verdict == "warned":
            ElementTree.SubElement(case, "system-out").text = f"warning: {text}"
    ElementTree.indent(suite)
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))


def as_junit_error(server: Subject, reason: str) -> bytes:
    """Return JUnit XML of a server that does not start: one test, which ends in an error."""
    suite = ElementTree.Element(
        "testsuite",
        name=f"thunderherd conform {server.typed}",
        tests="1",
        failures="0",
        errors="1",
        skipped="0",
        time="0",
    )
    case = ElementTree.SubElement(suite, "testcase", classname=f"conform.{server.workload}", name="start")
    ElementTree.SubElement(case, "error", message=reason.partition("\n")[0]).text = reason
    ElementTree.indent(suite)
    return bytes(ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True))
