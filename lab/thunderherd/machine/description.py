"""The machine of a run: enough to judge the run, and to repeat it elsewhere.

A value that cannot be read is null, with the reason under `unavailable`. A machine that hides its governor
then differs from a run that did not look.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import platform
import resource
import shutil
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

from thunderherd.engine.catalogue import Build
from thunderherd.engine.client import EngineError, catalogue
from thunderherd.errors import UserError
from thunderherd.machine import control_groups, proc

ROOT = Path("/")
"""Root of the files to read; tests give another."""

SYSCTLS = (
    "net/core/somaxconn",
    "net/core/netdev_max_backlog",
    "net/core/rmem_default",
    "net/core/rmem_max",
    "net/core/wmem_default",
    "net/core/wmem_max",
    "net/core/default_qdisc",
    "net/core/busy_poll",
    "net/core/busy_read",
    "net/core/optmem_max",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/ip_local_reserved_ports",
    "net/ipv4/tcp_abort_on_overflow",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_allowed_congestion_control",
    "net/ipv4/tcp_fastopen",
    "net/ipv4/tcp_fin_timeout",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/tcp_max_tw_buckets",
    "net/ipv4/tcp_mem",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_syncookies",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_window_scaling",
    "net/ipv4/tcp_wmem",
    "kernel/perf_event_paranoid",
    "kernel/pid_max",
    "kernel/threads-max",
    "kernel/sched_autogroup_enabled",
    "kernel/sched_rt_runtime_us",
    "kernel/numa_balancing",
    "kernel/randomize_va_space",
    "fs/file-max",
    "fs/nr_open",
    "vm/overcommit_memory",
    "vm/swappiness",
)
"""Kernel settings that can change the cost of a connection, a process or a thread."""

PARAMETERS = (
    "amd_pstate", "apparmor", "audit", "clocksource", "cpuidle", "haltpoll", "hugepages", "idle",
    "init_on_alloc", "init_on_free", "intel_idle", "intel_pstate", "irqaffinity", "isolcpus", "mitigations",
    "nohz", "nosmt", "numa", "page_poison", "preempt", "processor", "rcu_nocbs", "rcupdate", "selinux",
    "skew_tick", "slab", "slub", "spec_store", "spectre", "threadirqs", "transparent_hugepage", "tsc",
)  # fmt: skip
"""Prefixes of kernel parameters that can change what is measured.

