"""What the kernel says, damaged: answers of sock_diag, and tables whose readers skip what is no row."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from made.damage.corpus import kept
from made.damage.raw import damaged, damages

from thunderherd.machine import noise, proc, users
from thunderherd.machine.control_groups import cpu_stat_paths
from thunderherd.machine.tcp_sockets import HEAD, sockets_in, tcp_counts

DAMAGES, OF_TABLES = 500, 150


def test_the_kept_answers_have_their_sockets() -> None:
    found = [sockets_in(answer) for answer in kept("netlink")[:2]]
    assert [[each.port for each in sockets] for sockets, _ in found] == [[47336, 7000], [7000]]
    assert all(more for _, more in found), "another answer says that these were all"


@pytest.mark.fuzz
def test_a_damaged_answer_is_read_or_refused(draws: Callable[[int], Iterator[random.Random]]) -> None:
    for answer in damages("netlink", draws(DAMAGES)):
        with suppress(OSError):
            sockets, _ = sockets_in(answer)
            assert len(sockets) <= len(answer) // HEAD.size
            assert all(0 <= each.port < 1 << 16 for each in sockets)


TABLES = {
    "proc/self/cgroup": b"9:cpu,cpuacct:/a\xff:b\n1:name=systemd:/\n0::/c d\n",
    "proc/self/mountinfo": b"28 1 0:9 / /x rw shared:1 - tmpfs tmpfs rw\n"
    b"30 1 0:26 / /sys\\040x rw - cgroup2 none rw\n31 1 0:27 /a /c rw - cgroup none rw,cpu,cpuacct\n",
    "proc/7/stat": b"7 () (x) S 1 7 7 0 -1 4194560 5 6 7 8 200 100 9 10 20 0 1 0 11 12 13\n",
    "proc/7/schedstat": b"3000000 12 5\n",
    "proc/self/net/snmp": b"Ip: Forwarding\nIp: 1\nTcp: RtoMin RetransSegs\nTcp: 200 12\n",
    "proc/self/net/netstat": b"TcpExt: ListenDrops TCPSynRetrans\nTcpExt: 6 4\n",
    "etc/passwd": b"root:x:0:0:Ren\xe9:/root:/bin/sh\nnobody:x:65534:65533:\xff:/:/bin/false\n",
}
"""Tables of a machine, each with names that others choose."""


@pytest.mark.fuzz
def test_damaged_tables_are_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, draws: Callable[[int], Iterator[random.Random]]
) -> None:
    monkeypatch.setattr(proc, "PROC", tmp_path / "proc")
    monkeypatch.setattr(users, "PASSWORDS", tmp_path / "etc/passwd")
    for draw in draws(OF_TABLES):
        for name, content in TABLES.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(damaged(content, draw) if draw.random() < 0.5 else content)
        groups, mounts = (proc.text(proc.PROC / "self" / each) for each in ("cgroup", "mountinfo"))
        assert all(os.fsencode(path).endswith(b"cpu.stat") for path in cpu_stat_paths(groups, mounts))
        noise.process_cpu_seconds(7)
        tcp_counts([tmp_path / "proc/self/net"])
        found = users.find_user("nobody")
        assert found is None or found.number >= 0
