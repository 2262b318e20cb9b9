"""Examinations and their findings.

An examination looks at one property of the machine that figures depend on. It reads files through `machine`,
below `description.ROOT` and `proc.PROC`; another root is another machine. Everything that is not a file is in
`Here`. Nothing is changed and no process stopped: a finding says what to type.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.profile_lines import ProfileCheck
from thunderherd.machine import description
from thunderherd.machine.busy import Watched
from thunderherd.machine.counting_cost import CountingCheck
from thunderherd.machine.noise import NoiseLimits

Judgement = Literal["good", "notable", "stops", "unknown"]
"""notable: figures depend on it. stops: something cannot be done or measured here. unknown: the machine does
not show it."""


class DoctorOutput(BaseModel):
    """A part of the output of `thunderherd doctor`, on its page and as JSON."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True, defer_build=True
    )


class Change(DoctorOutput):
    """A command that changes something."""

    command: str = Field(
        description="command for a shell, with sudo if root is needed and the user is not root"
    )
    root: bool = Field(description="whether it needs root")
    undo: str | None = Field(
        default=None, description="command that restores the current state. Null: nothing to undo"
    )


class Finding(DoctorOutput):
    """A property of the machine, its meaning for measurements, and the commands that change it."""

    name: str = Field(description="name of the property")
    seen: str = Field(description="its value, or why it is unknown")
    judgement: Judgement = Field(
        description="good: nothing to do; notable: figures depend on it; stops: something cannot be done "
        "or measured here; unknown: the machine does not show it"
    )
    means: str = Field(default="", description="what that means for measurements")
    changes: tuple[Change, ...] = Field(default=(), description="commands that change it; each of them helps")


