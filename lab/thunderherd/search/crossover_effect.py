"""Whether what a search is to go over has an effect with its contenders, as they are resolved: refused, with
what to type, before anything is written or run.

The ends of a stream have the same settings, and only one end makes use of each: that which sends, or that
which receives (engine/src/workloads/stream.rs). Which one that is, a setting of the clients says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence

from thunderherd.engine.catalogue import Catalogue, Workload
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.errors import UserError
from thunderherd.labs import KINDS
from thunderherd.study.checks.machine import ports_allowed
from thunderherd.study.file.tables import keys_of
from thunderherd.study.resolved import Contender, Study
from thunderherd.text.quantities import Range
from thunderherd.toml.file import show
from thunderherd.toml.write import toml_text

DIRECTION, TO_SERVER, TO_CLIENT = "direction", "to_server", "to_client"
"""The setting of a stream's clients that says which way its bytes go."""

OF_SENDER = ("message_bytes", "source", "source_bytes")
OF_RECEIVER = ("receive_bytes", "verify")

ENDLESS = "stream_bytes"
"""The setting of a stream's clients that says how long one is; 0: until the load ends by time."""

PART, PERIOD = 65_536, 65_536
"""Bytes that are put out at a time, and after which a stream repeats itself (PART of
engine/src/transfer/outbox.rs, and PERIOD of engine/src/workloads/stream/reel.rs)."""

FIRST = 2
"""So many sizes of a sweep are enough to tell what its contenders are."""


def sender_of(workload: Workload | None, direction: object) -> str | None:
    """The end that sends a stream; None of a workload that has no such choice."""
    if workload is None or DIRECTION not in {each.name for each in workload.client_settings}:
        return None
    return "server" if direction == TO_CLIENT else "client"


def least_source_bytes(message: int) -> int:
    """The smallest file that a stream of such messages is sent from: the engine makes no smaller one."""
    return max(PART // message, 1) * message + PERIOD - 1


def first_sizes(text: str) -> str:
    """The study of a first stage with its smallest sizes alone."""
    study = tomllib.loads(text)
    (sweep,) = study["sweeps"]
    sweep["values"] = sweep["values"][:FIRST]
    return toml_text(study)


def check_effect(
    text: str, study: Study, over: str, range_: Range, side: str | None, catalogue: Catalogue
) -> None:
    """Raises UserError where a contender does the same at every size, or cannot be run at the largest.

    Parameters
    ----------
    text
        The study of the first stage.
    study
        The same, resolved, with its `first_sizes`.
    over, range_
        What the user wants to be swept, as it was typed and as it was read.
    side
        What the user said of the end that has the setting.
    """
    (sweep,) = tomllib.loads(text)["sweeps"]
    keys = keys_of(sweep["key"]) if "key" in sweep else tuple(sweep["values"][0]["set"])
    typed = f"crossover: --over {over.strip()}"
    for each in study.contenders:
        direction = each.load.settings.get(DIRECTION)
        sender = sender_of(catalogue.workload(each.workload), direction)
        if sender is not None:
            _check_end(typed, keys, range_, sender, side)
            _check_source(typed, keys, each, range_)
            _check_ends(typed, each)
    _check_ports(typed, keys, study.contenders, range_, catalogue)


def _check_end(typed: str, keys: Sequence[str], range_: Range, sender: str, side: str | None) -> None:
    """One of the keys at least is of the end that makes use of it."""
    receiver = "server" if sender == "client" else "client"
    for key in keys:
        leaf = key.rpartition(".")[2]
        user = sender if leaf in OF_SENDER else receiver if leaf in OF_RECEIVER else _end(key)
        if user == _end(key):
            return
    key, (now, turned) = keys[0], (TO_SERVER, TO_CLIENT) if sender == "client" else (TO_CLIENT, TO_SERVER)
    leaf = key.rpartition(".")[2]
    does = "sends nothing" if leaf in OF_SENDER else "receives nothing"
    other = f"settings.{leaf}" if key.startswith("load.") else f"load.settings.{leaf}"
    instead = (
        f"leave --side {side} out"
        if side is not None and "." not in range_.name
        else f"type --over {other}={range_.low}..{range_.high}"
    )
    raise UserError(
        f"{typed}: {leaf} of the {_end(key)} would have no effect: the stream goes to the {receiver} "
        f"({DIRECTION} = {show(now)}), and the {_end(key)} {does} of it; {instead}, or, for a stream the "
        f"other way, add --set load.settings.{DIRECTION}={turned}"
    )


def _check_source(typed: str, keys: Sequence[str], each: Contender, range_: Range) -> None:
    """The size of the file that a stream is sent from matters where it is sent from one, and as far as the
    engine makes it no larger."""
    for key in keys:
        if key.rpartition(".")[2] != "source_bytes":
            continue
        own = _settings(key, each)
        table = "load.settings" if _end(key) == "client" else "server.settings"
        if own["source"] == "memory":
            raise UserError(
                f"{typed}: source_bytes would have no effect: it is the size of a file, and the stream is "
                f'sent from memory (source = "memory"); add --set {table}.source=file, or memfd'
            )
        message = int(own["message_bytes"])
        least = least_source_bytes(message)
        if range_.low < least:
            instead = (
                f"type --over {range_.name}={least}..{range_.high}"
                if least < range_.high
                else f"go beyond that, or lower it by --set {table}.message_bytes=..."
            )
            raise UserError(
                f"{typed}: below {least} all sizes would be the same file, which has room for what is sent "
                f"at a time (message_bytes = {message}) from any of {PERIOD} places; {instead}"
            )


def _check_ends(typed: str, each: Contender) -> None:
    """A stream comes to an end."""
    if not each.load.is_timed and each.load.settings.get(ENDLESS) == 0:
        raise UserError(
            f"{typed}: a stream has to end, and here the load does not end by time: say how many bytes each "
            f"stream has, such as --set load.settings.{ENDLESS}=10000000"
        )


def _check_ports(
    typed: str, keys: Sequence[str], contenders: Sequence[Contender], range_: Range, catalogue: Catalogue
) -> None:
    """There are ports for all connections at the largest size, whose number grows with what is swept."""
    most, allowed = min(_most(keys, contenders, catalogue), default=(range_.high, 0))
    if range_.low < most < range_.high:
        raise UserError(
            f"{typed}: connections to one port; allowed: {allowed}, half of the local ports "
            f"(net.ipv4.ip_local_port_range), since each stays in TIME_WAIT; type --over "
            f"{range_.name}={range_.low}..{most}"
        )


def _most(
    keys: Sequence[str], contenders: Sequence[Contender], catalogue: Catalogue
) -> Iterator[tuple[int, int]]:
    """Of each contender whose connections are so many times what is swept: how large that may be, and how
    many connections it may make."""
    for each in contenders:
        counted = {*(f"load.settings.{name}" for name in each.load.connections_by), "load.processes"}
        ports, connections = KINDS[each.lab.kind].local_ports(catalogue), each.load.connections_per_trial
        if len(keys) != 1 or keys[0] not in counted or ports is None or not connections:
            continue
        allowed = ports_allowed(ports * each.load.sources)
        warm_up = 0 if each.trial == "whole_life" else each.load.warm_up_connections
        yield (allowed - warm_up) * int(each.point or 1) // connections, allowed


def _end(key: str) -> str:
    return "client" if key.startswith("load.") else "server"


def _settings(key: str, each: Contender) -> Mapping[str, SettingValue]:
    return each.load.settings if _end(key) == "client" else each.settings
