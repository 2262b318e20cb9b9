"""Names that other programs choose: no byte of them ends the reading of a table, or hides its other rows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thunderherd.machine import busy, noise, proc, room
from thunderherd.machine.control_groups import cpu_stat_paths
from thunderherd.trial import listener_holders

PIECES = [
    b"a", b" ", b"\t", b"\n", b"\r", b"\x0b", b"\x0c", b"\x1c", b"\x1b", b"\x85", b"\xff", b":", b",", b"(",
    b")", b" - ", b"\\", b"\\040", b"\xe2\x80\xa8", b"\xe2\x80", b"\xc2\xa0", b"\r30 1 0:9 / /b rw - ",
    b"\rUid:\t9\r", b"\nb: 0 0 x 0 0 x @server\n", b"\n0: 0 0 9 0 0\n",
]  # fmt: skip
"""What a reader may take for the end of a line, of a field or of a character: such as a part of U+2028."""


def names(without: bytes = b"") -> st.SearchStrategy[bytes]:
    """Names of files, of any bytes but these."""
    pieces = st.lists(st.sampled_from(PIECES) | st.binary(min_size=1, max_size=3), min_size=1, max_size=5)
    allowed = pieces.map(lambda found: b"".join(found).translate(None, b"\0/" + without))
    return allowed.filter(lambda name: name not in (b"", b".", b".."))


def escaped(name: bytes, what: bytes = b"\\ \t\n") -> bytes:
    """A name as the kernel writes it (seq_escape of the kernel)."""
    return b"".join(b"\\%03o" % each if each in what else bytes([each]) for each in name)


@contextmanager
def machine(files: Mapping[bytes, bytes]) -> Iterator[Path]:
    """A root with these files, whose /proc is read."""
    with (
        tempfile.TemporaryDirectory(prefix="thunderherd-names-") as made,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, content in files.items():
            path = Path(made, os.fsdecode(name))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        patch.setattr(proc, "PROC", Path(made, "proc"))
        patch.setattr(listener_holders, "PROC", Path(made, "proc"))
        yield Path(made)


@given(mount=names(), group=names(without=b"\n"), other=names())
def test_control_groups_are_found_beside_mounts_of_any_name(mount: bytes, group: bytes, other: bytes) -> None:
    theirs = escaped(other)
    table = [
        b"28 1 0:9 / /%b rw shared:1 - tmpfs %b rw\n" % (theirs, theirs),
        b"29 1 0:25 /%b /%b ro - ext4 /dev/%b rw\n" % (theirs, theirs, theirs),
        b"30 1 0:26 / /%b rw - cgroup2 none rw,nsdelegate\n" % escaped(mount),
    ]
    files = {
        b"proc/self/mountinfo": b"".join(table),
        b"proc/self/cgroup": b"1:name=%b:/%b\n0::/%b\n" % (group.replace(b":", b""), group, group),
        b"%b/%b/pids.max" % (mount, group): b"7\n",
    }
    with machine(files):
        groups, mounts = (proc.text(proc.PROC / "self" / name) for name in ("cgroup", "mountinfo"))
        found = [os.fsencode(path) for path in cpu_stat_paths(groups, mounts)]
        assert found == [b"/%b/%b/cpu.stat" % (mount, group), b"/%b/cpu.stat" % mount]
        (limit,) = room.limits_of_groups()
        assert (limit.what, limit.most) == (room.PROCESSES, 7)
        assert limit.name.isprintable(), "it is shown in a line"


@given(name=names())
def test_a_process_of_any_name_is_read(name: bytes) -> None:
    """One with two threads, which has used 300 ticks, and whose child is an engine."""
    stat = b"%d (%b) S %d 7 7 0 -1 4194560 5 6 7 8 200 100 9 10 20 0 2 0 11 12 13\n"
    about = b"Name:\t%b\nUmask:\t0022\nUid:\t5\t5\t5\t5\nThreads:\t%d\n"
    files = {
        b"proc/self/status": about % (escaped(name, b"\\\n"), 1),
        b"proc/7/status": about % (escaped(name, b"\\\n"), 2),
        b"proc/7/stat": stat % (7, name[:15], os.getpid()),
        b"proc/7/comm": name[:15] + b"\n",
        b"proc/9/stat": stat % (9, b"thunderherd-eng", 7),
        b"proc/9/comm": b"thunderherd-eng\n",
    }
    with machine(files):
        assert noise.process_cpu_seconds(7) == 300 / noise.TICKS_A_SECOND
        assert room.tasks_of_user() == 2
        assert busy.other_runs() == [], "the engine descends from this process"
        assert busy.name_of(7).isprintable()


@given(others=st.lists(names(), max_size=3))
def test_a_unix_listener_is_found_among_sockets_of_any_name(others: list[bytes]) -> None:
    row = b"0000000000000000: 00000002 00000000 00010000 0001 01 %5d @%b\n"
    head = b"Num       RefCount Protocol Flags    Type St Inode Path\n"
    rows = [row % (number, name) for number, name in enumerate(others, start=50)]
    with machine({b"proc/7/net/unix": b"".join([head, *rows, row % (41, b"server")])}) as root:
        descriptors = root / "proc/7/fd"
        descriptors.mkdir()
        (descriptors / "3").symlink_to("socket:[41]")
        assert listener_holders.holders_of_listener(7, "unix:@server") == 1
