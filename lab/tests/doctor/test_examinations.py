"""Each examination on machines made of files: the plain one, and others with something to report."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from made.machines import (
    ALL_CAPABILITIES,
    CLOCK,
    CPUS,
    GUEST,
    Files,
    MadeMachine,
    limits,
    made_noise,
    made_profile,
    status,
)

from thunderherd.doctor import EXAMINATIONS
from thunderherd.doctor.kind import Examination, Finding, Here, good
from thunderherd.engine.catalogue import (
    Catalogue,
    CongestionControls,
    Counter,
    Design,
    Fallback,
    Feature,
    Namespace,
)
from thunderherd.engine.client import EngineError, catalogue
from thunderherd.machine import description as machine
from thunderherd.machine.busy import Busy
from thunderherd.machine.counting_cost import CountingCheck, counting_check, cpu_of_requests
from thunderherd.study.loading import load_study

ROOT_USER = status(user=0, capabilities=ALL_CAPABILITIES)
CONTAINED_ROOT = status(user=0, capabilities="00000000a80425fb")  # what Docker leaves (capabilities(7))
NO_MODULE = "this kernel has no netem (CONFIG_NET_SCH_NETEM); modprobe sch_netem"
LAPTOP = {f"{CPUS}/cpu{cpu}/cpufreq/scaling_governor": "powersave\n" for cpu in range(4)}
SIBLINGS = {
    f"{CPUS}/cpu{cpu}/topology/thread_siblings_list": f"{cpu % 2},{cpu % 2 + 2}\n" for cpu in range(4)
}
PINNED = "thunderherd run unp-ch30 --set 'lab.server_cpus=[{}]' --set 'lab.client_cpus=[{}]'"


@dataclass(frozen=True)
class Case:
    """A machine that differs from the plain one, and the expected finding.

    `words` are regular expressions for values in its text; `types` are the commands to type. The golden page
    holds the wording.
    """

    examination: str
    finding: str
    judgement: str
    files: Files = field(default_factory=dict)
    words: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    offered: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)


NO_PROFILE = made_profile(event=None, scope=None, reason="perf_event_open: Permission denied")
UNCOUNTED = Counter(name="cpu_cycles", summary="", available=False, reason="hidden")
NO_RING = Design(
    name="io_uring",
    summary="",
    waits="for_completion",
    available=False,
    reason="no ring",
    rests_on=(Feature(name="io_uring(7)", since="5.1", available=False, reason="no ring"),),
)
NO_PWAIT2 = Fallback(
    name="epoll_pwait2(2)",
    since="5.11",
    available=False,
    reason="a filter hides it",
    instead="loads wait with two calls",
)
NO_PAIR = Namespace(local_ports=(1, 2), available=False, reason="forbidden")
WITHOUT_NETEM = Namespace(
    local_ports=(1, 2),
    available=True,
    unavailable_settings={"delay": NO_MODULE, "loss": NO_MODULE},
)
BBR = CongestionControls(
    default="bbr", available=("bbr", "cubic"), allowed=("bbr",), remarks={"bbr": "bbr paces"}
)

CASES = [
    Case("clock_source", "clock source", "good", words=("tsc",)),
    Case("clock_source", "clock source", "notable", {f"{CLOCK}/current_clocksource": "hpet\n"},
         ("hpet",), (f"echo tsc | sudo tee /{CLOCK}/current_clocksource",)),
    Case("clock_source", "clock source", "notable",
         {f"{CLOCK}/current_clocksource": "acpi_pm\n", f"{CLOCK}/available_clocksource": "acpi_pm\n"},
         ("acpi_pm", r"dmesg \| grep -i tsc")),
    Case("clock_source", "clock source", "good", {f"{CLOCK}/current_clocksource": "kvm-clock\n"}),
    Case("clock_source", "clock source", "unknown", {f"{CLOCK}/current_clocksource": None}, ("there is no",)),
    Case("clock_speed", "governor", "good", words=("performance",)),
    Case("clock_speed", "governor", "notable", LAPTOP, ("powersave",),
         (f"echo performance | sudo tee /{CPUS}/cpu*/cpufreq/scaling_governor",)),
    Case("clock_speed", "governor", "notable", {f"{CPUS}/cpu2/cpufreq/scaling_governor": "schedutil"},
         ("performance, schedutil",),
         (f"echo performance | sudo tee /{CPUS}/cpu2/cpufreq/scaling_governor",)),
    Case("clock_speed", "governor", "unknown", {f"{CPUS}/cpu{cpu}/cpufreq": None for cpu in range(4)},
         ("no CPU has a cpufreq directory",)),
    Case("clock_speed", "turbo", "good", words=("off",)),
    Case("clock_speed", "turbo", "notable", {f"{CPUS}/intel_pstate/no_turbo": "0"}, ("^on$",),
         (f"echo 1 | sudo tee /{CPUS}/intel_pstate/no_turbo",)),
    Case("clock_speed", "turbo", "notable",
         {f"{CPUS}/intel_pstate": None, f"{CPUS}/cpufreq/boost": "1", "proc/self/status": ROOT_USER},
         types=(f"echo 0 | tee /{CPUS}/cpufreq/boost",)),
    Case("mitigations", "mitigations", "good", words=("1 of 2",)),
    Case("mitigations", "mitigations", "notable", {f"{CPUS}/vulnerabilities/meltdown": "Mitigation: PTI\n"},
         ("2 of 2", "meltdown", "mitigations=off")),
    Case("mitigations", "mitigations", "good", {f"{CPUS}/vulnerabilities/mds": "Vulnerable\n"},
         ("1 of 3", "mds$")),
    Case("neighbours", "steal", "good", words=("studies allow 5 %",)),
    Case("neighbours", "steal", "notable", machine={"noise": made_noise(steal=0.2)},
         words=("20.0% of the machine", "more than 5 %")),
    Case("neighbours", "others", "good", machine={"busy": (Busy(7, "cron", 0.03),)},
         words=(r"cron \(3% of a CPU, process 7\)",)),
    Case("neighbours", "others", "notable",
         machine={"noise": made_noise(foreign=0.6), "busy": tuple(Busy(n, "cc1", 0.9) for n in range(1, 8))},
         words=("60.0% of the machine", "more than 15 %", "and 2 more"),
         types=("ps -o pid,user,etime,pcpu,args -p 1,2,3,4,5",)),
    Case("neighbours", "others", "notable", machine={"noise": made_noise(foreign=0.6)},
         words=("60.0% of the machine",)),
    # More than is allowed, but not by more than a sampled clock can feign.
    Case("neighbours", "others", "good", machine={"noise": made_noise(foreign=0.155)}),
    Case("neighbours", "other runs", "notable", {"proc/7/comm": "thunderherd-eng\n", "proc/8/comm": "sh\n"},
         ("1 process of Thunderherd", r"\(7\)"), ("ps -o pid,user,etime,pcpu,args -p 7",)),
    Case("neighbours", "throttling", "notable", machine={"noise": made_noise(throttled=3)},
         words=("3 times",)),
    Case("counters", "perf_event_paranoid", "good", words=("1", "kernel included")),
    Case("counters", "perf_event_paranoid", "notable", {"proc/sys/kernel/perf_event_paranoid": "2"},
         ("^2$",), ("sudo sysctl -w kernel.perf_event_paranoid=1",)),
    Case("counters", "perf_event_paranoid", "notable", {"proc/sys/kernel/perf_event_paranoid": "4"},
         ("^4$",), ("sudo sysctl -w kernel.perf_event_paranoid=1",)),
    Case("counters", "perf_event_paranoid", "good",
         {"proc/sys/kernel/perf_event_paranoid": "3", "proc/self/status": ROOT_USER}, ("exempt",)),
    Case("counters", "perf_event_paranoid", "notable",
         {"proc/sys/kernel/perf_event_paranoid": "3", "proc/self/status": CONTAINED_ROOT},
         types=("sysctl -w kernel.perf_event_paranoid=1",)),
    Case("counters", "permission", "unknown", {"proc/sys/kernel/perf_event_paranoid": None},
         ("there is no",)),
    Case("counters", "counters", "good", words=(r"(\d+) of \1\b", "voluntary_switches")),
    Case("counters", "not counted", "stops", offered={"counters": (UNCOUNTED,)},
         words=("cpu_cycles", "hidden")),
    Case("counters", "hardware events", "good", words=("cpu",)),
    Case("counters", "hardware events", "notable", {"sys/bus/event_source/devices/cpu": None},
         ("none", "no driver")),
    Case("counters", "hardware events", "notable", {"sys/bus/event_source/devices/cpu": None, **GUEST},
         ("pmu=on",)),
    Case("counters", "price of counting", "notable", words=("3.9 times", "3.5 to 4.2", "may trap"),
         machine={"counting": CountingCheck(("cycles",), (4.2, 3.5, 3.9))}),
    Case("counters", "price of counting", "good", words=("1.0 times", "cycles and instructions"),
         machine={"counting": CountingCheck(("cycles", "instructions"), (0.99, 1.02, 1.04))}),
    Case("counters", "price of counting", "notable", words=("no port", "table DIR --counters"),
         machine={"counting": CountingCheck(("cycles",), (), "no port")}),
    Case("counters", "profiles", "good", words=("^cycles, ",)),
    Case("counters", "profiles", "good",
         machine={"profile": made_profile(event="cpu-clock", why_not_cycles="no PMU")},
         words=("^cpu-clock, ", r"\(no PMU\)")),
    Case("counters", "profiles", "notable", {"proc/sys/kernel/perf_event_paranoid": "1"},
         machine={"profile": made_profile(scope="tree", why_not_cpus="it is 1")},
         words=("^cycles, ", r"\(it is 1\)"),
         types=("sudo sysctl -w kernel.perf_event_paranoid=0",)),
    Case("counters", "profiles", "stops", {"proc/sys/kernel/perf_event_paranoid": "2"},
         machine={"profile": NO_PROFILE}, words=("Permission denied",),
         types=("sudo sysctl -w kernel.perf_event_paranoid=1",)),
    Case("counters", "profiles", "stops",
         {"proc/sys/kernel/perf_event_paranoid": "2", "proc/self/status": ROOT_USER},
         machine={"profile": NO_PROFILE}, words=("Permission denied",)),
    Case("counters", "perf_event_max_sample_rate", "good", words=("997 samples",)),
    Case("counters", "perf_event_max_sample_rate", "stops",
         {"proc/sys/kernel/perf_event_max_sample_rate": "996"},
         ("996", "997 samples", "refused"), ("sudo sysctl -w kernel.perf_event_max_sample_rate=100000",)),
    Case("counters", "kernel symbols", "good"),
    Case("counters", "kernel symbols", "notable",
         {"proc/sys/kernel/kptr_restrict": "1", "proc/sys/kernel/perf_event_paranoid": "2"},
         machine={"profile": made_profile(kernel_symbols="no addresses")},
         words=("no addresses",),
         types=("sudo sysctl -w kernel.kptr_restrict=0", "sudo sysctl -w kernel.perf_event_paranoid=1")),
    Case("counters", "frame pointers", "notable",
         machine={"profile": made_profile(frame_pointers="RUSTFLAGS")}, words=("RUSTFLAGS",)),
    Case("counters", "tracepoints", "good", words=("/sys/kernel/tracing",)),
    Case("counters", "tracepoints", "notable", {"proc/self/mounts": ""}, ("not mounted",),
         ("sudo mount -t tracefs -o mode=755,gid=$(id -g) tracefs /sys/kernel/tracing",)),
    Case("counters", "tracepoints", "good", {"proc/self/mounts": "", "proc/self/status": ROOT_USER},
         ("fsmount",)),
    Case("counters", "tracepoints", "notable", {"sys/kernel/tracing/events/raw_syscalls/sys_enter/id": None},
         ("/sys/kernel/tracing",), ("sudo mount -o remount,mode=755,gid=$(id -g) /sys/kernel/tracing",)),
    Case("counters", "tracepoints", "notable", {"proc/self/mounts": "", "sys/kernel/tracing": None},
         ("none", "CONFIG_TRACING")),
    Case("counters", "BPF", "notable", words=("CAP_BPF",)),
    Case("counters", "BPF", "good", {"proc/self/status": ROOT_USER}),
    Case("counters", "BPF", "notable", {"proc/self/status": ROOT_USER, "sys/kernel/btf/vmlinux": None},
         ("CONFIG_DEBUG_INFO_BTF",)),
    Case("features", "designs", "good", words=("15 of 15", "all can run")),
    Case("features", "no design", "stops", offered={"designs": (NO_RING,)},
         words=("io_uring", "no ring")),
    Case("features", "io_uring(7)", "stops", offered={"designs": (NO_RING,)},
         words=("no ring", "Linux 5.1", "cannot run: io_uring")),
    Case("features", "every Linux", "good", words=(r"fork\(2\): fork_per_client, prefork",)),
    Case("features", "Linux 3.9", "good", words=(r"SO_REUSEPORT: prethread",)),
    Case("features", "primitives", "good", words=("4 of 4",)),
    Case("features", "fallbacks", "good", words=("^0 of 1 needed", r"available: epoll_pwait2\(2\)")),
    Case("features", "epoll_pwait2(2)", "notable", offered={"fallbacks": (NO_PWAIT2,)},
         words=("a filter hides it", "Linux 5.11", "Instead, loads wait with two calls")),
    Case("features", "io_uring_disabled", "good"),
    Case("features", "io_uring_disabled", "notable", {"proc/sys/kernel/io_uring_disabled": "2"}, ("^2$",),
         ("sudo sysctl -w kernel.io_uring_disabled=0",)),
    Case("features", "io_uring_disabled", "notable", {"proc/sys/kernel/io_uring_disabled": "1"},
         ("^1$", "io_uring_group"), ("sudo sysctl -w kernel.io_uring_disabled=0",)),
    Case("namespaces", "labs", "good", words=("loopback, veth, unix",)),
    Case("namespaces", "no lab", "stops", offered={"namespace": NO_PAIR}, words=("veth", "forbidden")),
    Case("namespaces", "no lab", "stops", {"proc/sys/kernel/unprivileged_userns_clone": "0"},
         offered={"namespace": NO_PAIR}, types=("sudo sysctl -w kernel.unprivileged_userns_clone=1",)),
    Case("namespaces", "no lab", "stops", {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
         offered={"namespace": NO_PAIR},
         types=("sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",)),
    Case("namespaces", "namespaces", "good", words=("without root",)),
    Case("namespaces", "namespaces", "good",
         {"proc/sys/user/max_user_namespaces": "0", "proc/self/status": ROOT_USER}, ("root",)),
    Case("namespaces", "veth", "good", words=("mtu, rate, delay, loss, congestion",)),
    Case("namespaces", "veth without", "notable", offered={"namespace": WITHOUT_NETEM},
         words=("delay, loss", "no netem")),
    Case("namespaces", "veth without", "notable",
         {"lib/modules/6.18.0/modules.dep": "kernel/net/sched/sch_netem.ko.xz:\n"},
         offered={"namespace": WITHOUT_NETEM}, types=("sudo modprobe sch_netem",)),
    Case("resources", "open files", "good", words=("1,048,576",)),
    Case("resources", "open files", "notable", {"proc/self/limits": limits(files="4096")},
         ("4,096", "ulimit -Hn"), ("sudo prlimit --pid $$ --nofile=10064:10064",)),
    Case("resources", "open files", "notable",
         {"proc/self/limits": limits(files="4096"), "proc/sys/fs/nr_open": "4096"},
         types=("sudo sysctl -w fs.nr_open=10064", "sudo prlimit --pid $$ --nofile=10064:10064")),
    Case("resources", "processes, threads", "good", words=("249,800 by kernel.threads-max",)),
    Case("resources", "processes, threads", "notable", {"proc/sys/kernel/pid_max": "4096"},
         ("3,896 by kernel.pid_max",), ("sudo sysctl -w kernel.pid_max=10200",)),
    Case("resources", "processes, threads", "notable",
         {"proc/self/limits": limits(processes="1000"), "proc/7/status": status(threads=5),
          "proc/8/status": status(user=1001, threads=900), "proc/9/status": "torn"},
         ("995 by the limit on processes of this user",), ("sudo prlimit --pid $$ --nproc=10005:10005",)),
    Case("resources", "processes, threads", "good",
         {"proc/self/limits": limits(processes="1000"), "proc/self/status": ROOT_USER}),
    Case("resources", "processes, threads", "notable",
         {"proc/self/cgroup": "0::/box\n", "sys/fs/cgroup/box/pids.max": "100\n",
          "sys/fs/cgroup/box/pids.current": "20\n", "sys/fs/cgroup/pids.max": "max\n"},
         (r"80 by the control group \(/sys/fs/cgroup/box/pids.max\)",),
         ("echo 10020 | sudo tee /sys/fs/cgroup/box/pids.max",)),
    Case("resources", "threads of a process", "good", words=("32,765",)),
    Case("resources", "threads of a process", "notable", {"proc/sys/vm/max_map_count": "8000"}, ("4,000",),
         ("sudo sysctl -w vm.max_map_count=20000",)),
    Case("resources", "locked memory", "good"),
    Case("resources", "locked memory", "good", {"proc/self/limits": limits(locked="unlimited")},
         ("unlimited",)),
    Case("resources", "locked memory", "notable", {"proc/self/limits": limits(locked="65536")},
         ("65,536 bytes",), ("sudo prlimit --pid $$ --memlock=8388608:8388608",)),
    Case("resources", "optmem_max", "good"),
    Case("resources", "optmem_max", "notable", {"proc/sys/net/core/optmem_max": "20480"}, ("20,480 bytes",),
         ("sudo sysctl -w net.core.optmem_max=131072",)),
    Case("network", "congestion control", "good", words=("cubic",)),
    Case("network", "congestion control", "notable", {"proc/sys/net/ipv4/tcp_congestion_control": "bbr"},
         offered={"congestion_controls": BBR}, words=("bbr paces", "--lab congestion=cubic"),
         types=("sudo sysctl -w net.ipv4.tcp_congestion_control=cubic",)),
    Case("network", "congestion control", "unknown", offered={"congestion_controls": None}),
    Case("network", "local ports", "good", words=("28,232, 3 sockets in TIME_WAIT",)),
    Case("network", "local ports", "notable", {"proc/sys/net/ipv4/ip_local_port_range": "40000\t41000"},
         ("1,001",), ("sudo sysctl -w net.ipv4.ip_local_port_range='1024 65535'",)),
    Case("network", "somaxconn", "good"),
    Case("network", "somaxconn", "notable", {"proc/sys/net/core/somaxconn": "128"}, ("128", "1024"),
         ("sudo sysctl -w net.core.somaxconn=1024",)),
    Case("network", "tcp_max_syn_backlog", "notable", {"proc/sys/net/ipv4/tcp_max_syn_backlog": "512"},
         types=("sudo sysctl -w net.ipv4.tcp_max_syn_backlog=1024",)),
    Case("network", "tcp_tw_reuse", "good", words=("^2$",)),
    Case("network", "tcp_tw_reuse", "notable", {"proc/sys/net/ipv4/tcp_tw_reuse": "0"},
         types=("sudo sysctl -w net.ipv4.tcp_tw_reuse=2",)),
    Case("processors", "CPUs", "good", words=(r"4 usable \(0-3\)",)),
    Case("processors", "CPUs", "notable", {"proc/self/status": status(cpus="2")},
         (r"1 usable \(2\)",)),
    Case("processors", "CPUs", "good", {f"{CPUS}/online": "0-7\n"}, (r"4 usable \(0-3\) of 8", "cpuset")),
    Case("processors", "CPUs", "good", {f"{CPUS}/online": "0-3\n"}, (r"4 usable \(0-3\)$",)),
    Case("processors", "hypervisor", "good", words=("none",)),
    Case("processors", "hypervisor", "notable", {**GUEST, "sys/hypervisor/type": "xen\n"}, ("xen", "caches")),
    Case("processors", "hypervisor", "notable", GUEST, ()),
    Case("processors", "container", "notable", {".dockerenv": ""}, ("docker",)),
    Case("processors", "quota", "unknown", {"proc/self/cgroup": None}),
    Case("processors", "CPU quota", "good"),
    Case("processors", "CPU quota", "notable", {"sys/fs/cgroup/cpu.max": "150000 100000\n"},
         ("150000 100000",)),
    Case("processors", "SMT", "good"),
    Case("processors", "SMT", "notable", {**SIBLINGS, f"{CPUS}/smt/control": "on\n"},
         ("0,2 1,3",), (PINNED.format(0, 1), f"echo off | sudo tee /{CPUS}/smt/control")),
    # Siblings of which this process may use one each share nothing with it.
    Case("processors", "SMT", "good", {**SIBLINGS, "proc/self/status": status(cpus="0-1")}),
    Case("processors", "siblings", "unknown", {f"{CPUS}/cpu{cpu}/topology": None for cpu in range(4)}),
    Case("processors", "memory nodes", "good"),
    Case("processors", "memory nodes", "notable",
         {"sys/devices/system/node/node0/cpulist": "0-1", "sys/devices/system/node/node1/cpulist": "2-3"},
         ("2: 0-1; 2-3",), (PINNED.format(0, 1),)),
    Case("processors", "kinds of cores", "good"),
    Case("processors", "kinds of cores", "notable",
         {"sys/devices/cpu_core/cpus": "0-1", "sys/devices/cpu_atom/cpus": "2-3"}, ("core: 0-1; atom: 2-3",),
         (PINNED.format(0, 1),)),
    Case("processors", "kinds of cores", "notable",
         {f"{CPUS}/cpu{cpu}/cpu_capacity": "1024" if cpu < 2 else "400" for cpu in range(4)},
         ("capacity 1024: 0-1; capacity 400: 2-3",), (PINNED.format(0, 1),)),
]  # fmt: skip


def found(case: Case, made_machine: MadeMachine) -> Finding:
    made_machine.put(case.files)
    made_machine.offer(**case.offered)
    for name, value in case.machine.items():
        setattr(made_machine, name, value)
    findings = made_machine.findings(EXAMINATIONS[case.examination])
    assert case.finding in findings, findings
    return findings[case.finding]


def named(case: Case) -> str:
    return f"{case.examination}-{case.finding}-{case.judgement}"


@pytest.mark.parametrize("case", CASES, ids=named)
def test_each_case_has_its_finding(case: Case, made_machine: MadeMachine) -> None:
    finding = found(case, made_machine)
    said = f"{finding.seen}\n{finding.means}"
    assert finding.judgement == case.judgement, finding
    for words in case.words:
        assert re.search(words, said, re.MULTILINE), said
    assert tuple(change.command for change in finding.changes) == case.types
    assert finding.means


def test_findings_match_the_golden_file(
    made_machine: MadeMachine, golden: Callable[[str, str], None]
) -> None:
    parts = []
    for case in CASES:
        machine_of = made_machine.again()
        finding = found(case, machine_of)
        lines = [f"{case.examination}: {finding.name} ({finding.judgement})", finding.seen, finding.means]
        for change in finding.changes:
            lines += [f"type: {change.command}", *([f"undo: {change.undo}"] if change.undo else [])]
        parts.append("\n".join(lines).replace(str(machine_of.root), ""))
    golden("doctor/findings.txt", "\n\n".join(parts) + "\n")


def test_a_mount_point_of_any_name_is_one_word_of_a_command(made_machine: MadeMachine) -> None:
    mounts = b"none /a\\040\xff\r tmpfs rw 0 0\nnone /my\\040own\rtracing tracefs rw 0 0\n"
    (made_machine.root / "proc/self/mounts").write_bytes(mounts)
    finding = made_machine.findings(EXAMINATIONS["counters"])["tracepoints"]
    (change,) = finding.changes
    assert shlex.split(change.command)[-1] == "/my own\ufffdtracing"
    assert finding.model_dump_json()


def test_cases_cover_every_examination_with_and_without_a_finding() -> None:
    assert {case.examination for case in CASES if case.judgement == "good"} == set(EXAMINATIONS)
    assert {case.examination for case in CASES if case.judgement != "good"} == set(EXAMINATIONS)


@pytest.mark.parametrize("name", EXAMINATIONS)
def test_plain_machine_has_no_findings(name: str, made_machine: MadeMachine) -> None:
    made_machine.put({"proc/self/status": ROOT_USER})
    judged = {each.name: each.judgement for each in made_machine.findings(EXAMINATIONS[name]).values()}
    assert set(judged.values()) == {"good"}, judged


@pytest.mark.parametrize("name", EXAMINATIONS)
def test_machine_without_proc_and_sys_is_examined(
    name: str, made_machine: MadeMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "ROOT", tmp_path / "nothing")
    monkeypatch.setattr("thunderherd.machine.proc.PROC", tmp_path / "nothing/proc")
    for finding in made_machine.findings(EXAMINATIONS[name]).values():
        assert finding.seen and finding.means
        for mount, kind in (("proc", "proc"), ("sys", "sysfs")):
            if finding.means == f"/{mount} is not mounted here":
                assert finding.changes[0].command == f"sudo mount -t {kind} {kind} /{mount}"


@pytest.mark.parametrize("text", ["", "\0", "garbage", "-", "99999999999999999999 x y z"])
@pytest.mark.parametrize("name", EXAMINATIONS)
def test_unreadable_contents_of_files_end_no_examination(
    name: str, text: str, made_machine: MadeMachine
) -> None:
    for path in sorted(made_machine.root.rglob("*")):
        if path.is_file():
            path.write_text(text)
    for finding in made_machine.findings(EXAMINATIONS[name]).values():
        assert (finding.seen and finding.means) or finding.judgement != "unknown"


def test_failing_look_does_not_stop_the_next(made_machine: MadeMachine) -> None:
    def no_such_thing(here: Here) -> Any:
        raise machine.Unavailable("hidden")

    def thing(here: Here) -> Any:
        yield good("thing", "there", "")

    first, second = Examination(title="", looks=(no_such_thing, thing)).findings(made_machine.here())
    assert (first.name, first.seen, first.judgement) == ("no such thing", "hidden", "unknown")
    assert "thunderherd doctor" in first.means
    assert second.seen == "there"


def failing(error: Exception, made_machine: MadeMachine) -> Finding:
    def look(here: Here) -> Any:
        raise error

    (found,) = Examination(title="", looks=(look,)).findings(made_machine.here())
    return found


def test_unresolved_finding_suggests_a_command(made_machine: MadeMachine) -> None:
    there = made_machine.root / "sys/devices/system/cpu/secret"
    user = failing(PermissionError(13, "Permission denied", str(there)), made_machine)
    assert [each.command for each in user.changes] == ["sudo thunderherd doctor"]
    absent = failing(FileNotFoundError(2, "No such file", str(there)), made_machine)
    assert absent.means.endswith(": cat /sys/devices/system/cpu/secret") and absent.changes == ()
    assert "doctor --json" in failing(ValueError("0x"), made_machine).means
    made_machine.put({"proc/self/status": ROOT_USER})
    assert failing(PermissionError(13, "Permission denied", str(there)), made_machine).changes == ()


# What to type -----------------------------------------------------------------------------------------------

ELSEWHERE = {
    "kernel.unprivileged_userns_clone": "Debian's kernels",
    "kernel.apparmor_restrict_unprivileged_userns": "Ubuntu's kernels",
    "kernel.io_uring_disabled": "Linux 6.6 and later",
}
"""Settings that not all kernels have, and which do."""


def test_suggested_commands_are_valid_shell(made_machine: MadeMachine) -> None:
    changes = [change for case in CASES for change in found(case, made_machine.again()).changes]
    assert len(changes) == sum(len(case.types) for case in CASES)
    for change in changes:
        for command in filter(None, (change.command, change.undo)):
            parsed = subprocess.run(
                ["bash", "-n", "-c", command], capture_output=True, text=True, check=False
            )
            assert parsed.returncode == 0, parsed.stderr
            check_form(command)
        assert change.undo or not change.root, f"{change.command} cannot be undone"
        assert change.undo != change.command


FORMS = (
    r"echo \S+ \| (sudo )?tee /(?P<file>\S+)",
    r"(sudo )?sysctl -w (?P<sysctl>[\w.-]+)=('[\w ]+'|[\w]+)",
    r"sudo prlimit --pid \$\$ --(nofile|nproc|memlock)=\d+:\d+",
    r"sudo mount -t tracefs -o mode=755,gid=\$\(id -g\) tracefs /sys/kernel/tracing",
    r"sudo umount /sys/kernel/tracing",
    r"sudo mount -o remount,mode=7\d\d,gid=(0|\$\(id -g\)) /sys/kernel/tracing",
    r"sudo modprobe (-r )?sch_netem",
    r"ps -o pid,user,etime,pcpu,args -p [\d,]+",
    r"thunderherd run unp-ch30( --set 'lab\.(server|client)_cpus=\[\d+\]'){2}",
)


def check_form(command: str) -> None:
    match = next((match for form in FORMS if (match := re.fullmatch(form, command))), None)
    assert match, f"{command} is of no form that is known"
    name = match.groupdict().get("sysctl")
    if name and name not in ELSEWHERE:
        assert Path("/proc/sys", name.replace(".", "/")).exists(), name
    # `echo 1 | tee` writes the word and not a descriptor: `echo 1| tee` would not.
    assert not re.search(r"\d[|>]", command)


@pytest.mark.parametrize(
    "command",
    [
        "prlimit --pid $$ --nofile=64:64 && test $(ulimit -n) = 64",
        "prlimit --pid $$ --memlock=65536:65536 && test $(ulimit -l) = 64",
        "ps -o pid,user,etime,pcpu,args -p $$,$PPID",
        "sysctl -n net.ipv4.ip_local_port_range kernel.perf_event_paranoid",
        "echo word | tee /dev/null",
    ],
)
def test_tools_of_suggested_commands_accept_their_form(command: str) -> None:
    if shutil.which(command.split()[0]) is None:
        pytest.skip(f"{command.split()[0]} is not on PATH")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_suggested_options_pin_a_run_to_cpus(small_study_file: Path, some_catalogue: Catalogue) -> None:
    cpu = min(os.sched_getaffinity(0))
    given = shlex.split(PINNED.format(cpu, cpu))
    overrides = [word for option, word in pairwise(given) if option == "--set"]
    study = load_study(str(small_study_file), "quick", overrides, some_catalogue)
    assert study.lab.server_cpus == study.lab.client_cpus == (cpu,)


# What counting costs, tried for real ------------------------------------------------------------------------


def test_counting_check_measures_ratios_with_a_server_and_clients(use_engine: Path) -> None:
    cost = cpu_of_requests(catalogue(), ("task-clock",))
    assert cost > 0
    tried = counting_check(catalogue())
    has_events = any("cycles" in each.names_of_perf and each.available for each in catalogue().counters)
    if not (has_events and machine.is_guest()):
        assert tried is None
        return
    assert tried is not None and tried.reason is None and len(tried.ratios) == 3
    assert tried.events[0] == "cycles" and tried.median > 0


def test_counting_check_is_skipped_if_nothing_can_be_counted(
    monkeypatch: pytest.MonkeyPatch, some_catalogue: Catalogue
) -> None:
    def never(offered: Catalogue, counters: tuple[str, ...]) -> int:
        raise EngineError("no port")

    monkeypatch.setattr("thunderherd.machine.counting_cost.cpu_of_requests", never)
    cycles = Counter(name="of_its_own", summary="", names_of_perf=("cycles",), available=True)
    has = some_catalogue.model_copy(update={"counters": (cycles,)})
    monkeypatch.setattr(machine, "is_guest", lambda: True)
    assert counting_check(some_catalogue) is None, "no such events"
    assert counting_check(has) == CountingCheck(("cycles",), (), "no port")
    monkeypatch.setattr(machine, "is_guest", lambda: False)
    assert counting_check(has) is None
