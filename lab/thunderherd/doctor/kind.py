"""What an examination of this machine is, what it finds, and what it is given (`examinations/`).

An examination looks at one thing that figures depend on. What it needs of the machine it reads by `machine`
and `noise`, from files below `machine.ROOT` and `noise.PROC`: another root is another machine. What is no
file is in `Here`. Nothing is changed, and nobody is stopped: a finding says what to type.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.lines import ProfileCheck
from thunderherd.machine import description
from thunderherd.machine.busy import Watched
from thunderherd.machine.counting_cost import CountingCheck
from thunderherd.machine.noise import NoiseLimits

Judgement = Literal["good", "notable", "stops", "unknown"]
"""`notable`: worth knowing, since figures depend on it. `stops`: something cannot be done or measured here.
`unknown`: this machine does not tell."""


class Told(BaseModel):
    """Something that `thunderherd doctor` says, on its page and as JSON."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True, defer_build=True
    )


class Change(Told):
    """What to type to change something."""

    command: str = Field(description="for a shell; with sudo where root is needed and the user is not root")
    root: bool = Field(description="whether it needs root")
    undo: str | None = Field(
        default=None, description="what to type to have it as it was; null: nothing to undo"
    )


class Finding(Told):
    """What was seen of one thing, and what that means."""

    name: str
    seen: str = Field(description="the value, or why it cannot be told")
    judgement: Judgement
    means: str = Field(default="", description="what it means for measurements")
    changes: tuple[Change, ...] = Field(default=(), description="any of them helps")


def good(name: str, seen: str, means: str) -> Finding:
    """Nothing to be done."""
    return Finding(name=name, seen=seen, judgement="good", means=means)


def notable(name: str, seen: str, means: str, *changes: Change) -> Finding:
    """Worth knowing, and what changes it, where something does."""
    return Finding(name=name, seen=seen, judgement="notable", means=means, changes=changes)


def stops(name: str, seen: str, means: str, *changes: Change) -> Finding:
    """Something cannot be done or measured here."""
    return Finding(name=name, seen=seen, judgement="stops", means=means, changes=changes)


@dataclass(frozen=True)
class Here:
    """What examinations are given that is no file.

    `watched` is what went on while nothing of ours ran; `allowed` how much of that a study allows where it
    says nothing else. `profile` is what a profile would be, as the engine has tried it; `counting`
    what counting the processor's events costs, where that has been tried.
    """

    catalogue: Catalogue
    watched: Watched
    allowed: NoiseLimits
    profile: ProfileCheck
    counting: CountingCheck | None = None


Look = Callable[[Here], Iterator[Finding]]
"""One look at the machine. Raises `machine.Unavailable`, `OSError` or `ValueError` where it shows nothing."""


@dataclass(frozen=True)
class Examination:
    """Looks that belong together, under a title; one that shows nothing does not hinder the others. A look
    has the name of the function, in words."""

    title: str
    looks: tuple[Look, ...]

    def findings(self, here: Here) -> tuple[Finding, ...]:
        """What all the looks have found."""
        found: list[Finding] = []
        for look in self.looks:
            try:
                found += look(here)
            except (description.Unavailable, OSError, ValueError) as error:
                found.append(unresolved(look.__name__.replace("_", " "), error))
        return tuple(found)


def unresolved(name: str, error: Exception) -> Finding:
    """What a look could not find out, what that means, and what would help: by the kind of the error."""
    path, changes = "", tuple[Change, ...]()
    if isinstance(error, OSError) and error.filename is not None:
        path = f"/{os.path.relpath(error.filename, description.ROOT)}"
    if isinstance(error, PermissionError):
        means = "this user may not read it, root may"
        changes = () if is_known_root() else (as_root("thunderherd doctor"),)
    elif (mount := path.partition("/")[2].partition("/")[0]) in MOUNTS and not exists(mount):
        means = f"/{mount} is not mounted here"
        kind = MOUNTS[mount]
        changes = (as_root(f"mount -t {kind} {kind} /{mount}", f"umount /{mount}"),)
    elif isinstance(error, FileNotFoundError):
        means = (
            "this kernel does not have it, or a virtual machine or container keeps it from its guests: what "
            f"follows for figures is not known here. Where there is a host, look there: cat {path}"
        )
    elif isinstance(error, ValueError):
        means = (
            "it has a form that this program does not know, so that nothing follows from it: look at it "
            "yourself, and tell those who write this program, with what `thunderherd doctor --json` says"
        )
    else:
        means = (
            "what follows for figures is not known here. A virtual machine or a container may keep it from "
            "its guests: look on its host, with `thunderherd doctor` there"
        )
    return Finding(
        name=name, seen=description.reason(error), judgement="unknown", means=means, changes=changes
    )


