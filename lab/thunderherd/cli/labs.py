"""`serve --lab` and `load --lab`: the engine's own commands in a lab, for a person with two terminals.

`serve --lab veth` makes two network namespaces and serves in one of them; `load --lab veth` joins those of
the server that runs, which it finds among this user's processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from thunderherd.engine.client import find_engine
from thunderherd.errors import Problem, UserError
from thunderherd.labs import KINDS, USUAL, with_namespaces
from thunderherd.labs.kind import Kind, Site
from thunderherd.labs.words import OPTION, OPTION_HELP, QUANTITIES, in_words, parse
from thunderherd.study import lab_option
from thunderherd.study.loading import Lab
from thunderherd.trial.listener_holders import is_listening
from thunderherd.trial.sites import site_of

PROC = Path("/proc")

CHECK_SECONDS = 0.5
"""How often a server in namespaces asks whether these are still held."""

LISTENING_SECONDS = 0.02
"""How often it is asked, until then, whether it listens."""

JOINED = " or ".join(f"{OPTION} {each.name}" for each in with_namespaces())
"""The labs that a load joins, and whose quantities a server may choose."""

HELP = f"""
Options of the laboratory:
      {OPTION} <LAB>      {OPTION_HELP}
                       [default: {USUAL.name}]. load joins the server's: {JOINED}, or {JOINED}:PID of several
"""
SERVE_HELP = f"""\
      {", ".join(f"--{key}" for key in QUANTITIES)}
                       Of {JOINED}, as {OPTION} has them: --mtu 9000 --rate 10gbit --delay 5ms --loss 0.1%
"""


@dataclass
class Asked:
    """What of a command line is the laboratory's, and what is left for the engine."""

    command: str
    words: list[str] = field(default_factory=list)
    kind: Kind | None = None
    holder: int | None = None
    settings: dict[str, int] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    """The settings as they were typed: `--rate 1gbit`, by the engine's option for it."""

    @property
    def serves_in_namespaces(self) -> bool:
        """Whether the engine cannot be told alone: something has to be held while it serves."""
        return self.command == "serve" and self.kind is not None and self.kind.has_namespaces


def read(command: str, arguments: Sequence[str]) -> Asked:
    """Takes the laboratory's options out of those of `serve` or `load`."""
    asked = Asked(command)
    labs: list[str] = []
    given: dict[str, str] = {}
    quantities = tuple(QUANTITIES) if command == "serve" else ()
    words = iter(arguments)
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or (f"--{name}" != OPTION and name not in quantities):
            asked.words.append(word)
            continue
        value = value if equals else next(words, "")
        if not value:
            raise UserError(f"--{name} takes a value")
        if name in given:
            raise UserError(f"--{name} is given twice: {given[name]}, and {value}; leave one out")
        if f"--{name}" == OPTION:
            labs.append(_without_holder(asked, value))
        else:
            given[name] = value
    found = lab_option.read(labs, ("kind", *quantities))
    if (kind := found.pop("kind", None)) is not None:
        asked.kind = KINDS[kind]
    typed = {name: f"{OPTION} {name}={value}" for name, value in found.items()}
    for name, value in given.items():
        if name in found:
            raise UserError(f"{typed[name]} and --{name} {value} say the same; leave one out")
        found[name], typed[name] = _number_or_text(value), f"--{name} {value}"
    for name, value in found.items():
        if asked.kind is None or name not in asked.kind.keys:
            owners = " or ".join(f"{OPTION} {each.name}" for each in KINDS.values() if name in each.keys)
            raise UserError(f"{typed[name]} is of {owners}; give both, or neither")
        setting = QUANTITIES[name].setting
        try:
            asked.settings[setting] = parse(name, value, on_command_line=True)
        except ValueError as error:
            raise UserError(f"{typed[name]}: {error}") from None
        asked.typed["--" + setting.replace("_", "-")] = typed[name]
    _check_address(asked)
    return asked


def _check_address(asked: Asked) -> None:
    """Refuses an address that is not one of the lab."""
    option = "listen" if asked.command == "serve" else "connect"
    address, kind = _value(asked.words, option), asked.kind
    if kind is None:
        return
    if address and not kind.may_have(address):
        raise UserError(f"--lab {kind.name}: --{option} is '{address}', but it takes {kind.takes} there")
    if not kind.has_tcp and _is_given(asked.words, "port"):
        raise UserError(
            f"--lab {kind.name}: a Unix socket has no --port; leave it out, or give --listen {kind.takes}"
        )


