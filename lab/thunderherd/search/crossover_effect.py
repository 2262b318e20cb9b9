"""Checks that the setting to be searched has an effect on the contenders as they are resolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from thunderherd.engine.lines import Accepted
from thunderherd.errors import UserError
from thunderherd.labs import KINDS
from thunderherd.search.contenders import ranges_of
from thunderherd.study.checks.machine import ports_allowed
from thunderherd.study.file.tables import keys_of
from thunderherd.study.loads import command_of_load, command_of_server, judged
from thunderherd.toml.file import show
from thunderherd.toml.quantities import Range, parse_range

if TYPE_CHECKING:
    from thunderherd.engine.catalogue import Catalogue, Direction
    from thunderherd.search.request import CrossoverRequest
    from thunderherd.search.written_study import Tables
    from thunderherd.study.resolved import Contender, Study

SOURCE_SIZE = "source_size"
"""The setting for the size of the file that streams are sent from."""

FIRST = 2
"""This many sizes of a sweep show what its contenders are."""


def first_sizes(tables: Tables) -> Tables:
    """Return the study of a first stage with its smallest sizes alone."""
    (sweep,) = tables["sweeps"]
    return {**tables, "sweeps": [{**sweep, "values": sweep["values"][:FIRST]}]}


def check_effect(tables: Tables, study: Study, request: CrossoverRequest, catalogue: Catalogue) -> None:
    """Raise `UserError` if a contender does the same at every size, or cannot run at the largest.

    Parameters
    ----------
    tables
        The study of the first stage.
    study
        The same with its `first_sizes`, resolved.
    """
    (sweep,) = tables["sweeps"]
    keys = keys_of(sweep["key"]) if "key" in sweep else tuple(sweep["values"][0]["set"])
    over = _Over(request, keys, parse_range(request.over, "crossover: --over", ranges_of(catalogue)))
    for each in study.contenders:
        workload = catalogue.workload(each.workload)
        if workload and (direction := workload.direction):
            over.check_side(direction, direction.sender(each.load.settings.get(direction.setting)))
            over.check_source(each, catalogue)
    over.check_ports(study.contenders, catalogue)


@dataclass(frozen=True)
class _Over:
    """The subject of the search: the keys that take each size, and their range."""

    request: CrossoverRequest
    keys: tuple[str, ...]
    range_: Range

    def refusal(self, message: str, code: str, hint: str) -> UserError:
        return self.request.refusal(f"--over {self.request.over.strip()}", message, code, hint)

    def typed(self, low: int, high: int, name: str = "") -> str:
        """Return the option with another range, or another name."""
        return f"--over {name or self.range_.name}={low}..{high}"

    def check_side(self, direction: Direction, sender: str) -> None:
        """Check that at least one of the keys belongs to the side that uses it."""
        receiver = "server" if sender == "client" else "client"
        for key in self.keys:
            leaf = key.rpartition(".")[2]
            user = _side(key)
            if leaf in (*direction.of_sender, *direction.of_receiver):
                user = sender if leaf in direction.of_sender else receiver
            if user == _side(key):
                return
        ways = (direction.to_server, direction.to_client)
        now, turned = ways if sender == "client" else ways[::-1]
        key, side = self.keys[0], self.request.side
        leaf = key.rpartition(".")[2]
        other = f"settings.{leaf}" if key.startswith("load.") else f"load.settings.{leaf}"
        instead = (
            f"leave --side {side} out"
            if side is not None and "." not in self.range_.name
            else f"type {self.typed(self.range_.low, self.range_.high, other)}"
        )
        raise self.refusal(
            f"{leaf} of the {_side(key)} has no effect: the stream goes to the {receiver} "
            f"({direction.setting} = {show(now)})",
            "crossover.side_without_effect",
            f"{instead}; or reverse the stream: --set load.settings.{direction.setting}={turned}",
        )

    def check_source(self, each: Contender, catalogue: Catalogue) -> None:
        """Check that the size of a stream's source matters: only for a file above the engine's smallest."""
        for key in self.keys:
            if key.rpartition(".")[2] != SOURCE_SIZE:
                continue
            is_load = _side(key) == "client"
            answer = judged(command_of_load(each.load) if is_load else command_of_server(each), catalogue)
            if not isinstance(answer, Accepted):
                continue
            table = "load.settings" if is_load else "server.settings"
            least, high = answer.source_bytes, self.range_.high
            if least is None:
                raise self.refusal(
                    f"{SOURCE_SIZE} has no effect: the stream is sent from memory",
                    "crossover.source_is_memory",
                    f"add --set {table}.source=file, or memfd",
                )
            if int((each.load.settings if is_load else each.settings)[SOURCE_SIZE]) < least:
                instead = (
                    f"type {self.typed(least, high)}"
                    if least < high
                    else f"choose sizes above {least}, or lower that bound by --set {table}.message_size=..."
                )
                raise self.refusal(
                    f"below {least} all sizes are the same file", "crossover.source_too_small", instead
                )

    def check_ports(self, contenders: Sequence[Contender], catalogue: Catalogue) -> None:
        """Check that there are ports for all connections at the largest size."""
        low, high = self.range_.low, self.range_.high
        most, allowed = min(_most(self.keys, contenders, catalogue), default=(high, 0))
        if low < most < high:
            raise self.refusal(
                f"too many connections to one port; allowed: {allowed}",
                "crossover.too_few_ports",
                f"type {self.typed(low, most)}; {allowed} is half of the local ports "
                "(net.ipv4.ip_local_port_range), since each stays in TIME_WAIT",
            )


def _most(
    keys: Sequence[str], contenders: Sequence[Contender], catalogue: Catalogue
) -> Iterator[tuple[int, int]]:
    """Yield the largest size and the allowed connections of contenders whose connections grow with size."""
    for each in contenders:
        counted = {*(f"load.settings.{name}" for name in each.load.connections_by), "load.processes"}
        ports, connections = KINDS[each.lab.kind].local_ports(catalogue), each.load.connections_per_trial
        if len(keys) != 1 or keys[0] not in counted or ports is None or not connections:
            continue
        allowed = ports_allowed(ports * each.load.sources)
        warm_up = 0 if each.trial == "whole_life" else each.load.warm_up_connections
        yield (allowed - warm_up) * int(each.point or 1) // connections, allowed


def _side(key: str) -> str:
    return "client" if key.startswith("load.") else "server"