def good(name: str, seen: str, means: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(name=name, seen=seen, judgement="good", means=means)


def notable(name: str, seen: str, means: str, *changes: Change) -> Finding:
    """Return a finding worth knowing, with the commands that change it, if any."""
    return Finding(name=name, seen=seen, judgement="notable", means=means, changes=changes)


def stops(name: str, seen: str, means: str, *changes: Change) -> Finding:
    """Return a finding about something that cannot be done or measured on this machine."""
    return Finding(name=name, seen=seen, judgement="stops", means=means, changes=changes)


@dataclass(frozen=True)
class Here:
    """The inputs of examinations that are not files.

    `watched` is the noise while no program of ours ran, `allowed` the noise that a study allows by default.
    `profile` shows what a profile would sample, as the engine has tried it. `counting` is the check of the
    cost of counting the processor's events, if it was made.
    """

    catalogue: Catalogue
    watched: Watched
    allowed: NoiseLimits
    profile: ProfileCheck
    counting: CountingCheck | None = None


Look = Callable[[Here], Iterator[Finding]]
"""A look at the machine; it raises `Unavailable`, `OSError` or `ValueError` if it sees nothing."""


@dataclass(frozen=True)
class Examination:
    """Looks that belong together, under a title. A look that fails does not hinder the others.

    The finding of a failed look is named after its function.
    """

    title: str
    looks: tuple[Look, ...]

    def findings(self, here: Here) -> tuple[Finding, ...]:
        """Return the findings of all looks."""
        found: list[Finding] = []
        for look in self.looks:
            try:
                found += look(here)
            except (description.Unavailable, OSError, ValueError) as error:
                found.append(unresolved(look.__name__.replace("_", " "), error))
        return tuple(found)


def unresolved(name: str, error: Exception) -> Finding:
    """Return the finding of a look that failed, with its meaning and a remedy by the kind of the error."""
    path, changes = "", tuple[Change, ...]()
    if isinstance(error, OSError) and error.filename is not None:
        path = f"/{os.path.relpath(error.filename, description.ROOT)}"
    if isinstance(error, PermissionError):
        means = "only root may read it"
        changes = () if is_known_root() else (as_root("thunderherd doctor"),)
    elif (mount := path.partition("/")[2].partition("/")[0]) in MOUNTS and not exists(mount):
        means = f"/{mount} is not mounted here"
        kind = MOUNTS[mount]
        changes = (as_root(f"mount -t {kind} {kind} /{mount}", f"umount /{mount}"),)
    elif isinstance(error, FileNotFoundError):
        means = (
            "this kernel does not have it, or a virtual machine or container hides it. Its effect on figures "
            f"is unknown. If there is a host, look there: cat {path}"
        )
    elif isinstance(error, ValueError):
        means = (
            "this program does not know its format, so its effect on figures is unknown. Read the file, and "
            "please report it with the output of `thunderherd doctor --json`"
        )
    else:
        means = (
            "its effect on figures is unknown. A virtual machine or a container may hide it: run "
            "`thunderherd doctor` on the host"
        )
    return Finding(
        name=name, seen=description.reason(error), judgement="unknown", means=means, changes=changes
    )


MOUNTS = {"proc": "proc", "sys": "sysfs"}
"""Mounts through which the kernel reports about itself, and their types (mount(8))."""


def is_known_root() -> bool:
    """True if this process is known to run as root."""
    try:
        return is_root()
    except (description.Unavailable, OSError, ValueError):
        return False


# This process ----------------------------------------------------------------------------------------------

CAPABILITIES = {"SYS_ADMIN": 21, "IPC_LOCK": 14, "SYS_RESOURCE": 24, "PERFMON": 38, "BPF": 39}
"""Bits of CapEff (capabilities(7), linux/capability.h)."""


def may(*names: str) -> bool:
    """True if this process has one of these capabilities."""
    effective = int(description.field("proc/self/status", "CapEff"), 16)
    return any(effective >> CAPABILITIES[name] & 1 for name in names)


def is_root() -> bool:
    """True if this process runs as root, with all of root's capabilities or not."""
    return description.field("proc/self/status", "Uid").split()[1:2] == ["0"]


def usable_cpus() -> list[int]:
    """Return the CPUs that this process may use."""
    return description.cpu_list(description.field("proc/self/status", "Cpus_allowed_list"))


def setting(name: str) -> str:
    """Return the value of a kernel setting, by its sysctl name, with single spaces between words."""
    return " ".join(description.text(path_of(name)).split())


def path_of(name: str) -> str:
    """Return the path of a kernel setting below the root (proc_sys(5))."""
    return f"proc/sys/{name.replace('.', '/')}"


def has(name: str) -> bool:
    """True if this kernel has such a setting."""
    return exists(path_of(name))


# What to type -----------------------------------------------------------------------------------------------


def as_root(command: str, undo: str | None = None) -> Change:
    """Return a command that needs root."""
    sudo = "" if is_known_root() else "sudo "
    return Change(command=sudo + command, root=True, undo=undo and sudo + undo)


def sysctl(name: str, value: int | str) -> Change:
    """Return a command that changes an existing kernel setting until the next boot (sysctl(8))."""
    return as_root(f"sysctl -w {name}={_word(value)}", f"sysctl -w {name}={_word(setting(name))}")


def write(path: str, value: str, old: str) -> Change:
    """Return a command that writes a word to files of the kernel; `path`, below the root, may have a `*`."""
    to = f"{'' if is_root() else 'sudo '}tee /{path}"
    return Change(command=f"echo {value} | {to}", root=True, undo=f"echo {old} | {to}")


def raise_limit(option: str, value: int, soft: str, hard: str) -> Change:
    """Return a command that raises a limit of the current shell and its programs (prlimit(1))."""
    return as_root(
        f"prlimit --pid $$ --{option}={value}:{value}", f"prlimit --pid $$ --{option}={soft}:{hard}"
    )


def _word(value: int | str) -> str:
    """Return a value as one word of a shell."""
    text = str(value)
    return f"'{text}'" if " " in text else text


def exists(path: str) -> bool:
    """True if such a file exists below the root and is visible to this user."""
    return os.access(description.ROOT / path, os.F_OK)


def readable(path: str) -> bool:
    """True if such a file exists below the root and this user may read it."""
    return os.access(description.ROOT / path, os.R_OK)


def below(pattern: str) -> list[str]:
    """Return the files that match a pattern, by their paths below the root, sorted."""
    return sorted(str(path.relative_to(description.ROOT)) for path in description.ROOT.glob(pattern))
