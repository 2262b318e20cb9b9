"""The page of findings: claims of records, and a sentence for each that a record contradicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from made.refusals import refused

from handbook.pages import findings
from handbook.records.kept import FIGURES, FOLDER, Kept, KeptClaim, kept_studies


def claim(name: str, verdict: str, needed: int | None = None) -> KeptClaim:
    return KeptClaim(
        id=name,
        statement=f"statement of {name}",
        paper="1 vs 2",
        ours="1.5 (1.4 to 1.6)",
        verdict=verdict,
        why=f"why of {name}",
        blocks_needed=needed,
        decided_at=None if needed else 32,
    )


@pytest.fixture
def decided() -> Kept:
    """A record of unp-ch30 that has decided three claims."""
    kept = next(each for each in kept_studies() if each.figures.study == "unp-ch30")
    claims = (claim("H1", "supported"), claim("H2", "refuted"), claim("H3", "undecided", 200))
    noise = {"foreign_share": 0.021, "rejected_blocks": 7, "noisy_blocks": 1}
    changed = {"decides_claims": True, "claims": claims, **noise}
    return Kept(kept.folder, kept.figures.model_copy(update=changed))


def reasons(root: Path, text: str) -> Path:
    path = root / findings.REASONS
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return root


def test_each_claim_is_a_row_with_its_verdict_and_why(decided: Kept, tmp_path: Path) -> None:
    root = reasons(tmp_path, '[unp-ch30]\nH1 = "Only here."\nH2 = "Linux wakes one child."\n')
    claims = root / findings.STUDIES / "unp_ch30" / "claims.toml"
    claims.parent.mkdir(parents=True)
    claims.write_text('[[claims]]\nid = "H3"\nreading = "above 2"\n[[claims]]\nid = "H1"\n', encoding="utf-8")
    text = findings.documents([decided], root)[findings.DOCUMENT]
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("| ")}
    assert "**supported**" in rows["H1"] and rows["H1"].endswith("| Only here.<br>why of H1 |")
    assert "read as" not in rows["H1"] and "statement of H3<br>read as: above 2 |" in rows["H3"]
    assert "**refuted**" in rows["H2"] and rows["H2"].endswith("Linux wakes one child. |")
    assert rows["H3"].endswith("| **undecided** | why of H3 |")
    assert rows["all"] == "| all | 1 | 1 | 0 | 1 | 0 |"
    assert "2.1 %" in text and "7 further blocks" in text and "1 noisy block counts" in text
    assert "claims erss-hw4 --decide` has been recorded" in text


@pytest.mark.parametrize(
    ("given", "wrong"),
    [("", "no sentence for H2"), ('[unp-ch30]\nH2 = "x"\nH9 = "y"\n', "unknown claims: H9")],
)
def test_a_sentence_belongs_to_each_refuted_claim_and_to_no_unknown_one(
    decided: Kept, tmp_path: Path, given: str, wrong: str
) -> None:
    root = reasons(tmp_path, given)
    (problem,) = refused(findings.documents, [decided], root)
    assert problem.code == "findings.reasons"
    assert problem.message == f"unp-ch30: {wrong}"


def test_another_run_of_the_same_claims_is_compared(decided: Kept, tmp_path: Path) -> None:
    root = reasons(tmp_path, '[unp-ch30]\nH2 = "Linux wakes one child."\n')
    theirs = {"H1": "refuted", "H2": "refuted", "H3": "supported"}
    other = decided.figures.model_copy(
        update={"seed": 5, "claims": tuple(claim(*each) for each in theirs.items())}
    )
    for date, figures in (("2026-01-02", other), ("2026-01-03", decided.figures)):
        folder = root / FOLDER / date / "unp-ch30"
        folder.mkdir(parents=True)
        (folder / FIGURES).write_text(figures.model_dump_json(), encoding="utf-8")
    text = findings.documents(kept_studies(root), root)[findings.DOCUMENT]
    assert "on 2026-01-02 with seed 5, 1 of 3 verdicts are the same; different: H3 (supported); " in text
    assert "contradicting: H1 (refuted)." in text


def test_without_a_record_of_claims_there_is_no_page() -> None:
    undecided = [each for each in kept_studies() if not each.figures.decides_claims]
    assert undecided and findings.documents(undecided) == {}
