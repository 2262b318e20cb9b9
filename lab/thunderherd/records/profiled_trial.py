"""One line of `profiles.jsonl`: a trial, and the call stacks that were seen in its window."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, Self

from pydantic import Field

from thunderherd.engine.lines import Profile, SampledStack
from thunderherd.engine.process import EngineError, json_object, understand
from thunderherd.records.extra_trials import ProfiledSide
from thunderherd.records.summary import Record, TrialRecord
from thunderherd.stacks.call_stacks import Frame, Stack, cut, samples_of
from thunderherd.stacks.symbols import Mode


class KeptStack(Record):
    """A call stack of a process, and when it was seen."""

    process: int = Field(
        description="of the side: 0 for a server, the number of the load process for clients"
    )
    command: str = Field(description="the name of the thread")
    frames: list[int] = Field(description="places in `functions`, outermost first")
    at_ns: list[int] = Field(description="one for each sample, since the window began")


class SideSamples(Record):
    """What was sampled of one side in a trial's window: of a whole life, in all of it."""

    event: str = Field(description="cycles, or cpu-clock where there is no PMU")
    why_not_cycles: str | None
    frequency_hertz: int
    scope: Literal["cpus", "tree"] = Field(
        description="sampled on every CPU, or in each process and thread as long as it lives"
    )
    why_not_cpus: str | None
    taken: int = Field(description="samples of the whole trial")
    cpu_ns: int = Field(description="CPU time of the whole trial, of which they were taken")
    lost: int = Field(description="samples that the kernel could not hand over, in the whole trial")
    throttled: int = Field(description="times that it took fewer than it was asked for")
    kernel_symbols: bool
    why_no_kernel_symbols: str | None
    outside: int = Field(description="samples before and after the window")
    functions: list[tuple[str, Mode]] = Field(description="all that are on a stack, by name")
    stacks: list[KeptStack]

    @classmethod
    def of(cls, files: Iterable[Path], window_ns: tuple[int, int] | None) -> Self:
        """The samples of the processes of a side, of each the file that the engine has written.

        `window_ns` by CLOCK_MONOTONIC; None is all that there is. Raises `EngineError` where a file is not as
        it should be.
        """
        profiles, kept, outside = [], [], 0
        places: dict[Frame, int] = {}
        for process, file in enumerate(files):
            profile, stacks = read_profile(file)
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
        """The stacks, of all processes."""
        frames = [Frame(symbol, mode) for symbol, mode in self.functions]
        return [
            Stack(each.command, tuple(frames[place] for place in each.frames), tuple(each.at_ns))
            for each in self.stacks
        ]


class ProfiledTrial(TrialRecord):
    """A trial in which both sides were sampled. None of its figures but these is used."""

    profiles: dict[ProfiledSide, SideSamples] = Field(default_factory=dict)


def read_profile(file: Path) -> tuple[Profile, list[Stack]]:
    """A file that the engine has written: how it was sampled, and the stacks.

    Raises `EngineError` where it is none, with the line.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise EngineError(f"the profile {file.name} cannot be read: {why}") from None
    if not lines:
        raise EngineError(f"the profile {file.name} is empty")
    profile = understand(Profile, lines[0], f"line 1 of the profile {file.name}")
    stacks = []
    for number, text in enumerate(lines[1:], start=2):
        what = f"line {number} of the profile {file.name}"
        if json_object(text, what).get("line") != "stack":
            raise EngineError(f"{what} is no stack: {text[:200]}")
        found = understand(SampledStack, text, what)
        frames = tuple(Frame(symbol, mode) for symbol, mode in found.frames)
        stacks.append(Stack(found.command, frames, tuple(found.at_ns)))
    return profile, stacks
