"""Control groups: the paths by canned tables, the throttling on this machine."""

from __future__ import annotations

from pathlib import Path

from thunderherd.machine import control_groups

MOUNTS_1 = """\
30 24 0:26 / /sys/fs/cgroup ro,nosuid - tmpfs tmpfs ro,mode=755
31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
"""
MOUNTS_2 = "40 24 0:30 /docker/abc /sys/fs/cgroup rw shared:1 - cgroup2 cgroup rw\n"


def test_version_1_groups_are_followed_upwards() -> None:
    groups = "9:memory:/other\n4:cpu,cpuacct:/user/one\n0::/\n"
    assert control_groups.cpu_stat_paths(groups, MOUNTS_1) == [
        Path("/sys/fs/cgroup/cpu,cpuacct/user/one/cpu.stat"),
        Path("/sys/fs/cgroup/cpu,cpuacct/user/cpu.stat"),
        Path("/sys/fs/cgroup/cpu,cpuacct/cpu.stat"),
    ]


def test_a_container_sees_its_group_as_the_mounts_root() -> None:
    assert control_groups.cpu_stat_paths("0::/docker/abc/job\n", MOUNTS_2) == [
        Path("/sys/fs/cgroup/job/cpu.stat"),
        Path("/sys/fs/cgroup/cpu.stat"),
    ]


def test_throttled_periods_can_be_read() -> None:
    assert control_groups.throttled_periods() >= 0
