"""Files are written without following links, and only regular files are read, in any user's folder.

Temporary folders of processes that were killed are removed.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from thunderherd import files
from thunderherd.files import TEMPORARY, temporary_folder

SOMEBODY = 65_533
"""A user who is neither root nor the owner of anything."""

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file that a link leads to."""
    path = tmp_path / "target"
    path.write_text("untouched")
    return path


def test_a_planted_link_is_replaced_and_not_followed(target: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").symlink_to(target)
    files.write_text(folder / "file", "new")
    assert target.read_text() == "untouched"
    assert [(path.name, path.is_symlink()) for path in folder.iterdir()] == [("file", False)]
    assert (folder / "file").read_text() == "new"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write_text(path, "old")
    with pytest.raises(RuntimeError), files.replacing(path) as file:
        file.write(b"half of the n")
        raise RuntimeError
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "old"


def test_an_error_of_writing_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised, files.replacing(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "full")
    assert raised.value.filename == str(tmp_path / "file")
    with pytest.raises(OSError) as raised:
        files.write_text(tmp_path / "missing" / "file", "")
    assert raised.value.filename == str(tmp_path / "missing" / "file")


READ: tuple[Callable[[Path], object], ...] = (files.read_bytes, files.read_text, files.open_regular)


@pytest.mark.parametrize("read", READ)
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_other_files_than_regular_ones_are_refused_at_once(
    kind: str, read: Callable[[Path], object], tmp_path: Path
) -> None:
    path = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero"), "folder": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(OSError) as raised:
        read(path)
    assert raised.value.errno == (errno.EISDIR if kind == "folder" else errno.EINVAL)


def test_a_file_that_is_too_large_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(OSError, match="allowed: 5") as raised:
        files.read_bytes(path, 5)
    assert raised.value.errno == errno.EFBIG
    path.write_bytes(b"12345")
    assert files.read_bytes(path, 5) == b"12345"


def test_only_a_regular_file_is_appended_to(target: Path, tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(target)
    os.mkfifo(pipe)
    for path in (link, pipe):
        with pytest.raises(OSError):
            files.open_for_appending(path)
    assert target.read_text() == "untouched"
    descriptor = files.open_for_appending(tmp_path / "new")
    os.write(descriptor, b"line\n")
    os.close(descriptor)
    assert (tmp_path / "new").read_text() == "line\n"


def test_a_new_file_replaces_nothing_and_follows_no_link(target: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("target", "link", "dangling"):
        with pytest.raises(FileExistsError):
            files.write_new(tmp_path / name, b"new")
    assert target.read_text() == "untouched" and not (tmp_path / "nowhere").exists()
    files.write_new(tmp_path / "new", b"new")
    assert (tmp_path / "new").read_bytes() == b"new"


def test_a_link_is_no_folder(tmp_path: Path) -> None:
    files.make_folder(tmp_path / "made")
    files.make_folder(tmp_path / "made")
    (tmp_path / "link").symlink_to(tmp_path / "made")
    with pytest.raises(OSError):
        files.make_folder(tmp_path / "link")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("=1+1", "'=1+1"), ("@SUM(1)", "'@SUM(1)"), ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-x", "'-x"), ("\t=1", "'\t=1"), ("-1.5e-3", "-1.5e-3"), ("-", "-"), ("epoll", "epoll"), ("", ""),
    ],
)  # fmt: skip
def test_a_field_of_csv_is_no_formula(text: str, field: str) -> None:
    assert files.no_formula(text) == field


# Temporary folders ------------------------------------------------------------------------------------------

HOLDER = """
import sys
from pathlib import Path
from thunderherd.files import temporary_folder
with temporary_folder(Path(sys.argv[1])) as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    input()
"""


def held(place: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process with a temporary folder, which it has until it reads a line; return both."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_temporary_folder_is_private_and_removed_at_the_end(tmp_path: Path) -> None:
    with temporary_folder(tmp_path) as folder:
        assert folder.parent == tmp_path and folder.stat().st_mode & 0o777 == 0o700
        (folder / "inside").mkdir()
    assert not [*tmp_path.iterdir()]


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_living_one_is_not(tmp_path: Path) -> None:
    living, kept = held(tmp_path)
    killed, left = held(tmp_path)
    with living, killed:
        killed.kill()
        killed.wait()
        assert (left / "file").exists()
        with temporary_folder(tmp_path):
            assert not left.exists()
            assert (kept / "file").exists()
        living.communicate("\n")
    assert not [*tmp_path.iterdir()]


def test_only_own_folders_of_this_kind_are_removed(target: Path, tmp_path: Path) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    for each in (place / "thunderherd-results", place / f"{TEMPORARY}left", elsewhere):
        each.mkdir(parents=True)
    (place / f"{TEMPORARY}left" / "link").symlink_to(target)
    (place / f"{TEMPORARY}link").symlink_to(elsewhere)
    (place / f"{TEMPORARY}file").touch()
    with temporary_folder(place) as folder:
        kept = {"thunderherd-results", f"{TEMPORARY}link", f"{TEMPORARY}file", folder.name}
        assert {each.name for each in place.iterdir()} == kept
    assert elsewhere.exists() and target.exists()


@as_root
def test_a_temporary_folder_of_somebody_else_is_not_removed(tmp_path: Path) -> None:
    theirs = tmp_path / f"{TEMPORARY}theirs"
    theirs.mkdir()
    os.chown(theirs, SOMEBODY, SOMEBODY)
    with temporary_folder(tmp_path):
        assert theirs.exists()


# Whose a folder is ------------------------------------------------------------------------------------------


def test_a_folder_that_all_may_write_to_is_not_private(tmp_path: Path) -> None:
    inside = tmp_path / "open" / "inside"
    inside.mkdir(parents=True)
    assert files.is_private(inside) and files.is_private(inside / "to come")
    inside.parent.chmod(0o777)
    assert not files.is_private(inside)
    inside.parent.chmod(0o1777)
    assert files.is_private(inside), "in a sticky folder nobody moves what is not theirs"
    inside.chmod(0o1777)
    assert files.is_private(inside / "to come")


@as_root
def test_a_folder_that_a_group_may_write_to_is_private_if_the_group_is_ones_own(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o775)
    assert files.is_private(folder)
    os.chown(folder, 0, SOMEBODY)
    assert not files.is_private(folder)


def test_two_writers_of_a_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with files.replacing(path) as one:
        one.write(b"one")
        files.write_text(path, "another")
    assert path.read_text() == "one" and [each.name for each in tmp_path.iterdir()] == ["file"]


@as_root
def test_a_folder_of_somebody_else_is_not_private(tmp_path: Path) -> None:
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    (theirs / "inside").mkdir(parents=True)
    mine.mkdir()
    os.chown(theirs, SOMEBODY, SOMEBODY)
    (mine / "link").symlink_to(theirs / "inside")
    (theirs / "link").symlink_to(mine)
    assert files.is_private(mine)
    for each in (theirs, theirs / "inside", theirs / "to come", mine / "link", theirs / "link"):
        assert not files.is_private(each), each
