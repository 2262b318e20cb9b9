"""`serve --lab` and `load --lab`: the engine's own commands in a lab, for a person with two terminals.

`serve --lab veth` makes two network namespaces and serves in one of them. `load --lab veth` joins the
namespaces of the running server, which it finds among this user's processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from thunderherd.cli.options import LAB_VALUE, PROGRAM
from thunderherd.engine.client import find_engine
from thunderherd.errors import Problem, UserError
from thunderherd.labs import KINDS, USUAL, with_namespaces
from thunderherd.labs.kind import Kind, Site
from thunderherd.labs.words import OPTION, QUANTITIES, InvalidQuantity, in_words, parse
from thunderherd.study import lab_option
from thunderherd.study.loading import Lab
from thunderherd.trial.listener_holders import is_listening
from thunderherd.trial.sites import site_of

PROC = Path("/proc")

CHECK_SECONDS = 0.5
"""Interval at which a server in namespaces checks that these are still held."""

LISTENING_SECONDS = 0.02
"""Interval at which a new server is checked, until it listens."""

JOINED = " or ".join(f"{OPTION} {each.name}" for each in with_namespaces())
"""The labs that a load joins, and whose quantities a server may set."""

HELP_ALL = "--help-all"
"""Option of `serve` and `load` that lists all options; `--help` lists those that most people need."""

AFTER = f",\n{'':23}"
"""The end of a line of the help, and the indent of the next."""
HELP = f"""
Lab options:
      {OPTION} <LAB>      {LAB_VALUE.replace(", or", AFTER + "or")}
                       [default: {USUAL.name}]. `load` joins the server's lab:
                       {JOINED}, or {JOINED}:PID if there are several
"""
SERVE_HELP = f"""\
      {", ".join(f"--{key}" for key in QUANTITIES)}
                       Quantities of {JOINED}, such as --mtu 9000
                       --rate 10gbit --delay 5ms --loss 0.1%
"""


@dataclass
class LabRequest:
    """The lab's part of a command line, and the words that are left for the engine."""

    command: str
    words: list[str] = field(default_factory=list)
    kind: Kind | None = None
    holder: int | None = None
    settings: dict[str, int] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    """The engine's option → the words that were typed for it: `--rate 1gbit`."""

    @property
    def serves_in_namespaces(self) -> bool:
        """True if namespaces have to be held while the engine serves."""
        return self.command == "serve" and self.kind is not None and self.kind.has_namespaces

    def refusal(self, typed: str, message: str, code: str, hint: str = "") -> UserError:
        """Return an error about an option, as it was typed."""
        return UserError(message, code=code, hint=hint, where=f"{self.command}: {typed}")


def read(command: str, arguments: Sequence[str]) -> LabRequest:
    """Take the lab's options out of those of `serve` or `load`."""
    request = LabRequest(command)
    labs: list[str] = []
    given: dict[str, str] = {}
    quantities = tuple(QUANTITIES) if command == "serve" else ()
    words = iter(arguments)
    for word in words:
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or (f"--{name}" != OPTION and name not in quantities):
            request.words.append(word)
            continue
        value = value if equals else next(words, "")
        if not value:
            raise request.refusal(f"--{name}", "needs a value", "lab.value_missing")
        if name in given:
            message = f"given twice: {given[name]} and {value}"
            raise request.refusal(f"--{name}", message, "lab.given_twice", "leave one out")
        if f"--{name}" == OPTION:
            labs.append(_without_holder(request, value))
        else:
            given[name] = value
    found = lab_option.read(labs, ("kind", *quantities), f"{command}: ")
    if (kind := found.pop("kind", None)) is not None:
        request.kind = KINDS[kind]
    typed = {name: f"{OPTION} {name}={value}" for name, value in found.items()}
    for name, value in given.items():
        if name in found:
            message = f"{typed[name]} sets the same quantity"
            raise request.refusal(f"--{name} {value}", message, "lab.given_twice", "leave one out")
        found[name], typed[name] = _number_or_text(value), f"--{name} {value}"
    for name, value in found.items():
        if request.kind is None or name not in request.kind.keys:
            owners = " or ".join(f"{OPTION} {each.name}" for each in KINDS.values() if name in each.keys)
            message = f"{name} belongs to {owners}"
            raise request.refusal(typed[name], message, "lab.key_of_other_lab", "give both, or neither")
        try:
            request.settings[name] = parse(name, value, on_command_line=True)
        except InvalidQuantity as error:
            code = "lab.invalid_quantity"
            raise request.refusal(typed[name], error.message, code, error.hint) from None
        request.typed[f"--{name}"] = typed[name]
    _check_address(request)
    return request


