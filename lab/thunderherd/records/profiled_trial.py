"""One line of `profiles.jsonl`: a trial, and the call stacks sampled in its window."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from thunderherd.engine.places.failures import EngineError
from thunderherd.engine.process import json_object, understand
from thunderherd.engine.profile_lines import Profile, SampledStack
from thunderherd.files import read_text
from thunderherd.metrics.table import Side
from thunderherd.records.summary import Record, TrialRecord
from thunderherd.stacks.call_stacks import Frame, Stack, cut, samples_of
from thunderherd.stacks.symbols import Mode


class KeptStack(Record):
    """A call stack of a thread, and when it was sampled."""

    process: int = Field(
        description="number of the process on its side: 0 for a server, the number of the load process "
        "for clients"
    )
    command: str = Field(description="name of the thread")
    frames: list[int] = Field(description="indexes into `functions`, outermost frame first")
    at_ns: list[int] = Field(description="time of each sample, nanoseconds since the window began")


class SideSamples(Record):
    """The samples of one side: in the trial's window, or throughout a whole-life trial."""

    event: str = Field(description="the sampled event: cycles, or cpu-clock if there is no PMU")
    why_not_cycles: str | None = Field(description="why the event is not cycles. Null: it is")
    frequency_hertz: int = Field(description="requested samples per second of CPU time")
    scope: Literal["cpus", "tree"] = Field(
        description="cpus: every CPU was sampled; tree: each process and thread was sampled while it lived"
    )
    why_not_cpus: str | None = Field(description="why not every CPU was sampled. Null: every CPU was")
    taken: int = Field(description="samples of the whole trial")
    cpu_ns: int = Field(
        description="CPU time of the whole trial in which the samples were taken, nanoseconds"
    )
    lost: int = Field(description="samples of the whole trial that the kernel could not deliver")
    throttled: int = Field(description="how often the kernel took fewer samples than requested")
    kernel_symbols: bool = Field(description="whether the kernel's functions have names")
    why_no_kernel_symbols: str | None = Field(description="why they have no names. Null: they have")
    outside: int = Field(description="samples before and after the window, which are not in `stacks`")
    functions: list[tuple[str, Mode]] = Field(
        description="every function of a stack: its name and whether it ran in kernel or user mode"
    )
    stacks: list[KeptStack] = Field(description="the distinct call stacks")

    @model_validator(mode="after")
    def _frames_are_known(self) -> Self:
        """A file that somebody altered may name functions that it does not have."""
        known = range(len(self.functions))
        if any(place not in known for each in self.stacks for place in each.frames):
            raise ValueError("a stack has a function that is not in the list")
        return self

    @classmethod
    def of(
        cls,
        files: Iterable[Path],
        window_ns: tuple[int, int] | None,
        ahead_ns: Callable[[Path], int] = lambda file: 0,
    ) -> Self:
        """Reads the samples of a side, from one file of the engine for each of its processes.

        `window_ns` is on CLOCK_MONOTONIC of this machine; None keeps all samples. The clock of a file may be
        `ahead_ns` of that. Raises `EngineError` if a file is malformed.
        """
        profiles, kept, outside = [], [], 0
        places: dict[Frame, int] = {}
        for process, file in enumerate(files):
            profile, stacks = read_profile(file, ahead_ns(file))
            begins, ends = window_ns or (profile.from_ns, profile.to_ns + 1)
            inside = cut(stacks, begins, ends)
            outside += samples_of(stacks) - samples_of(inside)
            profiles.append(profile)
            kept += [
                KeptStack(
                    process=process,
                    command=each.command,
                    frames=[places.setdefault(frame, len(places)) for frame in each.frames],
                    at_ns=list(each.at_ns),
                )
                for each in inside
            ]
        first = profiles[0]
        reason = first.kernel_symbols if isinstance(first.kernel_symbols, str) else None
        return cls(
            event=first.event,
            why_not_cycles=first.why_not_cycles,
            frequency_hertz=first.frequency_hertz,
            scope=first.scope,
            why_not_cpus=first.why_not_cpus,
            taken=sum(each.samples for each in profiles),
            cpu_ns=sum(each.user_ns + each.system_ns for each in profiles),
            lost=sum(each.lost for each in profiles),
            throttled=sum(each.throttled for each in profiles),
            kernel_symbols=first.kernel_symbols is True,
            why_no_kernel_symbols=reason,
            outside=outside,
            functions=list(places),
            stacks=kept,
        )

    def read(self) -> list[Stack]:
        """The call stacks of all processes."""
        frames = [Frame(symbol, mode) for symbol, mode in self.functions]
        return [
            Stack(each.command, tuple(frames[place] for place in each.frames), tuple(each.at_ns))
            for each in self.stacks
        ]


class ProfiledTrial(TrialRecord):
    """A trial in which both sides were sampled. Only its samples are used, no other figure."""

    profiles: dict[Side, SideSamples] = Field(
        default_factory=dict, description="by side, its samples; empty if the trial is invalid"
    )


FRAMES = TypeAdapter(list[tuple[str, Mode]])
"""The functions of a stack, of whose parts the schema of the engine's lines says nothing."""


def read_profile(file: Path, ahead_ns: int = 0) -> tuple[Profile, list[Stack]]:
    """Reads a profile that the engine has written: how it was sampled, and the call stacks.

    Times become those of this machine's clock: that of the file is `ahead_ns` of it. Raises `EngineError` if
    it is malformed, with the line.
    """
    try:
        # Only \n ends a line: the name of a thread may have any other line end.
        lines = read_text(file).removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise EngineError(f"the profile {file.name} cannot be read: {why}") from None
    if lines == [""]:
        raise EngineError(f"the profile {file.name} is empty")
    profile = understand(Profile, lines[0], f"line 1 of the profile {file.name}")
    profile = profile.model_copy(
        update={"from_ns": profile.from_ns - ahead_ns, "to_ns": profile.to_ns - ahead_ns}
    )
    stacks = []
    for number, text in enumerate(lines[1:], start=2):
        what = f"line {number} of the profile {file.name}"
        if json_object(text, what).get("line") != "stack":
            raise EngineError(f"{what} is no stack: {text[:200]}")
        found = understand(SampledStack, text, what)
        try:
            frames = tuple(Frame(*each) for each in FRAMES.validate_python(found.frames))
        except ValidationError:
            raise EngineError(f"{what} has other things than functions: {text[:200]}") from None
        stacks.append(Stack(found.command, frames, tuple(at - ahead_ns for at in found.at_ns)))
    return profile, stacks