def _number_or_text(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _without_holder(asked: Asked, lab: str) -> str:
    """Takes the process out of `veth:PID`, by which a load joins one server's network of several."""
    kind, colon, holder = lab.partition(":")
    if not colon or kind not in KINDS:
        return lab
    joins = asked.command == "load" and KINDS[kind].has_namespaces
    if not (joins and holder.isascii() and holder.isdigit()):
        joined = ", ".join(f"{each.name}:PID" for each in with_namespaces())
        raise UserError(f"{OPTION} {lab}: it takes {', '.join(KINDS)}; load takes {joined}, too")
    asked.holder = int(holder)
    return kind


def show_help(command: str, arguments: Sequence[str]) -> int:
    """The engine's help, and then the laboratory's own options; the exit status."""
    status = subprocess.call(["thunderherd", command, *arguments], executable=find_engine())
    if status == 0:
        print(HELP + (SERVE_HELP if command == "serve" else ""), end="")
    return status


# Serving ----------------------------------------------------------------------------------------------------


def serve_in_namespaces(asked: Asked) -> int:
    """Serves in one of two network namespaces that are made for it, until it ends; its exit status.

    Signals that ask it to stop are the server's to obey, as if it ran alone.
    """
    engine, kind = find_engine(), asked.kind
    assert kind is not None
    lab = Lab(kind=kind.name, settings=asked.settings, server_cpus=None, client_cpus=None)
    words = list(asked.words)
    # Where both are given, the engine says that they contradict each other.
    port = None if _is_given(words, "listen") else _port_taken(words)
    with contextlib.ExitStack() as made:
        try:
            site = made.enter_context(site_of(lab, engine))
        except UserError as error:
            raise UserError(*(_as_typed(asked, each) for each in error.problems)) from None
        words += ["--network-namespace", str(site.server_namespace)]
        if not _is_given(words, "listen"):
            words += ["--listen", f"{site.address}:{port or 0}"]
        command = ["thunderherd", "serve", *words, "--parent", str(os.getpid())]
        with subprocess.Popen(command, executable=engine) as server:
            signal.signal(signal.SIGTERM, lambda number, _frame: server.send_signal(number))
            # Ctrl-C reaches the server by itself: it is of the same process group.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            status = _status_of(server, site, kind, in_words(kind.name, asked.settings))
    if status < 0:
        print(f"thunderherd: the server was killed by {signal.Signals(-status).name}", file=sys.stderr)
    return status if status >= 0 else 128 - status


def _status_of(server: subprocess.Popen[bytes], site: Site, kind: Kind, lab: str) -> int:
    """Waits for the end of a server, which ends with its namespaces: nobody could enter them any more.

    As soon as it listens, it is said how to reach it in its lab, which `lab` says in words: the engine may
    refuse what it was told until then.
    """
    is_announced = False
    while True:
        try:
            return server.wait(CHECK_SECONDS if is_announced else LISTENING_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        if not is_announced and (is_announced := _listens(server.pid, site)):
            print(
                f"thunderherd: {lab}; from another terminal: "
                f"thunderherd load WORKLOAD --lab {kind.name} --connect ADDRESS",
                file=sys.stderr,
                flush=True,
            )
        try:
            site.check()
        except UserError:
            server.terminate()
            server.wait()
            raise


def _listens(pid: int, site: Site) -> bool:
    """Whether a server has entered its namespace, and listens there."""
    try:
        has_entered = (PROC / str(pid) / "ns" / "net").samefile(str(site.server_namespace))
        return has_entered and is_listening(pid)
    except OSError:
        return False  # it has ended


def _as_typed(asked: Asked, problem: Problem) -> Problem:
    """A problem that the engine has with its options, behind what was typed in their place."""
    said = problem.message
    typed = [words for option, words in asked.typed.items() if option in said and option not in words]
    return replace(problem, message=": ".join([*typed, said]))


def _is_given(words: Sequence[str], option: str) -> bool:
    return _value(words, option) is not None


def _value(words: Sequence[str], option: str) -> str | None:
    """The value of an option, "" where that is missing; None where the option is not among the words."""
    for place, word in enumerate(words):
        if word.startswith(f"--{option}="):
            return word.partition("=")[2]
        if word == f"--{option}":
            return "".join(words[place + 1 : place + 2])
    return None


def _port_taken(words: list[str]) -> int | None:
    """Takes --port and its value out of the words; None where it is not among them."""
    value = _value(words, "port")
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value) < 2**16):
        raise UserError(f"--port is '{value}', but it takes a whole number from 0 to 65535")
    if f"--port={value}" in words:
        words.remove(f"--port={value}")
    else:
        place = words.index("--port")
        del words[place : place + 2]
    return int(value)


# Loading ----------------------------------------------------------------------------------------------------


def words_of(asked: Asked) -> list[str]:
    """What the engine is told where nothing has to be held: a server over loopback or Unix sockets, and a
    load, which is made where its server is."""
    kind = asked.kind or USUAL
    if asked.command == "serve" and not kind.has_tcp and not _is_given(asked.words, "listen"):
        return [*asked.words, "--listen", kind.listen]
    if not kind.has_namespaces:
        return asked.words
    engine, lab = find_engine(), f"--lab {kind.name}"
    holder = asked.holder or _only(lab, holders(engine))
    if not _holds(PROC / str(holder), engine):
        running = (
            ", ".join(map(str, holders(engine))) or f"none; start one first: thunderherd serve DESIGN {lab}"
        )
        raise UserError(
            f"{lab}:{holder}: process {holder} holds no network namespaces that you may enter; "
            f"those that do: {running}"
        )
    return [*asked.words, "--network-namespace", str(PROC / str(holder) / "ns" / "net")]


def holders(engine: Path) -> list[int]:
    """This user's processes that hold network namespaces."""
    processes = (entry for entry in PROC.iterdir() if entry.name.isdigit())
    return sorted(
        int(entry.name)
        for entry in processes
        if _holds(entry, engine) and entry.stat().st_uid == os.geteuid()
    )


def _holds(process: Path, engine: Path) -> bool:
    """Whether a process, by its folder in /proc, holds namespaces, and is not another user's."""
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        return (process / "exe").readlink() == engine.resolve() and words[1:2] == [b"namespace"]
    except OSError:
        return False  # it has ended, or is another's


def _only(lab: str, found: Sequence[int]) -> int:
    if not found:
        raise UserError(f"{lab}: no server runs in one; start it first: thunderherd serve DESIGN {lab}")
    if len(found) > 1:
        which = " or ".join(f"{lab}:{pid}" for pid in found)
        raise UserError(f"{lab}: there are {len(found)}; say which: {which}")
    return found[0]