def _check_address(request: LabRequest) -> None:
    """Refuse an address that the lab does not have."""
    option = "listen" if request.command == "serve" else "connect"
    address, kind = _value(request.words, option), request.kind
    if kind is None:
        return
    lab = f"{OPTION} {kind.name}"
    if address and not kind.may_have(address):
        message = f"--{option} is '{address}', but this lab takes {kind.takes}"
        raise request.refusal(lab, message, "lab.invalid_address")
    if not kind.has_tcp and _is_given(request.words, "port"):
        hint = f"leave --port out, or give --listen {kind.takes}"
        raise request.refusal(lab, "a Unix socket has no --port", "lab.port_without_tcp", hint)


def _number_or_text(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _without_holder(request: LabRequest, lab: str) -> str:
    """Take the process id out of `veth:PID`, by which a load chooses one of several servers."""
    kind, colon, holder = lab.partition(":")
    if not colon or kind not in KINDS:
        return lab
    joins = request.command == "load" and KINDS[kind].has_namespaces
    if not (joins and holder.isascii() and holder.isdigit()):
        joined = ", ".join(f"{each.name}:PID" for each in with_namespaces())
        kinds = ", ".join(each.name for each in KINDS.values() if not each.reaches_hosts)
        hint = f"{OPTION} takes {kinds}; load also takes {joined}"
        raise request.refusal(f"{OPTION} {lab}", f"no such lab '{lab}'", "lab.invalid_holder", hint)
    request.holder = int(holder)
    return kind


def show_help(command: str, arguments: Sequence[str]) -> int:
    """Print the engine's help with the lab's own options; return the exit status.

    The engine's last line, on how to list all options, stays the last.
    """
    own = HELP + (SERVE_HELP if command == "serve" else "")
    words = [PROGRAM, command, *arguments]
    if HELP_ALL in arguments:
        status = subprocess.call(words, executable=find_engine())
        if status == 0:
            print(own, end="")
        return status
    done = subprocess.run(words, executable=find_engine(), stdout=subprocess.PIPE, text=True, check=False)
    options, end, last = done.stdout.rstrip("\n").rpartition("\n\n")
    print(f"{options}\n{own}\n{last}\n" if end and done.returncode == 0 else done.stdout, end="")
    return done.returncode


# Serving ----------------------------------------------------------------------------------------------------


def serve_in_namespaces(request: LabRequest) -> int:
    """Make two network namespaces and serve in one of them. Return the server's exit status.

    Signals reach the server as if it ran alone.
    """
    engine, kind = find_engine(), request.kind
    assert kind is not None
    lab = Lab(kind=kind.name, settings=request.settings, server_cpus=None, client_cpus=None)
    words = list(request.words)
    # If both are given, the engine reports the contradiction.
    port = None if _is_given(words, "listen") else _take_port(request, words)
    with contextlib.ExitStack() as made:
        try:
            site = made.enter_context(site_of(lab, engine))
        except UserError as error:
            raise UserError(*(_as_typed(request, each) for each in error.problems)) from None
        words += site.server.flags()
        if not _is_given(words, "listen"):
            words += ["--listen", f"{site.address}:{port or 0}"]
        command = [PROGRAM, "serve", *words, "--parent", str(os.getpid())]
        with subprocess.Popen(command, executable=engine) as server:
            for number in {signal.SIGTERM, *filter(_interrupts, signal.valid_signals())}:
                signal.signal(number, lambda number, _frame: server.send_signal(number))
            # Ctrl-C reaches the server by itself, which is in the same process group.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            status = _status_of(server, site, kind, in_words(kind.name, request.settings))
    if status < 0:
        print(f"{PROGRAM}: the server was killed by {signal.Signals(-status).name}", file=sys.stderr)
    return status if status >= 0 else 128 - status


def _interrupts(number: int) -> bool:
    """True if a signal interrupts this command. Those of faults, and ignored ones, have no handler."""
    return callable(signal.getsignal(number))


def _status_of(server: subprocess.Popen[bytes], site: Site, kind: Kind, lab: str) -> int:
    """Wait for the end of a server, and end the server if its namespaces are gone.

    Prints how to reach the server, with the description `lab`, as soon as it listens: until then the engine
    may refuse its options.
    """
    is_announced = False
    while True:
        try:
            return server.wait(CHECK_SECONDS if is_announced else LISTENING_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        if not is_announced and (is_announced := _listens(server.pid, site)):
            print(
                f"{PROGRAM}: {lab}; from another terminal: "
                f"{PROGRAM} load WORKLOAD --lab {kind.name} --connect ADDRESS",
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
    """True if a server listens inside its namespace."""
    try:
        has_entered = (PROC / str(pid) / "ns" / "net").samefile(str(site.server.network_namespace))
        return has_entered and is_listening(pid)
    except OSError:
        return False  # it has ended


def _as_typed(request: LabRequest, problem: Problem) -> Problem:
    """Return the engine's complaint about its options, placed at the options that were typed for them."""
    typed = [
        words for option, words in request.typed.items() if option in problem.message and option not in words
    ]
    return problem.at(": ".join([request.command, *typed, *filter(None, [problem.where])]))


def _is_given(words: Sequence[str], option: str) -> bool:
    return _value(words, option) is not None


def _value(words: Sequence[str], option: str) -> str | None:
    """Return the value of an option: "" if the value is missing, None if the option is."""
    for place, word in enumerate(words):
        if word.startswith(f"--{option}="):
            return word.partition("=")[2]
        if word == f"--{option}":
            return "".join(words[place + 1 : place + 2])
    return None


def _take_port(request: LabRequest, words: list[str]) -> int | None:
    """Take --port and its value out of the words; None if they have no --port."""
    value = _value(words, "port")
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value) < 2**16):
        message = f"--port is '{value}', but it takes a whole number from 0 to 65535"
        raise UserError(message, code="serve.invalid_port", where=request.command)
    if f"--port={value}" in words:
        words.remove(f"--port={value}")
    else:
        place = words.index("--port")
        del words[place : place + 2]
    return int(value)


# Loading ----------------------------------------------------------------------------------------------------


def engine_words(request: LabRequest) -> list[str]:
    """Return the engine's words for a command that has no namespaces to hold.

    That is a server over loopback or Unix sockets, and any load, which joins the namespaces of its server.
    """
    kind = request.kind or USUAL
    if request.command == "serve" and not kind.has_tcp and not _is_given(request.words, "listen"):
        return [*request.words, "--listen", kind.listen]
    if not kind.has_namespaces:
        return request.words
    engine = find_engine()
    holder = request.holder or _only_holder(request, kind, holders(engine))
    if not _holds(PROC / str(holder), engine):
        raise request.refusal(
            f"{OPTION} {kind.name}:{holder}",
            f"process {holder} holds no network namespaces that you may enter",
            "lab.not_a_holder",
            f"processes that hold some: {', '.join(map(str, holders(engine))) or f'none; {_start(kind)}'}",
        )
    return [*request.words, "--network-namespace", str(PROC / str(holder) / "ns" / "net")]


def holders(engine: Path) -> list[int]:
    """Return this user's processes that hold network namespaces."""
    processes = (entry for entry in PROC.iterdir() if entry.name.isdigit())
    return sorted(
        int(entry.name)
        for entry in processes
        if _holds(entry, engine) and entry.stat().st_uid == os.geteuid()
    )


def _holds(process: Path, engine: Path) -> bool:
    """True if a process, given by its folder in /proc, holds namespaces and belongs to this user."""
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
        return (process / "exe").readlink() == engine.resolve() and words[1:2] == [b"namespace"]
    except OSError:
        return False  # it has ended, or belongs to another user


def _only_holder(request: LabRequest, kind: Kind, found: Sequence[int]) -> int:
    lab = f"{OPTION} {kind.name}"
    if not found:
        raise request.refusal(lab, "no server runs in this lab", "lab.no_server", _start(kind))
    if len(found) > 1:
        hint = " or ".join(f"{lab}:{pid}" for pid in found)
        raise request.refusal(lab, f"{len(found)} servers run in this lab", "lab.several_servers", hint)
    return found[0]


def _start(kind: Kind) -> str:
    return f"start one first: {PROGRAM} serve DESIGN {OPTION} {kind.name}"
