"""Runs the engine: its catalogue, servers under control, loads. No other module starts a measured process.

The engine prints one JSON object a line (models in `engine.lines`). Every wait has a deadline. If something
fails, this module ends the processes that it started, by their ids. If this process is killed, the
parent-death signal that the engine sets (`--parent`) ends them.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from thunderherd.engine.catalogue import Catalogue, Setting, by_name, defaults
from thunderherd.engine.limit_lines import LimitRound, Limits, LimitUnavailable
from thunderherd.engine.lines import (
    Connected,
    Life,
    LoadResult,
    Mark,
    Namespaces,
    Ready,
    ServerSummary,
    Snapshot,
    Tally,
)
from thunderherd.engine.places.executable import find_engine
from thunderherd.engine.places.failures import EngineError, not_started
from thunderherd.engine.places.place import Place, Sampling
from thunderherd.engine.process import (
    SIGTERM_SECONDS,
    EngineProcess,
    Line,
    ending_in_words,
    json_object,
    one_line,
    understand,
)
from thunderherd.engine.profile_lines import Profile, ProfileCheck
from thunderherd.engine.setting_rules import SettingValue
from thunderherd.files import temporary_folder, write_bytes

__all__ = [
    "DesignReady",
    "DesignSnapshot",
    "DesignSummary",
    "EngineError",
    "LoadProcess",
    "NamespaceHolder",
    "OwnServer",
    "Place",
    "Sampling",
    "Server",
    "catalogue",
    "find_engine",
    "flame_graph",
    "limit_lines",
    "matrix",
    "output_of",
    "profile_check",
    "setting_flags",
    "start_load",
]

READY_SECONDS = 60.0
"""Time limit for the report that a server listens, or why not. The engine waits 10 s for a command to listen.
To begin and end the counting of every system call takes it seconds more, which vary."""
SNAPSHOT_SECONDS = 15.0
"""Time limit for a snapshot: a few reads, on a machine that may be overloaded."""
DEATH_SECONDS = 0.05
"""The time for a server whose sockets have ended to be seen as ended."""
STOP_SECONDS = 15.0
"""Time limit for a server to end, in addition to the drain that its settings allow."""
OWN_SERVER_STOP_SECONDS = 10.0
"""The time that the engine gives a server that is not ours to end, and then to be killed."""
PROFILE_SECONDS = 60.0
"""Time limit for naming the functions of a profile, after the sampled process has ended."""
LIST_SECONDS = 30.0
"""Time limit for printing the catalogue, or drawing a flame graph."""
LIMITS_SECONDS = 30.0
"""Time limit for measuring limits, in addition to four times the requested duration."""
START_AHEAD_NS, CALLS_TO_TELL = 200_000_000, 4
"""How far ahead the start of several loads lies: this time, plus this many quickest calls for each load.

A usual call takes 1.5 times as long as the quickest. The fixed time covers the slow ones.
"""

LimitLine = Limits | LimitRound | LimitUnavailable


def catalogue(engine: Path | None = None) -> Catalogue:
    """Return the engine's registries (`thunderherd-engine list --json`), read once per build."""
    path = engine or find_engine()
    return _catalogue(path, path.stat().st_mtime_ns)


def matrix(engine: Path | None = None) -> str:
    """Return the matrix of combinations as text (`thunderherd-engine list --matrix`)."""
    return _listed(engine or find_engine(), "--matrix")


def profile_check(engine: Path | None = None) -> ProfileCheck:
    """Return how this machine could be sampled (`thunderherd-engine profile --check`)."""
    command = [str(engine or find_engine()), "profile", "--check"]
    return understand(ProfileCheck, output_of(command, " ".join(command)), "the profile check")


@lru_cache(maxsize=4)
def _catalogue(engine: Path, _modified_ns: int) -> Catalogue:
    found = understand(Catalogue, _listed(engine, "--json"), "the engine's catalogue")
    return found.model_copy(update={"engine": engine})


def _listed(engine: Path, form: str) -> str:
    """Return the engine's registries in one form."""
    return output_of([str(engine), "list", form], f"{engine} list {form}")


