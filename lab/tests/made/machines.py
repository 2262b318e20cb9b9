"""Machines for tests: the files of /proc and /sys that examinations read, below a separate root.

`PLAIN` is one with which nothing is wrong: bare metal, four cores, everything allowed. Others are the same
with other files; None removes one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from thunderherd.doctor.kind import Examination, Finding, Here
from thunderherd.engine.catalogue import Catalogue
from thunderherd.engine.profile_lines import ProfileCheck
from thunderherd.machine import description, proc
from thunderherd.machine.busy import Busy, Watched
from thunderherd.machine.counting_cost import CountingCheck
from thunderherd.records.summary import Noise
from thunderherd.study.file.tables import NoiseTable

Files = Mapping[str, str | None]

CPUS = "sys/devices/system/cpu"
CLOCK = "sys/devices/system/clocksource/clocksource0"
ALL_CAPABILITIES, NO_CAPABILITIES = "000001ffffffffff", "0000000000000000"


def status(
    *, user: int = 1000, capabilities: str = NO_CAPABILITIES, cpus: str = "0-3", threads: int = 1
) -> str:
    """What /proc/PID/status says."""
    uid = "\t".join([str(user)] * 4)
    return (
        f"Name:\tx\nUid:\t{uid}\nThreads:\t{threads}\nCapEff:\t{capabilities}\nCpus_allowed_list:\t{cpus}\n"
    )


def limits(*, files: str = "1048576", processes: str = "unlimited", locked: str = "8388608") -> str:
    """What /proc/PID/limits says."""
    return (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        f"Max processes             {processes:<20} {processes:<20} processes \n"
        f"Max open files            1024                 {files:<20} files     \n"
        f"Max locked memory         {locked:<20} {locked:<20} bytes     \n"
    )


PLAIN: Files = {
    "proc/cpuinfo": "model name\t: A CPU\nflags\t\t: fpu vme\n",
    "proc/loadavg": "0.00 0.00 0.00 1/200 4242\n",
    "proc/1/environ": "HOME=/\0",
    "proc/self/status": status(),
    "proc/self/limits": limits(),
    "proc/self/mounts": "none /sys/kernel/tracing tracefs rw 0 0\n",
    "proc/self/cgroup": "0::/\n",
    "proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 none rw\n",
    "proc/self/net/sockstat": "TCP: inuse 5 orphan 0 tw 3 alloc 5 mem 1\n",
    "proc/sys/fs/nr_open": "1048576\n",
    "proc/sys/kernel/io_uring_disabled": "0\n",
    "proc/sys/kernel/kptr_restrict": "0\n",
    "proc/sys/kernel/osrelease": "6.18.0\n",
    "proc/sys/kernel/perf_event_max_sample_rate": "100000\n",
    "proc/sys/kernel/perf_event_paranoid": "1\n",
    "proc/sys/kernel/pid_max": "4194304\n",
    "proc/sys/kernel/threads-max": "250000\n",
    "proc/sys/net/core/optmem_max": "131072\n",
    "proc/sys/net/core/somaxconn": "4096\n",
    "proc/sys/net/ipv4/ip_local_port_range": "32768\t60999\n",
    "proc/sys/net/ipv4/tcp_congestion_control": "cubic\n",
    "proc/sys/net/ipv4/tcp_max_syn_backlog": "2048\n",
    "proc/sys/net/ipv4/tcp_tw_reuse": "2\n",
    "proc/sys/user/max_net_namespaces": "60000\n",
    "proc/sys/user/max_user_namespaces": "60000\n",
    "proc/sys/vm/max_map_count": "65530\n",
    f"{CLOCK}/available_clocksource": "tsc hpet acpi_pm \n",
    f"{CLOCK}/current_clocksource": "tsc\n",
    **{f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor": "performance\n" for cpu in range(4)},
    **{f"{CPUS}/cpu{cpu}/cpufreq/scaling_driver": "intel_cpufreq\n" for cpu in range(4)},
    **{f"{CPUS}/cpu{cpu}/topology/thread_siblings_list": f"{cpu}\n" for cpu in range(4)},
    f"{CPUS}/intel_pstate/no_turbo": "1\n",
    f"{CPUS}/vulnerabilities/meltdown": "Not affected\n",
    f"{CPUS}/vulnerabilities/spectre_v2": "Mitigation: Enhanced / Automatic IBRS\n",
    "sys/bus/event_source/devices/cpu/type": "4\n",
    "sys/bus/event_source/devices/software/type": "1\n",
    "sys/devices/system/node/node0/cpulist": "0-3\n",
    "sys/fs/cgroup/pids.max": None,
    "sys/kernel/btf/vmlinux": "",
    "sys/kernel/tracing/events/raw_syscalls/sys_enter/id": "443",
}


GUEST: Files = {"proc/cpuinfo": "model name\t: A CPU\nflags\t\t: fpu hypervisor\n"}
"""A virtual machine."""


class MadeMachine:
    """A machine made of files, with its noise and its busy processes."""

    def __init__(self, root: Path, catalogue: Catalogue) -> None:
        self.root = root
        self.plain = self.offered = catalogue
        self.noise = made_noise()
        self.busy: tuple[Busy, ...] = ()
        self.profile = made_profile()
        self.counting: CountingCheck | None = None
        self.put(PLAIN)

    def put(self, files: Files) -> None:
        """Writes files, and removes those that are None, with what is below."""
        for name, text in files.items():
            path = self.root / name
            if text is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            elif path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def offer(self, **changes: Any) -> None:
        """Another engine's catalogue."""
        self.offered = self.offered.model_copy(update=changes)

    def again(self) -> MadeMachine:
        """The plain machine, in the place of this one."""
        shutil.rmtree(self.root)
        return MadeMachine(self.root, self.plain)

    def here(self) -> Here:
        """What examinations are given of it."""
        watched = Watched(noise=self.noise, busy=self.busy)
        return Here(
            catalogue=self.offered,
            watched=watched,
            allowed=NoiseTable(),
            profile=self.profile,
            counting=self.counting,
        )

    def findings(self, examination: Examination) -> dict[str, Finding]:
        """What an examination finds, by name."""
        return {each.name: each for each in examination.findings(self.here())}


