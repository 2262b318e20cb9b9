"""Control groups: the paths by canned tables, the throttling on this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


def test_throttling_can_be_read() -> None:
    found = control_groups.throttled(os.getpid())
    assert found.periods >= 0 and found.seconds >= 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 2500000\n", 2.5),
        ("nr_periods 9\nnr_throttled 3\nthrottled_time 2500000000\n", 2.5),
        ("usage_usec 5\n", 0.0),
    ],
    ids=["second version", "first version", "no quota"],
)
def test_throttling_of_both_versions(
    text: str, seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.stat").write_text(text)
    monkeypatch.setattr(control_groups, "_own_cpu_stat_files", lambda: (tmp_path / "cpu.stat",))
    assert control_groups.throttled() == control_groups.Throttling(3 if seconds else 0, seconds)


def test_groups_of_another_process_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {}
    for name, microseconds in (("common", 1_000_000), ("own", 250_000), ("other", 2_000_000)):
        files[name] = tmp_path / name
        files[name].write_text(f"nr_throttled 1\nthrottled_usec {microseconds}\n")
    monkeypatch.setattr(control_groups, "_own_cpu_stat_files", lambda: (files["own"], files["common"]))
    monkeypatch.setattr(control_groups, "cpu_stat_files", lambda _: (files["other"], files["common"]))
    assert control_groups.throttled(1) == control_groups.Throttling(3, 3.25, 2.0)
    assert control_groups.throttled() == control_groups.Throttling(2, 1.25, 0.0)
