"""Compares loads whose results a user keeps in files: groups of loads, one load of each group to a block.

The groups differ in their target: another server, another host, another build. Everything else must be the
same, since a difference of settings would be taken for a difference of targets. Verdicts are those of a
comparison: `statistics.comparisons` at one look, over all pairs of groups and all metrics together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path

from thunderherd.engine.lines import LoadResult
from thunderherd.engine.merged_loads import load_lines
from thunderherd.errors import Problem, UserError
from thunderherd.judge.summary.pair_summaries import pair_summary
from thunderherd.metrics.table import PAYLOAD_RATE, better_of
from thunderherd.records.summary import PairSummary
from thunderherd.statistics.comparisons import compare_family, first_look_blocks
from thunderherd.statistics.estimates import Estimate
from thunderherd.statistics.samples import hodges_lehmann
from thunderherd.text.figures import count, listed, words_of

__all__ = ["VERSUS", "FileGroup", "JudgedLoads", "grouped", "judged_loads"]

VERSUS = "vs"
"""The word between two groups of files."""

ALPHA = 0.05
SEEDS = {"arrival_seed", "request_seed"}
"""Settings that may differ: other random numbers of the same distribution."""
KINDS = ("workload", "load", "primitive", "receive", "measured_by")
NUMBERED = re.compile(r"(?P<name>.*?)[-_. ]*(?P<number>\d+)")
MOST_DIFFERENCES = 3
"""The most settings that one refusal names; it counts the others."""


@dataclass(frozen=True)
class FileGroup:
    """The files of one target, in the order of their blocks."""

    name: str
    files: tuple[Path, ...]


@dataclass(frozen=True)
class JudgedLoads:
    """Groups of loads with their estimates, and the verdicts on all pairs.

    `blocks` is the number of loads of each group, `needed` the fewest that can give a verdict.
    """

    groups: tuple[FileGroup, ...]
    targets: dict[str, list[str]]
    """Group → the addresses of its loads."""
    workload: str
    load: str
    blocks: int
    needed: int
    metrics: tuple[str, ...]
    estimates: dict[str, dict[str, Estimate]]
    """Metric → group → estimate over the blocks."""
    pairs: tuple[PairSummary, ...]
    notes: tuple[str, ...]

    @property
    def missing(self) -> int:
        """The number of loads that each group lacks for a verdict."""
        return max(0, self.needed - self.blocks)


# Groups -----------------------------------------------------------------------------------------------------


def grouped(words: Sequence[str]) -> tuple[FileGroup, ...]:
    """Return the groups of files; raise `UserError` if there are fewer than two.

    With the word `vs` between them, groups are as typed. Without it, files whose names are the same up to
    their last number form a group: A1.json and A2.json, or a/1.json and a/2.json.
    """
    parts: list[list[Path]] = [[]]
    for word in words:
        if word == VERSUS:
            parts.append([])
        else:
            parts[-1].append(Path(word))
    if len(parts) == 1:
        by_name: dict[tuple[Path, str, str], list[Path]] = {}
        for path in parts[0]:
            by_name.setdefault((path.parent, _unnumbered(path), path.suffix), []).append(path)
        parts = list(by_name.values())
    if len(parts) < 2 or not all(parts):
        only = "a group has no files" if len(parts) > 1 else f"{_one_name(parts[0])} is the only group"
        raise UserError(
            f"{only}, so there is nothing to compare",
            code="judge.too_few_groups",
            hint=f"give two groups of files: A*.json B*.json, or A*.json {VERSUS} B*.json",
            where="judge",
        )
    return tuple(FileGroup(name, tuple(files)) for name, files in zip(_names(parts), parts, strict=True))


def _unnumbered(path: Path) -> str:
    """Return a file's name without its ending and its last number; a name that is a number is empty."""
    found = NUMBERED.fullmatch(path.stem)
    return found["name"] if found else path.stem


def _one_name(files: Sequence[Path]) -> str:
    """Return the name that all files share, else the first one's."""
    if not files:
        return ""
    names = {_unnumbered(each) or each.parent.name for each in files}
    return names.pop() if len(names) == 1 else files[0].stem


def _names(parts: Sequence[Sequence[Path]]) -> list[str]:
    """Return the names of groups: the shortest of three forms that tells them apart."""
    forms = (
        [_one_name(files) for files in parts],
        [str(files[0].parent / _one_name(files)) for files in parts],
        [str(files[0]) for files in parts],
    )
    places = [str(place) for place in range(1, len(parts) + 1)]
    return next((names for names in forms if all(names) and len({*names}) == len(names)), places)


# Loads ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Load:
    """A load with the name of its file."""

    file: str
    result: LoadResult