A published result should not contain the others.
"""

OFFLOADS = {
    "rx_checksumming": 0x14,
    "tx_checksumming": 0x16,
    "scatter_gather": 0x18,
    "tcp_segmentation": 0x1E,
    "generic_segmentation": 0x23,
    "generic_receive": 0x2B,
}
"""What an interface may do for the kernel, and the command that asks for it (linux/ethtool.h)."""
SIOCETHTOOL = 0x8946

LIMITS = {
    "open_files": resource.RLIMIT_NOFILE,
    "processes": resource.RLIMIT_NPROC,
    "stack_bytes": resource.RLIMIT_STACK,
    "locked_memory_bytes": resource.RLIMIT_MEMLOCK,
    "core_bytes": resource.RLIMIT_CORE,
}

PACKAGES = ("numpy", "polars", "pydantic", "rich", "typer", "vl-convert-python")


class Unavailable(Exception):
    """Something cannot be read here; the message is the reason."""


def describe(engine: Path | None = None) -> dict[str, Any]:
    """Describe the machine, its kernel and settings, the tools, and the engine at `engine`, as JSON data.

    Takes some 50 ms.
    """
    found: dict[str, Any] = {}
    reasons: dict[str, str] = {}

    def put(key: str, read: Callable[[], Any], dotted: str | None = None) -> None:
        # The name of a sysctl has dots, so it is passed separately.
        place, parts = found, [*key.split("."), *([dotted] if dotted else [])]
        for part in parts[:-1]:
            place = place.setdefault(part, {})
        try:
            place[parts[-1]] = read()
        except (Unavailable, OSError, ValueError) as error:
            place[parts[-1]] = None
            reasons[".".join(parts)] = reason(error)

    put(
        "kernel",
        lambda: f"{platform.system()} {platform.release()} {platform.version()} {platform.machine()}",
    )
    put("kernel_parameters", kernel_parameters)
    put("distribution", distribution)
    put(
        "libc", lambda: " ".join(platform.libc_ver()).strip() or _refuse("no version string in the C library")
    )
    put("hypervisor", hypervisor)
    put("container", container)
    put("clock_source", lambda: text("sys/devices/system/clocksource/clocksource0/current_clocksource"))
    put("cpu.model", cpu_model)
    put("cpu.count", lambda: os.cpu_count() or _refuse("the system does not report it"))
    put("cpu.usable", lambda: sorted(os.sched_getaffinity(0)))
    put("cpu.threads_per_core", threads_per_core)
    put("cpu.megahertz", cpu_megahertz)
    put("cpu.cache", lambda: cpu_field("cache size"))
    put("cpu.governor", lambda: governor("scaling_governor"))
    put("cpu.frequency_driver", lambda: governor("scaling_driver"))
    put("cpu.turbo", turbo)
    put("cpu.isolated", lambda: text("sys/devices/system/cpu/isolated"))
    put("memory_bytes", lambda: 1024 * int(field("proc/meminfo", "MemTotal").split()[0]))
    put("swap_bytes", lambda: 1024 * int(field("proc/meminfo", "SwapTotal").split()[0]))
    put("transparent_hugepages", lambda: chosen(text("sys/kernel/mm/transparent_hugepage/enabled")))
    put("control_group.version", control_group_version)
    put("control_group.cpu_quota", cpu_quota)
    for name, command in OFFLOADS.items():
        put("loopback_offloads", partial(offload, "lo", command), name)
    put("loopback_mtu", lambda: int(text("sys/class/net/lo/mtu")))
    put("congestion_control", lambda: text("proc/sys/net/ipv4/tcp_congestion_control"))
    put("mitigations", mitigations)
    for name in SYSCTLS:
        put("sysctls", partial(text, f"proc/sys/{name}"), name.replace("/", "."))
    for name, number in LIMITS.items():
        put("limits", partial(limit, number), name)
    for name in Build.model_fields:
        put("compiler", partial(built_with, engine, name), name)
    put("tools.python", lambda: f"{platform.python_implementation()} {sys.version}")
    for name in PACKAGES:
        put("tools", partial(package, name), name)
    if engine is not None:
        put("engine.path", lambda: str(engine))
        put("engine.version", lambda: first_line([str(engine), "--version"]))
        put("engine.sha256", lambda: hashlib.sha256(engine.read_bytes()).hexdigest())
    put("effective_user", os.geteuid)
    put("load_average", lambda: list(os.getloadavg()))
    found["unavailable"] = reasons
    return found


def reason(error: Exception) -> str:
    """Return why something could not be read, in words."""
    if isinstance(error, FileNotFoundError):
        return f"there is no {error.filename}"
    if isinstance(error, PermissionError):
        return f"no permission to read {error.filename}"
    if isinstance(error, OSError):
        return f"{error.filename or 'it'} cannot be read: {error.strerror or error}"
    return str(error)


def _refuse(why: str) -> Any:
    raise Unavailable(why)


def text(path: str) -> str:
    """Return the text of a small file under ROOT, without surrounding white space."""
    return (ROOT / path).read_text(encoding="utf-8", errors="replace").strip()


def field(path: str, name: str) -> str:
    """Return the value of a line `name: value` in a file."""
    for line in text(path).splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    raise Unavailable(f"{ROOT / path} has no line {name!r}")


def chosen(words: str) -> str:
    """Return `madvise` from `always [madvise] never`."""
    start, end = words.find("["), words.find("]")
    return words[start + 1 : end] if 0 <= start < end else words


def distribution() -> str:
    """Return PRETTY_NAME of os-release(5)."""
    for path in ("etc/os-release", "usr/lib/os-release"):
        try:
            lines = text(path).splitlines()
        except FileNotFoundError:
            continue
        for line in lines:
            if line.startswith("PRETTY_NAME="):
                return line.removeprefix("PRETTY_NAME=").strip("\"'")
    raise Unavailable("there is no os-release with a PRETTY_NAME")


def kernel_parameters() -> list[str]:
    """Return the parameters on the kernel's command line that can change what is measured."""
    return [word for word in text("proc/cmdline").split() if word.startswith(PARAMETERS)]


# CPU


def cpu_field(name: str) -> str:
    """Return a field of the first CPU in /proc/cpuinfo (proc(5)). Raises `Unavailable`."""
    return field("proc/cpuinfo", name)


def cpu_model() -> str:
    """Return the name of the CPU model; on ARM kernels, its numbers."""
    try:
        return cpu_field("model name")
    except Unavailable:
        return " ".join(f"{name} {cpu_field(name)}" for name in ("CPU implementer", "CPU part"))


def cpu_megahertz() -> list[float]:
    """Return the current speed of each CPU."""
    speeds = [
        float(line.partition(":")[2])
        for line in text("proc/cpuinfo").splitlines()
        if line.startswith("cpu MHz")
    ]
    return speeds or _refuse(f"{ROOT / 'proc/cpuinfo'} has no line 'cpu MHz'")


def threads_per_core() -> int:
    """Return the number of hardware threads that share a core with CPU 0."""
    return len(cpu_list(text("sys/devices/system/cpu/cpu0/topology/thread_siblings_list")))


