"""Programs that are not ours and run to their end: load generators, builds, and questions for versions.

The engine (`generate`) runs each. It kills what the program leaves running, and everything if this process is
killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from thunderherd.engine.client import PROFILE_SECONDS
from thunderherd.engine.line_base import SCHEMA
from thunderherd.engine.lines import Latency, Life, LoadResult, Tally
from thunderherd.engine.outputs.base import Direction
from thunderherd.engine.outputs.parsers import LoadGeneratorOutput, UnreadableError, parsed
from thunderherd.engine.places.channel import KILL_SECONDS, Channel, Environment
from thunderherd.engine.places.executable import ENGINE_NAME
from thunderherd.engine.places.failures import EngineError
from thunderherd.engine.places.place import Place, Sampling
from thunderherd.engine.process import ending_in_words, one_line, problem_in, understand

LARGEST_OUTPUT = 1 << 20
"""The most bytes that a load generator may print."""
ROUNDED = 0.02
"""How much longer than it ran a load generator may say, as a share and in seconds: some round their time."""
LONGEST_NOTE = 200
"""The most characters of an output in a message."""
USED = {*Life.model_fields} & {*LoadResult.model_fields} - {"line", "elapsed_ns", "started_monotonic_ns"}
"""What the account of its life says about counters and resources, as the result of a load does."""
LONGEST_ACCOUNT = 1 << 16
"""The most bytes of the engine's line about its whole life, which follows its output."""
ACCOUNT = b'{"line":"life",'
"""The beginning of that line."""
LONGEST_END = 2 * LONGEST_ACCOUNT
"""The most bytes of the end of a program's output that are kept, with that line."""
BYTES: Mapping[Direction | None, str] = {
    "to_server": "bytes_sent",
    "to_clients": "bytes_received",
    None: "bytes_received",
}
"""The direction of a stream, or none → the count of the clients that has its bytes."""


class LoadGeneratorError(EngineError):
    """A load generator that failed. The message ends with the code in brackets."""

    def __init__(self, message: str, code: str) -> None:
        self.code = code
        super().__init__(f"{message} [{code}]")