def judged_loads(groups: Sequence[FileGroup]) -> JudgedLoads:
    """Judge groups of loads; raise `UserError` if they cannot be compared.

    A file may hold several loads, one after another; each is a block.
    """
    loads = {
        group.name: [_Load(str(file), each) for file in group.files for each in load_lines(file, "judge")]
        for group in groups
    }
    every = [each for of_group in loads.values() for each in of_group]
    _refuse_repeated(every)
    _refuse_invalid(every)
    _refuse_different(every)
    _refuse_unequal(loads)
    blocks = len(next(iter(loads.values())))

    values, notes = _values(loads)
    pairs = [(metric, a, b) for metric in values for a, b in combinations(loads, 2)]
    if not pairs:
        raise UserError(
            "no metric has a value above 0 in every load", code="judge.no_metric", hint="run longer loads"
        )
    costs = {
        f"{metric} of {name}": [1 / each for each in column] if better_of(metric) == "more" else column
        for metric, of_groups in values.items()
        for name, column in of_groups.items()
    }
    results = compare_family(
        costs, [(f"{metric} of {a}", f"{metric} of {b}") for metric, a, b in pairs], alpha=ALPHA
    )
    needed = first_look_blocks(len(pairs), ALPHA)
    found = [
        pair_summary(result, a=a, b=b, sweep=None, point=None, metric=metric)
        for result, (metric, a, b) in zip(results, pairs, strict=True)
    ]
    if blocks < needed:
        found = [pair.model_copy(update={"verdict": "undecided", "decided_at": None}) for pair in found]
    return JudgedLoads(
        groups=tuple(groups),
        targets={name: _targets(of_group) for name, of_group in loads.items()},
        workload=every[0].result.workload,
        load=every[0].result.load,
        blocks=blocks,
        needed=needed,
        metrics=tuple(values),
        estimates={
            metric: {name: _estimate(column) for name, column in of_groups.items()}
            for metric, of_groups in values.items()
        },
        pairs=tuple(found),
        notes=(*_order_notes(loads), *notes),
    )


def _refuse_repeated(loads: Sequence[_Load]) -> None:
    seen: dict[tuple[int, int, str | None], _Load] = {}
    for each in loads:
        result = each.result
        key = (result.started_monotonic_ns, result.ended_monotonic_ns, result.boot_id)
        first = seen.setdefault(key, each)
        if first is not each and first.result == result:
            raise UserError(
                f"the same load as in {first.file}",
                code="judge.repeated",
                hint="give each load once",
                where=each.file,
            )


def _refuse_invalid(loads: Sequence[_Load]) -> None:
    problems = [
        Problem(
            f"this load is invalid: {reason}",
            "judge.invalid_load",
            "repeat the load, or leave out its block in every group",
            each.file,
        )
        for each in loads
        if (reason := _why_invalid(each.result))
    ]
    if problems:
        raise UserError(*problems)


def _why_invalid(result: LoadResult) -> str:
    """Return why a load is invalid, empty if it is valid."""
    if result.interrupted:
        return "it was interrupted"
    if result.tally.total_errors():
        kinds = listed([f"{number:,} {kind}" for kind, number in result.tally.errors.items()])
        return f"it had errors ({kinds})"
    if result.validity is not None and result.validity.valid is False:
        failed = [each.name for each in result.validity.checks if each.holds is False]
        return f"it failed {listed(failed)}" if failed else "it did not measure its server"
    return ""


def _refuse_different(loads: Sequence[_Load]) -> None:
    """Raise `UserError` for the first load that differs from the first in more than its target."""
    first = loads[0]
    for each in loads[1:]:
        differing = [*_differences(_conditions(first.result), _conditions(each.result))]
        if differing:
            more = len(differing) - MOST_DIFFERENCES
            names = [*differing[:MOST_DIFFERENCES], *([f"{more} more settings"] if more > 0 else [])]
            raise UserError(
                f"its {listed(names)}, unlike {first.file}",
                code="judge.different_settings",
                hint="compare loads that differ in their target alone",
                where=each.file,
            )


def _conditions(result: LoadResult) -> dict[str, object]:
    """Return everything but the target that a load's figures depend on."""
    kinds = {name: getattr(result, name) for name in KINDS}
    starts = {"latency since": result.latency.starts} if result.latency else {}
    settings = {name: value for name, value in result.settings.items() if name not in SEEDS}
    return {**kinds, **starts, **settings}


def _differences(one: Mapping[str, object], other: Mapping[str, object]) -> Iterator[str]:
    for name in dict.fromkeys((*one, *other)):
        before, after = one.get(name, "none"), other.get(name, "none")
        if before != after:
            yield f"{name} is {after} and not {before}"


