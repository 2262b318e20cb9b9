"""The page docs/findings.md: every claim of the sources with the source's figure, ours, the verdict, and why.

Figures and verdicts are those of the newest record of each source that decided its claims
(`thunderherd claims STUDY --decide`). docs/entries/findings.toml has a sentence for each claim that a record
contradicts.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from handbook.markdown import ROOT, made_from, page, plain, table
from handbook.pages.recorded_figures import link
from handbook.records.kept import Kept, KeptClaim, KeptFigures
from thunderherd.errors import UserError
from thunderherd.text.figures import ABSENT, count

DOCUMENT = Path("docs/findings.md")
REASONS = Path("docs/entries/findings.toml")
SOURCES = ("unp-ch30", "cse232-a2", "cse638-pa02", "css503-p4", "erss-hw4")
VERDICTS = ("supported", "refuted", "no difference that matters", "undecided", "not testable here")
CONTRADICTED = ("refuted", "no difference that matters")
"""The verdicts that contradict a source, each of which has a sentence."""
INTERVALS = re.compile(r"(; )?in brackets [\d.]+ % intervals")
"""What the page's head says of all figures."""
REMARK = re.compile(r" \[(.*?)\]")

ABOUT = """\
The five sources make 70 claims about servers and sockets. This page compares each with a recorded run of
`thunderherd claims NAME --decide`, which ends when every claim has a verdict, at its last look, or when its
time is up. [Verdicts](methodology/verdicts.md) explains how a claim is judged.

- **Supported**: the run shows every difference that the claim needs.
- **Refuted**: the run shows the opposite of one of them.
- **No difference that matters**: a difference that the claim needs lies within the margin that the claim
  states.
- **Undecided**: more blocks are needed. Their expected number follows from the spread of the run's blocks.
- **Not testable here**: the machine lacks what the claim is about, such as four CPUs or hardware counters.

Verdicts are corrected (Holm) for all claims of a source. Brackets hold each figure's own 95 % interval.
Figures that come from a smaller time scale than the source's say so."""


def documents(kept: Sequence[Kept], root: Path = ROOT) -> dict[Path, str]:
    """Return the page; without any record of claims, none."""
    found = {
        name: next(
            (each for each in kept if each.figures.study == name and each.figures.decides_claims), None
        )
        for name in SOURCES
    }
    recorded = {name: each for name, each in found.items() if each is not None}
    if not recorded:
        return {}
    reasons = reasons_of(root / REASONS, recorded)
    parts = [_source(name, each, reasons.get(name, {})) for name, each in found.items()]
    made = made_from("records", str(REASONS))
    return {DOCUMENT: page("# Findings", made, ABOUT, _totals(found), *parts)}


def reasons_of(path: Path, recorded: Mapping[str, Kept]) -> dict[str, dict[str, str]]:
    """Read the sentences by study and claim.

    Raises UserError if a contradicted claim of a record has none, or if there is one for another claim.
    """
    reasons: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, each in recorded.items():
        contradicted = {claim.id for claim in each.figures.claims if claim.verdict in CONTRADICTED}
        given = set(reasons.get(name, {}))
        missing, needless = sorted(contradicted - given), sorted(given - contradicted)
        if missing or needless:
            what, names = ("no sentence for", missing) if missing else ("not contradicted:", needless)
            wrong = f"{what} {', '.join(names)}"
            raise UserError(
                f"{name}: {wrong}",
                code="findings.reasons",
                hint="it explains why the record contradicts the source",
                where=str(path),
            )
    return reasons


def _totals(found: Mapping[str, Kept | None]) -> str:
    rows = []
    counts: Counter[str] = Counter()
    for name, each in found.items():
        if each is None:
            continue
        verdicts = Counter(claim.verdict for claim in each.figures.claims)
        counts += verdicts
        rows.append([f"[{name}](#{name})", *(str(verdicts[verdict]) for verdict in VERDICTS)])
    rows.append(["all", *(str(counts[verdict]) for verdict in VERDICTS)])
    return table(["source", *VERDICTS], rows)


def _source(name: str, kept: Kept | None, reasons: Mapping[str, str]) -> str:
    if kept is None:
        return page(f"## {name}", f"No run of `thunderherd claims {name} --decide` has been recorded.")
    figures = kept.figures
    record = link(kept.folder / "README.md", DOCUMENT)
    about = (
        f"{plain(figures.title)}: [{figures.blocks} blocks]({record}) on {kept.date}, "
        f"{plain(figures.machine)}.{_noise(figures)}"
    )
    rows = [
        [
            each.id,
            plain(each.statement),
            plain(each.paper or ABSENT),
            _ours(each),
            f"**{each.verdict}**",
            _why(each, reasons.get(each.id)),
        ]
        for each in figures.claims
    ]
    return page(f"## {name}", about, table(["", "claim", "source's figure", "ours", "verdict", "why"], rows))


def _noise(figures: KeptFigures) -> str:
    """Write how quiet the machine was; nothing for an older record."""
    if figures.foreign_share is None or figures.rejected_blocks is None or figures.noisy_blocks is None:
        return ""
    used = f"Other programs used {100 * figures.foreign_share:.1f} % of the CPU time (median)"
    rejected = count(figures.rejected_blocks, "further block was", "further blocks were")
    kept = count(figures.noisy_blocks, "noisy block counts", "noisy blocks count")
    return f" {used}. {rejected} rejected for noise; {kept}."


def _why(claim: KeptClaim, reason: str | None) -> str:
    """Write the sentence about a contradiction, and the margin of a difference that does not matter."""
    parts = [reason] if claim.verdict == "refuted" else [reason, claim.why]
    return "<br>".join(plain(each) for each in parts if each)


def _ours(claim: KeptClaim) -> str:
    """Write one figure on a line, then the unit, then the remarks about all figures.

    A remark about some of them stays on their lines.
    """
    lines = INTERVALS.sub("", claim.ours).replace("()", "").splitlines()
    of_lines = [_remarks(line) for line in lines]
    figures = [remarks for line, remarks in zip(lines, of_lines, strict=True) if ":" in line]
    common = [each for each in (figures[0] if figures else []) if all(each in other for other in figures)]
    shown = []
    for line, remarks in zip(lines, of_lines, strict=True):
        own = "; ".join(each for each in remarks if each not in common)
        shown.append(REMARK.sub("", line) + (f" [{own}]" if own else ""))
    return "<br>".join(plain(line) for line in [*shown, *common] if line)


def _remarks(line: str) -> list[str]:
    return [each for found in REMARK.findall(line) for each in found.split("; ")]