MOUNTS = {"proc": "proc", "sys": "sysfs"}
"""What kernels tell of themselves by, and what it takes to mount it (mount(8))."""


def is_known_root() -> bool:
    """Whether this process is known to be root's."""
    try:
        return is_root()
    except (description.Unavailable, OSError, ValueError):
        return False


# Who asks ---------------------------------------------------------------------------------------------------

CAPABILITIES = {"SYS_ADMIN": 21, "IPC_LOCK": 14, "SYS_RESOURCE": 24, "PERFMON": 38, "BPF": 39}
"""Bits of CapEff (capabilities(7), linux/capability.h)."""


def may(*names: str) -> bool:
    """Whether this process has one of these capabilities."""
    effective = int(description.field("proc/self/status", "CapEff"), 16)
    return any(effective >> CAPABILITIES[name] & 1 for name in names)


def is_root() -> bool:
    """Whether this process is root's, also where it has not all of root's capabilities."""
    return description.field("proc/self/status", "Uid").split()[1:2] == ["0"]


def usable_cpus() -> list[int]:
    """The CPUs that this process may run on."""
    return description.cpu_list(description.field("proc/self/status", "Cpus_allowed_list"))


def setting(name: str) -> str:
    """The value of a kernel setting, by its name as `sysctl` has it, with single blanks between its words."""
    return " ".join(description.text(path_of(name)).split())


def path_of(name: str) -> str:
    """Where a kernel setting is, below the root (proc_sys(5))."""
    return f"proc/sys/{name.replace('.', '/')}"


def has(name: str) -> bool:
    """Whether this kernel has such a setting."""
    return exists(path_of(name))


# What to type -----------------------------------------------------------------------------------------------


def as_root(command: str, undo: str | None = None) -> Change:
    """A command that needs root."""
    sudo = "" if is_known_root() else "sudo "
    return Change(command=sudo + command, root=True, undo=undo and sudo + undo)


def sysctl(name: str, value: int | str) -> Change:
    """Gives a kernel setting, which exists, another value until the next start (sysctl(8))."""
    return as_root(f"sysctl -w {name}={_word(value)}", f"sysctl -w {name}={_word(setting(name))}")


def write(path: str, value: str, old: str) -> Change:
    """Writes a word into files of the kernel's; `path` is below the root, and may have a `*`."""
    to = f"{'' if is_root() else 'sudo '}tee /{path}"
    return Change(command=f"echo {value} | {to}", root=True, undo=f"echo {old} | {to}")


def raise_limit(option: str, value: int, soft: str, hard: str) -> Change:
    """Raises a limit of the shell that it is typed in, and of what is started there (prlimit(1))."""
    return as_root(
        f"prlimit --pid $$ --{option}={value}:{value}", f"prlimit --pid $$ --{option}={soft}:{hard}"
    )


def _word(value: int | str) -> str:
    """A value as one word of a shell."""
    text = str(value)
    return f"'{text}'" if " " in text else text


def exists(path: str) -> bool:
    """Whether there is a file of that name below the root, and this user may know it."""
    return os.access(description.ROOT / path, os.F_OK)


def readable(path: str) -> bool:
    """Whether there is a file of that name below the root, and this user may read it."""
    return os.access(description.ROOT / path, os.R_OK)


def below(pattern: str) -> list[str]:
    """The files that a pattern names, by their paths below the root, in order."""
    return sorted(str(path.relative_to(description.ROOT)) for path in description.ROOT.glob(pattern))