def made_profile(**told: Any) -> ProfileCheck:
    """The engine's answer if profiles are available, with these changes."""
    usual = {
        "reason": None, "event": "cycles", "why_not_cycles": None, "scope": "cpus", "why_not_cpus": None,
        "frequency_hertz": 997, "kernel_symbols": True, "frame_pointers": True,
    }  # fmt: skip
    return ProfileCheck.model_validate(usual | told)


def made_noise(*, steal: float = 0.0, foreign: float = 0.01, throttled: int = 0) -> Noise:
    """A second of a machine, in shares of it."""
    return Noise(
        steal_share=steal, foreign_share=foreign, foreign_uncertainty=0.01, wall_seconds=1.0,
        machine_busy_seconds=0.1, throttled=throttled,
    )  # fmt: skip


def set_up(monkeypatch: pytest.MonkeyPatch, root: Path, catalogue: Catalogue) -> MadeMachine:
    """A machine with which nothing is wrong, until a test changes it; readers of /proc and /sys read it."""
    monkeypatch.setattr(description, "ROOT", root)
    monkeypatch.setattr(proc, "PROC", root / "proc")
    controls = {"default": "cubic", "available": ["reno", "cubic"], "allowed": ["reno", "cubic"]}
    offered = {
        **catalogue.model_dump(by_alias=True),
        "primitives": [each.model_dump() for each in catalogue.primitives if each.available],
        "congestion_controls": controls,
        "namespace": {"settings": [], "local_ports": [1024, 65535], "available": True},
    }
    return MadeMachine(root, Catalogue.model_validate(offered))