class OwnLoad:
    """A running load generator. Call `wait()` once; `end()` may be called at any time. Main thread only.

    The engine starts it, counts all its processes, and ends those that it leaves.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        parser: str,
        workload: str,
        address: str,
        directory: Path | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        cpus: Sequence[int] | None = None,
        counters: Sequence[str] = (),
        sampling: Sampling | None = None,
        place: Place | None = None,
    ) -> None:
        self.command, self.parser = list(command), parser
        self._workload, self._address = workload, address
        self._name = f"load {Path(command[0]).name}"
        self._output = b""
        where = place or Place()
        words = where.command(["generate", *where.flags(cpus, user)], counters, sampling=sampling)
        self._end_seconds = KILL_SECONDS + (PROFILE_SECONDS if sampling else 0)
        self._channel: Channel = where.start(
            [*words, "--", *command], control=False, directory=directory, environment=environment
        )
        self._ended = False

    def wait(self, seconds: float) -> LoadResult:
        """Return its result, or raise `LoadGeneratorError` after `seconds`. Nothing is left running."""
        try:
            self._read(time.monotonic() + seconds, seconds)
            life = self._life(time.monotonic() + self._end_seconds)
            if life.status != 0:
                ended = ending_in_words(_exit_status(life))
                raise LoadGeneratorError(
                    f"{self._name} failed: {ended}{self._note()}", "load_generator.failed"
                )
            try:
                output = parsed(self.parser, self._output.decode(errors="replace"))
            except UnreadableError as error:
                raise LoadGeneratorError(
                    f"{self._name}: {error} in its output{self._note()}", "load_generator.unreadable_output"
                ) from None
            ran = life.elapsed_ns / 1e9
            if output.seconds > ran * (1 + ROUNDED) + ROUNDED:
                message = f"{self._name} reports {output.seconds:.3g} s, but ran {ran:.3g} s"
                raise LoadGeneratorError(message, "load_generator.longer_than_it_ran")
            return self._result(output, life)
        finally:
            self.end()

    def _read(self, deadline: float, seconds: float) -> None:
        """Read its output to its end."""
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise LoadGeneratorError(
                    f"{self._name} did not end within {seconds:.0f} s", "load_generator.not_ended"
                )
            piece = self._channel.read(min(left, self._channel.look_seconds))
            printed = len(self._output) + (self._channel.errors_size() if not piece else 0)
            if printed > LARGEST_OUTPUT + LONGEST_ACCOUNT:
                raise LoadGeneratorError(
                    f"{self._name} printed more than {LARGEST_OUTPUT >> 20} MiB",
                    "load_generator.too_much_output",
                )
            if piece == b"":
                return
            self._output += piece or b""

    def _life(self, deadline: float) -> Life:
        """Wait for the engine, take its line off the output, and return it."""
        if self._channel.wait(deadline - time.monotonic()) is None:
            raise LoadGeneratorError(
                f"{self._name} closed its output and did not end", "load_generator.not_ended"
            )
        self._output, life = _parted(self._output, self._name, self._channel)
        if life is None:
            raise LoadGeneratorError(
                f"{self._name} was not started{self._note()}", "load_generator.not_started"
            )
        return life

    def _result(self, output: LoadGeneratorOutput, life: Life) -> LoadResult:
        """Return its result as one of our loads reports it. Its time ends with the process."""
        started_ns = life.started_monotonic_ns or 0
        ended_ns = started_ns + life.elapsed_ns
        counts = {name: 0 for name in Tally.model_fields if name != "errors"}
        counts |= {"requests": output.requests or 0, BYTES[output.direction]: output.bytes or 0}
        errors = {"load_generator": output.errors} if output.errors else {}
        return LoadResult.model_validate(
            {
                "schema": SCHEMA,
                "workload": self._workload,
                "address": self._address,
                "load": self.parser,
                "primitive": "",
                "receive": "",
                "measured_by": f"bytes_{output.direction}" if output.direction else "requests",
                "tally": Tally.model_validate({**counts, "errors": errors}),
                "elapsed_ns": round(output.seconds * 1e9),
                "started_monotonic_ns": ended_ns - round(output.seconds * 1e9),
                "ended_monotonic_ns": ended_ns,
                "counted_from_ns": started_ns,
                "counted_to_ns": ended_ns,
                "latency": _latency(output),
                **life.model_dump(include=USED),
            }
        )

    def _note(self) -> str:
        """Return the end of what it printed, for the end of a message."""
        text = one_line(self._channel.errors() or self._output[-4096:].decode(errors="replace"))
        shown = "".join(each if each.isprintable() else "?" for each in text)[-LONGEST_NOTE:]
        return f": {shown}" if shown else ""

    def end(self) -> None:
        """End all of its processes, also those in other sessions."""
        if self._ended:
            return
        self._ended = True
        self._channel.end()


def _latency(output: LoadGeneratorOutput) -> Latency | None:
    """Return its latencies; None if it reports none."""
    if not output.latency:
        return None
    whole = {
        f"{name}_ns": seconds * 1e9 if name == "mean" else round(seconds * 1e9)
        for name, seconds in output.latency.items()
    }
    return Latency.model_validate({"requests": output.requests or 0, "from": output.starts, **whole})


def run_program(
    command: Sequence[str],
    seconds: float,
    *,
    directory: Path | None = None,
    environment: Environment | None = None,
    user: str | None = None,
    log: BinaryIO | None = None,
    place: Place | None = None,
) -> tuple[int, str]:
    """Run a program to its end; return its exit status and the end of its output. Main thread only.

    A negative status is the number of the signal that killed it. Nothing is left running, even if this
    process is killed.

    Parameters
    ----------
    command
        The program and its arguments.
    seconds
        The time after which the program is ended, with `TimeoutError`.
    directory, environment, user
        Where it runs, with which variables besides those of this process, and as whom; by default, as this
        process.
    log
        A new file for the whole output.
    place
        Where it runs; by default, on this machine.

    Raises
    ------
    EngineError
        The program cannot be started, or not be ended.
    """
    where = place or Place()
    words = [*where.command(["generate", *where.flags(user=user)]), "--", *command]
    channel = where.start(words, control=False, directory=directory, environment=environment, merged=True)
    deadline, output = time.monotonic() + seconds, b""
    try:
        while (piece := channel.read(deadline - time.monotonic())) != b"":
            if piece is None:
                raise TimeoutError(f"{command[0]} did not end within {seconds:g} s")
            output = (output + piece)[-LONGEST_END:]
            if log is not None:
                log.write(piece)
                log.flush()
        # The engine has closed its output, so it ends.
        status = channel.wait(KILL_SECONDS)
    finally:
        channel.end()
    own, life = _parted(output, command[0], channel)
    if status is None:
        raise EngineError(f"{command[0]} closed its output and did not end")
    if life is None and status >= 0:
        _, _, why = own.decode(errors="replace").partition(f"{ENGINE_NAME}: ")
        # Two processes of the engine may complain; the first knows why.
        raise EngineError(problem_in(why.partition(f"\n{ENGINE_NAME}: ")[0]).message)
    if log is not None:
        log.seek(len(own) - len(output), os.SEEK_END)
        log.truncate()
    return status if life is None else _exit_status(life), own.decode(errors="replace")


def _parted(output: bytes, name: str, channel: Channel) -> tuple[bytes, Life | None]:
    """Part the engine's line from the output before it; None if the program was not started."""
    before, account, line = output.rpartition(ACCOUNT)
    # The line of a profile follows.
    line, end, _ = line.partition(b"\n")
    if not account or not end:
        return output, None
    text = channel.translated((account + line).decode(errors="replace"))
    return before, understand(Life, text, f"the life of {name}")


def _exit_status(life: Life) -> int:
    """Return an exit status as `subprocess` has it: negative for a signal."""
    number = life.status - 128
    return -number if number in signal.valid_signals() else life.status
