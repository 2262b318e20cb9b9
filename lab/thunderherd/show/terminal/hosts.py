"""The page of `thunderherd hosts`: each host, and the paths between them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from thunderherd.hosts.survey import LARGEST_AGENT_PERCENT, Machine, Path, Survey
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.show.terminal.tables import print_table
from thunderherd.text.figures import ABSENT, seconds_in_words

DOCTOR = "thunderherd doctor on a host shows what its figures depend on"


def print_survey(found: Survey, console: Console) -> None:
    """Print the tables, then what to know."""
    print_table(_machines(found), console)
    if found.paths:
        console.print()
        print_table(_paths(found), console)
    notes = list(_notes(found))
    if notes:
        console.print()
    for note in notes:
        console.print(note, soft_wrap=True)


def _machines(found: Survey) -> Table:
    columns = (
        Column("Host", "name"), Column("Kernel", "short"), Column("CPUs"), Column("Clock ahead"),
        Column("Agent", unit="%"), Column("Others", unit="%"),
    )  # fmt: skip
    return Table("Hosts", columns, tuple(Row(tuple(map(Cell, _cells(each)))) for each in found.machines))


def _cells(each: Machine) -> tuple[str, ...]:
    ahead = seconds_in_words(abs(each.clock_ahead_seconds))
    sign = "−" if each.clock_ahead_seconds < 0 else ""
    clock = f"{sign}{ahead} ± {seconds_in_words(each.clock_error_seconds)}"
    shares = f"{each.agent_percent:g}", f"{each.others_percent:g}"
    return each.address, each.kernel, str(each.cpus), clock, *shares


def _paths(found: Survey) -> Table:
    columns = (
        Column("Load", "name"), Column("Server", "name"), Column("Address", "short"), Column("MTU"),
        Column("Link", unit="Mbit/s"), Column("Round trip", unit="µs"), Column("Bandwidth", unit="Gbit/s"),
        Column("CPU"),
    )  # fmt: skip
    return Table("Paths", columns, tuple(Row(tuple(map(Cell, _way(each)))) for each in found.paths))


def _way(each: Path) -> tuple[str, ...]:
    figures = (
        each.address, each.mtu, each.link_megabits, each.round_trip_microseconds, each.gigabits_per_second,
        each.receiving_cpu,
    )  # fmt: skip
    return each.load, each.server, *map(_figure, figures)


def _figure(value: str | float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _notes(found: Survey) -> Iterator[str]:
    for path in found.paths:
        if path.why_not is not None:
            yield f"{path.load} does not reach {path.server}: {path.why_not}"
    for each in found.machines:
        if each.agent_percent > LARGEST_AGENT_PERCENT:
            yield (
                f"{each.address}: its idle agent uses {each.agent_percent:g} % of a CPU (more than "
                f"{LARGEST_AGENT_PERCENT:g} %): keep it off the CPUs that are measured (lab.server_cpus)"
            )
    if any(path.receiving_cpu is not None for path in found.paths):
        yield "CPU: the one of the load's host that received most packets; better not one that is measured"
    yield DOCTOR
