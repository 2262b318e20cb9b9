"""The page of `thunderherd hosts`: each host, and the paths between them."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console

from thunderherd.hosts.survey import Machine, Path, Survey
from thunderherd.show.tables.model import Cell, Column, Row, Table
from thunderherd.show.terminal.tables import print_table
from thunderherd.text.figures import ABSENT, seconds_in_words


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
        Column("Agent (%)"), Column("Others (%)"),
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
        Column("Link (Mbit/s)"), Column("Round trip (µs)"), Column("Bandwidth (Gbit/s)"),
        Column("CPU of load"), Column("CPU of server"),
    )  # fmt: skip
    return Table("Paths", columns, tuple(Row(tuple(map(Cell, _way(each)))) for each in found.paths))


def _way(each: Path) -> tuple[str, ...]:
    figures = (
        each.address, each.mtu, each.link_megabits, each.round_trip_microseconds, each.gigabits_per_second,
    )  # fmt: skip
    return (
        each.load,
        each.server,
        *map(_figure, figures),
        _receiver(each.load_cpu, each.load_queue),
        _receiver(each.server_cpu, each.server_queue),
    )


def _receiver(cpu: int | None, queue: int | None) -> str:
    """Return `2` or, if packets come from a queue of a network card, `2, queue 513`."""
    return _figure(cpu) if queue is None else f"{_figure(cpu)}, queue {queue}"


def _figure(value: str | float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _notes(found: Survey) -> Iterator[str]:
    for path in found.paths:
        if path.why_not is not None:
            yield f"{path.load} does not reach {path.server}: {path.why_not}"
    for each in found.machines:
        yield from each.warnings
    if any(path.load_cpu is not None or path.server_cpu is not None for path in found.paths):
        yield (
            "CPU of load, CPU of server: the CPU that received the last packet of a connection there. A run "
            "warns if it is one of lab.server_cpus or lab.client_cpus."
        )
    for path in found.paths:
        if path.interrupt_cpus:
            yield (
                f"{path.load}: CPUs {', '.join(map(str, path.interrupt_cpus))} serve the interrupts of "
                f"{path.interface}"
            )
