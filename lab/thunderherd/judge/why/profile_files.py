"""The files of a run's profiles: folded stacks, flame graphs, and differential flame graphs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from thunderherd.engine.client import EngineError, flame_graph
from thunderherd.errors import UserError
from thunderherd.files import make_folder, temporary_folder, write_text
from thunderherd.judge.why.pairs import place_of
from thunderherd.judge.why.profiles import (
    contender_profile,
    differential_pairs,
    folded_of,
    nanoseconds_a_sample,
    requests_of,
    sampled,
)
from thunderherd.metrics.table import Side
from thunderherd.records.extra_trials import (
    ContenderProfile,
    DifferentialProfile,
    ProfilingSummary,
    SideProfile,
)
from thunderherd.records.profiled_trial import ProfiledTrial
from thunderherd.records.summary import Summary
from thunderherd.stacks.call_stacks import as_lines, scaled
from thunderherd.study.loading import Study
from thunderherd.text.figures import count

FOLDER = "profiles"
LONGEST_NAME = 80
WHOSE: dict[Side, str] = {"server": "server", "client": "clients"}

PARTS_OF_A_MILLION = 1_000_000


def file_name(contender: str) -> str:
    """Return a contender's name as a file name: as it is if possible, else with a hash."""
    plain = re.sub(r"[^A-Za-z0-9_.+=@,-]", "_", contender).lstrip(".-")[:LONGEST_NAME]
    # Names of these forms belong to the files of clients and of pairs.
    if plain and plain == contender and not (plain.endswith(".clients") or "-against-" in plain):
        return plain
    return f"{plain or '_'}-{hashlib.sha256(contender.encode()).hexdigest()[:8]}"


def profiling_summary(
    study: Study, summary: Summary, trials: Sequence[ProfiledTrial], directory: Path, engine: Path
) -> tuple[ProfilingSummary | None, list[str]]:
    """Return what a run's profiled trials show, with its files written, and what could not be drawn.

    The summary is None if the study requests no profiles.
    """
    table = study.profiling
    if not table.is_asked_for:
        return None, []
    reasons: dict[str, list[str]] = {}
    make_folder(directory / FOLDER)
    for stale in (directory / FOLDER).glob("*.svg"):
        # These may be of fewer trials, if the run was interrupted and resumed.
        stale.unlink()
    found = []
    for name in table.contenders:
        of_one = [each for each in trials if each.contender == name]
        profile = contender_profile(name, of_one, f"{FOLDER}/{file_name(name)}")
        sides = {side: _written(profile, side, of_one, directory, engine, reasons) for side in profile.sides}
        found.append(profile.model_copy(update={"sides": sides}))
    profiles = ProfilingSummary(trials=table.trials, frequency_hertz=table.frequency, contenders=found)
    summary = summary.model_copy(update={"profiles": profiles})
    ordered = sorted(summary.contenders, key=place_of)
    pairs = differential_pairs(ordered, sampled(summary), summary.study.baseline)
    drawn = []
    # Both ways round: functions that only the other contender calls have no width.
    for a, b in chain.from_iterable(((a, b), (b, a)) for a, b in pairs):
        try:
            drawn.append(differential(trials, a, b, directory, engine))
        except (EngineError, UserError) as error:
            reasons.setdefault(str(error), []).append(f"{a} against {b}")
    notes = [f"no flame graph of {', '.join(whose)}: {why}" for why, whose in reasons.items()]
    return profiles.model_copy(update={"differentials": drawn}), notes


def _written(
    profile: ContenderProfile,
    side: Side,
    trials: Sequence[ProfiledTrial],
    directory: Path,
    engine: Path,
    reasons: dict[str, list[str]],
) -> SideProfile:
    """Write the files of a side, and return it with their names."""
    found, stacks = profile.sides[side], folded_of(trials, side)
    file = directory / found.folded
    write_text(file, as_lines(stacks))
    output = file.with_suffix(".svg")
    if not found.samples:
        return found
    try:
        flame_graph(
            file,
            output,
            title=f"{profile.contender}, {WHOSE[side]}",
            subtitle=f"{count(found.samples, 'sample')} by {found.event}, {found.frequency_hertz} Hz",
            unit="samples",
            engine=engine,
        )
    except (EngineError, UserError) as error:
        reasons.setdefault(str(error), []).append(f"the {WHOSE[side]} of {profile.contender}")
        return found
    return found.model_copy(update={"flame_graph": str(output.relative_to(directory))})


def differential_file(a: str, b: str) -> str:
    """Return the path of the differential flame graph of a against b in a run's directory."""
    return f"{FOLDER}/{file_name(a)}-against-{file_name(b)}.svg"


def differential(
    trials: Sequence[ProfiledTrial],
    a: str,
    b: str,
    directory: Path,
    engine: Path | None = None,
    side: Side = "server",
) -> DifferentialProfile:
    """Draw in which functions a spends more time than b, and in which less.

    Raises `EngineError` if it cannot be drawn, and `UserError` if there is nothing to draw.
    """
    stacks, per_sample, unit = {}, {}, "ns of CPU per request"
    for name in (a, b):
        of_one = [each for each in trials if each.contender == name and each.valid]
        stacks[name] = folded_of(of_one, side, calls=True)
        if not stacks[name]:
            raise UserError(f"{name} has no sample of its {WHOSE[side]}", code="profile.no_samples")
        requests = sum(map(requests_of, of_one))
        per_sample[name] = nanoseconds_a_sample(of_one, side) / requests if requests else 0.0
    if not all(per_sample.values()):
        unit = "parts of a million samples"
        per_sample = {name: PARTS_OF_A_MILLION / sum(stacks[name].values()) for name in (a, b)}
    file = differential_file(a, b)
    with temporary_folder() as folder:
        parts = {name: folder / f"{place}.folded" for place, name in enumerate((a, b))}
        for name, part in parts.items():
            part.write_text(as_lines(scaled(stacks[name], per_sample[name])), encoding="utf-8")
        make_folder(directory / FOLDER)
        flame_graph(
            parts[a],
            directory / file,
            title=f"{a} against {b}, {WHOSE[side]}",
            subtitle=f"Widths: {unit} of {a}; red: more than {b}, blue: less",
            unit=unit,
            before=parts[b],
            engine=engine,
        )
    return DifferentialProfile(a=a, b=b, side=side, unit=unit, flame_graph=file)