def flame_graph(
    stacks: Path,
    output: Path,
    *,
    title: str,
    subtitle: str,
    unit: str,
    before: Path | None = None,
    engine: Path | None = None,
) -> None:
    """Draw a file of folded stacks as a flame graph (SVG).

    With `before`, colours show the differences from those stacks. Raise `EngineError` if the engine fails.
    """
    words = ["--title", title, "--subtitle", subtitle, "--unit", unit]
    against = ["--before", str(before)] if before else []
    with temporary_folder() as folder:
        # The engine would follow a link.
        drawn = folder / "flame.svg"
        where = ["--output", str(drawn), "--", str(stacks)]
        output_of([str(engine or find_engine()), "flame", *words, *against, *where], "flame")
        write_bytes(output, drawn.read_bytes())


def output_of(command: Sequence[str], shown: str) -> str:
    """Run a short command of the engine and return its output.

    Raise `EngineError` if it fails; the message names the command as `shown`.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise EngineError(f"`{shown}` did not end within {LIST_SECONDS:g} s") from None
    except OSError as error:
        raise not_started(command[0], error) from None
    if done.returncode != 0:
        printed = one_line(done.stderr)
        raise EngineError(f"`{shown}` failed: {ending_in_words(done.returncode)}: {printed}")
    return done.stdout


def setting_flags(settings: Mapping[str, SettingValue], declared: Mapping[str, Setting]) -> list[str]:
    """Return settings as options of the engine: `{"drain": 5000000}` becomes `--drain 5ms`."""
    flags: list[str] = []
    for name, value in settings.items():
        if isinstance(value, bool):
            text = "true" if value else "false"
        else:
            text = str(declared[name].write(value) if name in declared else value)
        flags += [f"--{name.replace('_', '-')}", text]
    return flags


def _flags_of_ends(settings: Mapping[str, SettingValue] | None, place: Place) -> list[str]:
    """Return settings of a server or a load as options."""
    return setting_flags(settings, catalogue(place.local_engine).of_ends) if settings else []


def longest_limits_seconds(settings: Mapping[str, SettingValue], offered: Iterable[Setting]) -> float:
    """Return how long the engine may measure the limits before it is given up."""
    requested = settings.get("duration", defaults(by_name(offered)).get("duration", 0))
    return LIMITS_SECONDS + 4 * int(requested) / 1e9


def limit_lines(
    names: Sequence[str] = (),
    *,
    cpus: Sequence[int] | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    engine: Path | None = None,
) -> Iterator[str]:
    """Measure the named limits of the machine (default: all), and yield each line of the engine at once.

    `limit_line` reads a line. Main thread only. Raise `UserError` if the engine refuses an argument, and
    `EngineError` if it fails.
    """
    given = dict(settings or {})
    declared = by_name(catalogue(engine).limit_settings)
    place = Place(engine)
    words = ["limits", *names, *place.flags(cpus), *setting_flags(given, declared)]
    process = EngineProcess(place.start(place.command(words), control=False), "engine limits")
    try:
        deadline = time.monotonic() + longest_limits_seconds(given, declared.values())
        while (text := process.next_line(deadline)) is not None:
            yield text
    finally:
        process.end()


def limit_line(text: str) -> LimitLine:
    """Read a line of `limit_lines`; raise `EngineError` if it is not one."""
    what = "a line of engine limits"
    models: dict[str, type[LimitLine]] = {"limit_round": LimitRound, "limit_unavailable": LimitUnavailable}
    return understand(models.get(str(json_object(text, what).get("line")), Limits), text, what)


LAST_LINES = ("life", "profile")
"""Lines that follow after the counted or sampled process has ended."""
NO_RESULT = ("refused", *LAST_LINES)
"""Lines that show that a load has ended without a result."""


class _Held:
    """A process of the engine that lives as long as a `with` block."""

    _process: EngineProcess | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.end()


if TYPE_CHECKING:

    class DesignReady(Ready):
        """The line of one of our servers, whose processes are known."""

        server_pid: int

    class DesignSnapshot(Snapshot):
        """A snapshot of one of our servers, which count."""

        tally: Tally

    class DesignSummary(ServerSummary):
        """The account of one of our servers, which count."""

        tally: Tally

else:
    DesignReady, DesignSnapshot, DesignSummary = Ready, Snapshot, ServerSummary


class _Controlled(_Held):
    """A server under control.

    It listens when the block begins (`ready` has its port). `snapshot()` may be called at any time, `stop()`
    once. Leaving the block without `stop()` ends the server and discards its account. Main thread only.

    Each snapshot has the figures of the requested counters. With `whole_life` these are counted from exec to
    exit, and `life` has them after `stop()`. If it is sampled, which excludes `whole_life`, the stacks are
    then in a file, and `profile` describes how they were taken.
    """

    ready: Ready
    life: Life | None = None
    profile: Profile | None = None

    def __init__(
        self,
        place: Place,
        command: list[str],
        what: str,
        *,
        whole_life: bool = False,
        sampled: bool = False,
        stop_seconds: float = 0.0,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.command = command
        self._place, self._what, self._whole_life, self._sampled = place, what, whole_life, sampled
        self._directory, self._environment = directory, environment
        self._stop_seconds = STOP_SECONDS + stop_seconds
        self._summary: ServerSummary | None = None

    def __enter__(self) -> Self:
        channel = self._place.start(
            self.command, control=True, directory=self._directory, environment=self._environment
        )
        self._process = EngineProcess(channel, self._what)
        try:
            self.ready = self._next(Ready, "ready", READY_SECONDS)
        except BaseException:
            self._process.end()
            raise
        return self

    def snapshot(self) -> Snapshot:
        """Return the server's tally and CPU time since its start; raise `EngineError` if it has died."""
        self._running().write_line("snapshot")
        return self._next(Snapshot, "snapshot", SNAPSHOT_SECONDS)

    def death(self) -> str | None:
        """Return how it ended without a request, with the end of its output; None if it has not."""
        if self._summary is not None:  # it was stopped
            return None
        with contextlib.suppress(EngineError):
            for _ in range(2):
                self.snapshot()
                time.sleep(DEATH_SECONDS)  # its sockets are closed before it can be waited for
        return self._summary.died if self._summary is not None else None

    def _stop(self) -> ServerSummary:
        process = self._running()
        process.close_input()
        deadline = time.monotonic() + self._stop_seconds
        while self._summary is None:  # a reply to an earlier request may still come before the summary
            self._summary = self._parse(ServerSummary, process.read_line(deadline), "summary")
        if self._whole_life:
            self.life = self._parse(Life, process.read_line(deadline), "life")
        if self._sampled:
            deadline += PROFILE_SECONDS
            self.profile = self._parse(Profile, process.read_line(deadline), "profile")
        process.wait(deadline)
        process.end()
        return self._summary

    def _next(self, model: type[Line], expected: str, seconds: float) -> Line:
        process = self._running()
        found = self._parse(model, process.read_line(time.monotonic() + seconds), expected)
        if found is None:
            assert self._summary is not None
            died = self._summary.died or "ended without a request to stop"
            raise EngineError(f"{process.what}: {died}{process.stderr_note()}")
        return found

    def _parse(self, model: type[Line], text: str, expected: str) -> Line | None:
        """Return the line as `model`; None if it is another line than expected (a summary is kept)."""
        what = self._running().what
        line = json_object(text, what).get("line")
        if line in LAST_LINES and line != expected:
            self._running().fail_at_end(time.monotonic() + SIGTERM_SECONDS)
        if line == expected:
            return understand(model, text, f"a line of {what}")
        if line == "summary":
            self._summary = understand(ServerSummary, text, f"a line of {what}")
            return None
        if expected == "summary":
            return None
        raise EngineError(f"{what} printed {line!r} instead of {expected!r}: {text[:200]}")

    def _running(self) -> EngineProcess:
        if self._process is None:
            raise RuntimeError("the server was not started: use it in a `with` block")
        return self._process