def _refuse_unequal(loads: Mapping[str, Sequence[_Load]]) -> None:
    counts = {name: len(of_group) for name, of_group in loads.items()}
    if len({*counts.values()}) > 1:
        raise UserError(
            f"the groups have different numbers of loads: {listed([f'{n} {c}' for n, c in counts.items()])}",
            code="judge.unequal_groups",
            hint="give one load of each group for each block",
            where="judge",
        )


def _targets(loads: Sequence[_Load]) -> list[str]:
    return [*dict.fromkeys(each.result.address or "unknown" for each in loads)]


# Values -----------------------------------------------------------------------------------------------------


def _values(loads: Mapping[str, Sequence[_Load]]) -> tuple[dict[str, dict[str, list[float]]], list[str]]:
    """Return metric → group → a value a block, and notes on the metrics that some load lacks."""
    figures = {name: [_figures(each.result) for each in of_group] for name, of_group in loads.items()}
    names = dict.fromkeys(metric for each in figures.values() for found in each for metric in found)
    values: dict[str, dict[str, list[float]]] = {}
    notes: list[str] = []
    for metric in names:
        columns = {name: [found.get(metric) for found in of_group] for name, of_group in figures.items()}
        known = {
            name: [value for value in column if value is not None and value > 0]
            for name, column in columns.items()
        }
        if all(len(known[name]) == len(column) for name, column in columns.items()):
            values[metric] = known
        elif any(known.values()):
            notes.append(f"{words_of(metric)} is not compared: not every load has it")
    if any(each.result.scheduled is not None for of_group in loads.values() for each in of_group):
        notes.append("requests per second are not compared: the schedule of an open load sets them")
    return values, notes


def _figures(result: LoadResult) -> dict[str, float | None]:
    """Return the figures of a load that targets are compared by; None: the load lacks it."""
    cpu, window = (result.user_ns + result.system_ns) / 1e9, result.window
    latency = {
        f"latency_{part}_seconds": None if nanoseconds is None else nanoseconds / 1e9
        for part, nanoseconds in (
            (("p50", result.latency.p50_ns), ("p99", result.latency.p99_ns)) if result.latency else ()
        )
    }
    if result.measured_by != "requests":
        counted = window.counted if window else None
        way = "bytes_sent" if result.measured_by == "bytes_to_server" else "bytes_received"
        moved: int = getattr(counted or result.tally, way)
        seconds = (counted or result).elapsed_ns / 1e9
        of_all: int = getattr(result.tally, way)
        return {
            PAYLOAD_RATE: 8e-9 * moved / seconds if seconds else None,
            **latency,
            "client_cpu_per_byte": cpu / of_all if of_all else None,
        }
    requests = result.tally.requests
    rate = window.requests_per_second if window else 1e9 * requests / max(result.elapsed_ns, 1)
    return {
        **({} if result.scheduled else {"requests_per_second": rate}),
        **latency,
        "client_cpu_per_request": cpu / requests if requests else None,
    }


def _estimate(column: Sequence[float]) -> Estimate:
    found = hodges_lehmann(column)
    return Estimate(
        value=found.value, low=found.low, high=found.high, confidence=found.confidence, blocks=found.n
    )


# Notes ------------------------------------------------------------------------------------------------------


def _order_notes(loads: Mapping[str, Sequence[_Load]]) -> Iterator[str]:
    """Yield what the order of the loads leaves open: machines that differ, and groups one after another."""
    blocks = list(zip(*loads.values(), strict=True))
    apart = [block for block in blocks if len({each.result.boot_id for each in block}) > 1]
    if apart:
        yield (
            f"in {count(len(apart), 'block')} the loads ran on different machines, or on one before and "
            "after a boot: a difference may be that of the machines"
        )
    elif len(blocks) > 1 and len({each.result.boot_id for block in blocks for each in block}) == 1:
        spans = sorted(
            (
                min(each.result.started_monotonic_ns for each in of_group),
                max(each.result.ended_monotonic_ns for each in of_group),
                name,
            )
            for name, of_group in loads.items()
        )
        after = [later[2] for sooner, later in pairwise(spans) if sooner[1] <= later[0]]
        if after:
            yield (
                f"all loads of {listed(after)} ran after those of another group: a change of the machine "
                "looks like a difference of the targets; run the groups in turns"
            )
    numbers = [tuple(_number(each.file) for each in block) for block in blocks]
    odd = next((place for place, of_block in enumerate(numbers) if len({*of_block}) > 1), None)
    if odd is not None and all(None not in of_block for of_block in numbers):
        pair = listed([each.file for each in blocks[odd]])
        yield f"block {odd + 1} is {pair}: blocks follow the order of the files"


def _number(file: str) -> str | None:
    found = NUMBERED.fullmatch(Path(file).stem)
    return found["number"].lstrip("0") if found else None
