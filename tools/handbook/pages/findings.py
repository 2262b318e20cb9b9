"""The page docs/findings.md: every claim of the sources with the source's figure, ours, the verdict, and why.

Figures and verdicts are those of the newest record of each source that decided its claims
(`thunderherd claims STUDY --decide`). docs/entries/findings.toml has a sentence for each claim that a record
contradicts, and for others that need one. The claims file of a study says how each claim is read.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from handbook.markdown import ROOT, made_from, page, plain, table
from handbook.pages.recorded_figures import link
from handbook.records.kept import Kept, KeptClaim, KeptFigures, earlier_studies
from thunderherd.errors import UserError
from thunderherd.text.figures import ABSENT, count, listed

DOCUMENT = Path("docs/findings.md")
REASONS = Path("docs/entries/findings.toml")
SOURCES = ("unp-ch30", "cse232-a2", "cse638-pa02", "css503-p4", "erss-hw4")
VERDICTS = ("supported", "refuted", "no difference that matters", "undecided", "not testable here")
CONTRADICTED = ("refuted", "no difference that matters")
"""The verdicts that contradict a source, each of which has a sentence."""
DECIDED = ("supported", *CONTRADICTED)
STUDIES = Path("lab/thunderherd/studies")
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
    parts = [
        _source(name, each, reasons.get(name, {}), readings_of(name, root), _others(each, root))
        for name, each in found.items()
    ]
    made = made_from("records", str(REASONS))
    return {DOCUMENT: page("# Findings", made, ABOUT, _totals(found), *parts)}


def reasons_of(path: Path, recorded: Mapping[str, Kept]) -> dict[str, dict[str, str]]:
    """Read the sentences by study and claim.

    Raises UserError if a contradicted claim of a record has none, or if there is one for an unknown claim.
    """
    reasons: dict[str, dict[str, str]] = tomllib.loads(path.read_text(encoding="utf-8"))
    for name, each in recorded.items():
        contradicted = {claim.id for claim in each.figures.claims if claim.verdict in CONTRADICTED}
        given = set(reasons.get(name, {}))
        unknown = sorted(given - {claim.id for claim in each.figures.claims})
        if (missing := sorted(contradicted - given)) or unknown:
            what, names = ("no sentence for", missing) if missing else ("unknown claims:", unknown)
            wrong = f"{what} {', '.join(names)}"
            raise UserError(
                f"{name}: {wrong}",
                code="findings.reasons",
                hint="it explains why the record contradicts the source",
                where=str(path),
            )
    return reasons


def readings_of(name: str, root: Path) -> dict[str, str]:
    """Return how the claims of a study are read, by id, as its claims file says."""
    file = root / STUDIES / name.replace("-", "_") / "claims.toml"
    if not file.exists():
        return {}
    claims = tomllib.loads(file.read_text(encoding="utf-8"))["claims"]
    return {each["id"]: each["reading"] for each in claims if each.get("reading")}


def _others(newest: Kept | None, root: Path) -> list[Kept]:
    """Return the earlier records that decided the same claims."""
    if newest is None:
        return []
    earlier = [each for each in earlier_studies(root) if each.figures.study == newest.figures.study]
    return [each for each in earlier if each.figures.decides_claims]


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


def _source(
    name: str,
    kept: Kept | None,
    reasons: Mapping[str, str],
    readings: Mapping[str, str],
    others: Sequence[Kept],
) -> str:
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
            _claim(each, readings.get(each.id)),
            plain(each.paper or ABSENT),
            _ours(each),
            f"**{each.verdict}**",
            _why(each, reasons.get(each.id)),
        ]
        for each in figures.claims
    ]
    about += "".join(f" {_compared(kept, each)}" for each in others)
    return page(f"## {name}", about, table(["", "claim", "source's figure", "ours", "verdict", "why"], rows))


def _claim(claim: KeptClaim, reading: str | None) -> str:
    return plain(claim.statement) + (f"<br>read as: {plain(reading.strip())}" if reading else "")


def _compared(newest: Kept, other: Kept) -> str:
    """Say which verdicts of another run differ from these."""
    verdicts = {each.id: each.verdict for each in newest.figures.claims}
    theirs = {each.id: each.verdict for each in other.figures.claims if each.id in verdicts}
    differ = {each: verdict for each, verdict in theirs.items() if verdict != verdicts[each]}
    against = [
        f"{each} ({verdict})"
        for each, verdict in differ.items()
        if verdict in DECIDED and verdicts[each] in DECIDED
    ]
    others = [f"{each} ({verdict})" for each, verdict in differ.items()]
    others = [each for each in others if each not in against]
    run = f"[another run]({link(other.folder / 'README.md', DOCUMENT)})"
    said = f"Of {run}, on {other.date} with seed {other.figures.seed}, {len(theirs) - len(differ)} of "
    said += f"{len(theirs)} verdicts are the same"
    if others:
        said += f"; different: {listed(others)}"
    return f"{said}; {'contradicting: ' + listed(against) if against else 'none contradicts these'}."


def _noise(figures: KeptFigures) -> str:
    """Write how quiet the machine was; nothing for an older record."""
    if figures.foreign_share is None or figures.rejected_blocks is None or figures.noisy_blocks is None:
        return ""
    used = f"Other programs used {100 * figures.foreign_share:.1f} % of the CPU time (median)"
    rejected = count(figures.rejected_blocks, "further block was", "further blocks were")
    kept = count(figures.noisy_blocks, "noisy block counts", "noisy blocks count")
    repeated = count(figures.repeated_trials or 0, "noisy trial was", "noisy trials were")
    again = f" {repeated} repeated." if figures.repeated_trials else ""
    return f" {used}.{again} {rejected} rejected for noise; {kept}."


def _why(claim: KeptClaim, reason: str | None) -> str:
    """Write the sentence about a claim, and how the blocks judge it, unless they refute it."""
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