class Server(_Controlled):
    """A design under control: `with Server("prefork", workload="bytes", primitive="writev") as server:`."""

    ready: DesignReady

    def __init__(
        self,
        design: str,
        *,
        workload: str,
        primitive: str | None = None,
        receive: str | None = None,
        settings: Mapping[str, SettingValue] | None = None,
        cpus: Sequence[int] | None = None,
        listen: str = "127.0.0.1:0",
        user: str | None = None,
        counters: Sequence[str] = (),
        whole_life: bool = False,
        sampling: Sampling | None = None,
        place: Place | None = None,
    ) -> None:
        where = place or Place()
        words = [
            "serve", design, "--workload", workload, *way_flags(primitive, receive), "--listen", listen,
            "--control", *where.flags(cpus, user), *_flags_of_ends(settings, where),
        ]  # fmt: skip
        super().__init__(
            where,
            where.command(words, counters, whole_life=whole_life, sampling=sampling),
            f"server {design}",
            whole_life=whole_life,
            sampled=sampling is not None,
            stop_seconds=int((settings or {}).get("drain", 0)) / 1e9,
        )

    def snapshot(self) -> DesignSnapshot:
        """Return the server's tally and CPU time since its start; raise `EngineError` if it has died."""
        return cast(DesignSnapshot, super().snapshot())

    def stop(self) -> DesignSummary:
        """Let the server drain and end; return the account of its whole life, with `died` if it failed."""
        return cast(DesignSummary, self._stop())


