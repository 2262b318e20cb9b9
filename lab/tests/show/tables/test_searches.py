"""The tables of a search for knees."""

from __future__ import annotations

from thunderherd.records.knee import DesignKnee, KneePoint, KneeSummary
from thunderherd.show.tables.searches import curve_table, knees_table
from thunderherd.text.figures import ABSENT

FOUND = DesignKnee(
    name="epoll", outcome="one", rate=2345.0, low=2000.0, high=None, confidence=0.96, blocks=8,
    between_rates=0, left_out={8000: "the load was late"}, why=None,
    points=[
        KneePoint(rate=1000, latency_seconds=0.0005, low=0.0004, high=0.0006, trials=8, overloaded=0),
        KneePoint(rate=2500, latency_seconds=None, low=None, high=None, trials=8, overloaded=6,
                  stage="confirmation"),
    ],
)  # fmt: skip
NONE = FOUND.model_copy(update={"name": "weak", "outcome": "none", "rate": None, "low": None, "left_out": {}})
LOST = FOUND.model_copy(update={"name": "lost", "outcome": None, "rate": None, "low": None})


def summary(*designs: DesignKnee) -> KneeSummary:
    return KneeSummary(
        workload="bytes", metric="latency_p99_seconds", goal_seconds=0.002, alpha=0.05,
        equivalence_percent=3, seed=1, command=[], capacities=None, notes=[], pairs=[],
        designs=list(designs),
    )  # fmt: skip


def test_each_design_has_its_knee_or_the_reason() -> None:
    epoll, weak, lost = knees_table(summary(FOUND, NONE, LOST)).rows
    assert (epoll.cells[0].value, epoll.cells[1].value) == ("epoll", "2,340")
    assert "2,000" in epoll.cells[1].span
    assert weak.cells[1].value != lost.cells[1].value
    assert lost.cells[1].span == ""


def test_a_curve_has_all_rates() -> None:
    table = curve_table(summary(FOUND), FOUND)
    first, second, left_out = table.rows
    assert [cell.value for cell in first.cells[:3]] == ["1,000", "500 µs", "8 of 8"]
    assert "400 µs" in first.cells[1].span and "600 µs" in first.cells[1].span
    assert [cell.value for cell in second.cells[:3]] == ["2,500", ABSENT, "2 of 8"]
    assert second.cells[3].value and second.cells[1].span == ""
    assert left_out.cells[0].value == "8,000" and "left out" in left_out.cells[3].value
    plain = FOUND.model_copy(update={"points": FOUND.points[:1], "left_out": {}})
    assert len(curve_table(summary(plain), plain).columns) == 3