def cpu_list(ranges: str) -> list[int]:
    """Return the numbers of a list of CPUs such as `0-2,5`."""
    numbers: list[int] = []
    for part in filter(None, ranges.split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def governor(name: str) -> str:
    """Return the frequency governor (or driver) of the CPUs; all of them if they differ."""
    directory = ROOT / "sys/devices/system/cpu"
    values = {
        (cpu / "cpufreq" / name).read_text().strip()
        for cpu in directory.glob("cpu[0-9]*")
        if (cpu / "cpufreq" / name).exists()
    }
    return ", ".join(sorted(values)) or _refuse(
        "no CPU has a cpufreq directory: a virtual machine, or no driver"
    )


def turbo() -> bool:
    """True if a core may exceed its nominal speed."""
    try:
        return text("sys/devices/system/cpu/intel_pstate/no_turbo") == "0"
    except FileNotFoundError:
        return text("sys/devices/system/cpu/cpufreq/boost") == "1"


def mitigations() -> dict[str, str]:
    """Return vulnerability of the CPU → mitigation; some cost time at every system call."""
    directory = ROOT / "sys/devices/system/cpu/vulnerabilities"
    return {path.name: path.read_text().strip() for path in sorted(directory.iterdir())}


# Virtual machine, container and control group


def is_guest() -> bool:
    """True if this is a virtual machine, by the CPU flag `hypervisor`."""
    return "hypervisor" in cpu_field("flags").split()


def hypervisor() -> str:
    """Return the hypervisor, as far as it is visible from inside; `none` on bare metal."""
    if not is_guest():
        return "none"
    for path in ("sys/hypervisor/type", "sys/class/dmi/id/product_name", "sys/class/dmi/id/sys_vendor"):
        try:
            return text(path)
        except OSError:
            continue
    raise Unavailable("the CPU flag `hypervisor` is set, but neither /sys/hypervisor nor DMI names one")


def container() -> str:
    """Return the container of this process, as far as it is visible from inside.

    `none` if there is no sign of one.
    """
    for path, name in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if (ROOT / path).exists():
            return name
    try:
        environment = (ROOT / "proc/1/environ").read_bytes().split(b"\0")
    except PermissionError:
        raise Unavailable(
            "no permission to read /proc/1/environ, where container managers name themselves"
        ) from None
    for entry in environment:
        if entry.startswith(b"container="):
            return entry.removeprefix(b"container=").decode(errors="replace")
    return "none"


def control_group_version() -> int:
    """Return 2 if the CPU controller belongs to the unified hierarchy, else 1."""
    return 2 if (ROOT / "sys/fs/cgroup/cgroup.controllers").exists() else 1


def cpu_quota() -> str:
    """Return the CPU quota of the nearest control group with one: microseconds per period, or `max`."""

    limits = []
    groups, mounts = (proc.text(ROOT / "proc/self" / name) for name in ("cgroup", "mountinfo"))
    for path in control_groups.cpu_stat_paths(groups, mounts):
        limits += list(_quota_of(path.parent))
    bounded = [each for each in limits if not each.startswith(("max", "-1"))]
    return bounded[0] if bounded else "max"


def _quota_of(directory: Path) -> Iterable[str]:
    group = ROOT / directory.relative_to("/")
    if (group / "cpu.max").exists():
        yield (group / "cpu.max").read_text().strip()
    elif (group / "cpu.cfs_quota_us").exists():
        quota, period = ((group / f"cpu.cfs_{name}_us").read_text().strip() for name in ("quota", "period"))
        yield f"{quota} {period}"


def offload(interface: str, command: int) -> bool:
    """True if an offload of an interface is on (`ethtool -k`)."""
    # struct ethtool_value, to which struct ifreq points
    value = ctypes.create_string_buffer(struct.pack("=II", command, 0), 8)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
        fcntl.ioctl(asked, SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), ctypes.addressof(value)))
    return bool(struct.unpack("=II", value.raw)[1])


def limit(number: int) -> dict[str, int | str]:
    """Return the soft and hard limit (getrlimit(2))."""
    names = ("soft", "hard")
    return {
        name: "unlimited" if value == resource.RLIM_INFINITY else value
        for name, value in zip(names, resource.getrlimit(number), strict=True)
    }


# Tools


def first_line(command: list[str]) -> str:
    """Return the first line that a command prints."""
    if shutil.which(command[0]) is None:
        raise Unavailable(f"{command[0]} is not on PATH")
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"`{' '.join(command)}` did not end within 10 s") from None
    lines = done.stdout.splitlines()
    if done.returncode != 0 or not lines:
        raise Unavailable(f"`{' '.join(command)}` failed with exit status {done.returncode}")
    return lines[0].strip()


def built_with(engine: Path | None, name: str) -> str:
    """Return a fact of the engine's build, by name, a field of `Build`.

    The compiler and RUSTFLAGS of this shell may differ from those of the build.
    """
    if engine is None:
        raise Unavailable("no engine was given")
    try:
        build = catalogue(engine).build
    except (UserError, EngineError) as error:
        raise Unavailable(f"the engine does not report it: {error}") from None
    if build is None:
        raise Unavailable("this engine does not report how it was built")
    return str(getattr(build, name))


def package(name: str) -> str:
    """Return the version of an installed Python package."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        raise Unavailable(f"{name} is not installed") from None