class OwnServer(_Controlled):
    """A server that is not ours: run from its command, or, without one, running already at `address`.

    Its snapshots have no tally. A command gets the address by `{host}` and `{port}`, and by HOST and PORT in
    its environment; with port 0 it gets a free port. It is ready when it accepts, or when it prints
    `ready_line`. The last line of its output is in the message of an `EngineError`.
    """

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        name: str,
        address: str = "127.0.0.1:0",
        ready_line: str | None = None,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        cpus: Sequence[int] | None = None,
        user: str | None = None,
        counters: Sequence[str] = (),
        sampling: Sampling | None = None,
        place: Place | None = None,
    ) -> None:
        where = place or Place()
        words = [
            "host", "--listen", address, *where.flags(cpus, user),
            *(["--ready-line", ready_line] if ready_line else []), *([] if command else ["--running"]),
        ]  # fmt: skip
        line = where.command(words, counters, sampling=sampling)
        super().__init__(
            where,
            [*line, *(["--", *command] if command else [])],
            f"server {name}",
            sampled=sampling is not None,
            stop_seconds=OWN_SERVER_STOP_SECONDS,
            directory=directory,
            environment=environment,
        )
        self._keeps_running = not command

    def stop(self) -> ServerSummary | None:
        """Let the server end; return the account of its whole life, with `died` if it failed.

        A server that was running before keeps running, and has no account.
        """
        if not self._keeps_running:
            return self._stop()
        self._running().end()
        return None


class NamespaceHolder(_Held):
    """Two network namespaces joined by a pair of interfaces: `with NamespaceHolder({}) as holder:`.

    They exist while the block runs (`namespaces` has their paths). Afterwards they vanish with the last
    process in them. They also end with this process. Main thread only.
    """

    namespaces: Namespaces

    def __init__(
        self, settings: Mapping[str, SettingValue], sysctls: Sequence[str] = (), engine: Path | None = None
    ) -> None:
        names = ["--sysctls", ",".join(sysctls)] if sysctls else []
        own = catalogue(engine).namespace if settings else None
        flags = setting_flags(settings, by_name(own.settings if own else ()))
        self._place = Place(engine)
        self._command = self._place.command(["namespace", *names, *flags])

    def __enter__(self) -> Self:
        channel = self._place.start(self._command, control=True)
        self._process = EngineProcess(channel, "the holder of network namespaces")
        try:
            text = self._process.read_line(time.monotonic() + READY_SECONDS)
            self.namespaces = understand(Namespaces, text, "a line of the holder of network namespaces")
        except BaseException:
            self._process.end()
            raise
        return self

    def ending(self) -> str | None:
        """Return how it ended without a request; None while it holds them."""
        return self._process.ending() if self._process is not None else None


class LoadProcess:
    """A running load. Call `wait()` once; `end()` may be called at any time.

    A load that ends by time marks the beginning and the end of its window (`mark()`). After `wait()`, `life`
    has the figures of a load that is counted over its whole life. `profile` describes how it was sampled.
    """

    life: Life | None = None
    profile: Profile | None = None

    def __init__(
        self,
        place: Place,
        command: Sequence[str],
        workload: str,
        *,
        whole_life: bool = False,
        sampled: bool = False,
        awaits_start: bool = False,
    ) -> None:
        self.command = list(command)
        self._process = EngineProcess(place.start(command, control=awaits_start), f"load {workload}")
        self.place = place
        self._whole_life, self._sampled = whole_life, sampled
        self._result: LoadResult | None = None

    def connected(self, seconds: float) -> None:
        """Wait until all its clients are about to send, if it awaits a start."""
        text = self._process.read_line(time.monotonic() + seconds)
        if json_object(text, self._process.what).get("line") in NO_RESULT:
            self._process.fail_at_end(time.monotonic() + SIGTERM_SECONDS)
        understand(Connected, text, "a line of the load")

    def start(self, at_ns: int) -> None:
        """Let its clients send from a time on (`time.monotonic_ns`)."""
        self._process.write_line(f"start {self.place.time_there(at_ns)}")

    def mark(self, seconds: float) -> Mark | None:
        """Return its next mark, within `seconds`; None if it ends without one."""
        found = self._next(time.monotonic() + seconds)
        if isinstance(found, LoadResult):
            self._result = found
            return None
        return found

    def wait(self, seconds: float) -> LoadResult:
        """Return its result, within `seconds`.

        Raise `EngineError` if it has none, and `UserError` if the engine refused its arguments.
        """
        deadline = time.monotonic() + seconds
        try:
            while self._result is None:
                found = self._next(deadline)
                self._result = found if isinstance(found, LoadResult) else None
            if self._whole_life:
                self.life = understand(Life, self._process.read_line(deadline), "the load's life")
            if self._sampled:
                deadline += PROFILE_SECONDS
                self.profile = understand(Profile, self._process.read_line(deadline), "the load's profile")
            self._process.wait(deadline)
        finally:
            self._process.end(at_once=True)
        return self._result

    def _next(self, deadline: float) -> Mark | LoadResult:
        text = self._process.read_line(deadline)
        line = json_object(text, self._process.what).get("line")
        if line == "mark":
            return understand(Mark, text, "a mark of the load")
        if line in NO_RESULT:
            self._process.fail_at_end(deadline)
        return understand(LoadResult, text, "the load's result")

    def end(self) -> None:
        """Kill it if it still runs."""
        self._process.end(at_once=True)


def start_load(
    workload: str,
    address: str,
    *,
    kind: str | None = None,
    primitive: str | None = None,
    receive: str | None = None,
    settings: Mapping[str, SettingValue] | None = None,
    cpus: Sequence[int] | None = None,
    user: str | None = None,
    counters: Sequence[str] = (),
    whole_life: bool = False,
    sampling: Sampling | None = None,
    awaits_start: bool = False,
    place: Place | None = None,
) -> LoadProcess:
    """Start one load process for the server at `address` (host:port). Main thread only.

    Without `kind`, `primitive` and `receive`, the engine uses its default load and primitives. A load that
    `awaits_start` sends nothing before `LoadProcess.start`.
    """
    where = place or Place()
    words = [
        "load", workload, "--connect", address, *(["--load", kind] if kind else []), "--json",
        *way_flags(primitive, receive), *where.flags(cpus, user), *where.load_flags(),
        *(["--control"] if awaits_start else []), *_flags_of_ends(settings, where),
    ]  # fmt: skip
    command = where.command(words, counters, whole_life=whole_life, sampling=sampling)
    return LoadProcess(
        where,
        command,
        workload,
        whole_life=whole_life,
        sampled=sampling is not None,
        awaits_start=awaits_start,
    )


def start_ahead_ns(round_trips_ns: Sequence[int]) -> int:
    """Return how far ahead the start of several loads must lie, so that the last of them hears of it in time.

    They are told of it one after another. `round_trips_ns` has the quickest call to each load's place.
    """
    return START_AHEAD_NS + CALLS_TO_TELL * sum(round_trips_ns)


def start_together(loads: Sequence[LoadProcess]) -> int:
    """Let the clients of all loads send from the same time on, and return it (`time.monotonic_ns`).

    Raises `EngineError` if that time had come before the last load knew of it.
    """
    at_ns = time.monotonic_ns() + start_ahead_ns([each.place.round_trip_ns for each in loads])
    for each in loads:
        each.start(at_ns)
    if (late_ns := time.monotonic_ns() - at_ns) > 0:
        raise EngineError(
            f"the last of {len(loads)} loads heard of its start {late_ns / 1e6:.0f} ms too late: the calls "
            "to its host take longer than before the trial"
        )
    return at_ns


def way_flags(primitive: str | None = None, receive: str | None = None) -> list[str]:
    """Return the primitives as options of the engine."""
    return [
        *(["--primitive", primitive] if primitive else []),
        *(["--receive", receive] if receive else []),
    ]
