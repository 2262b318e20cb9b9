"""The file of a capsule: what it packs comes out again, and what was altered is refused."""

from __future__ import annotations

import hashlib
import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from made.damage.corpus import kept
from made.refusals import refused

from thunderherd.capsule import container
from thunderherd.capsule.container import MANIFEST, Manifest, pack, unpack

FILES = {"run.json": b"{}\n", "study/a.toml": b'name = "a"\n', "trials.jsonl": b"x" * 5000}


@pytest.fixture
def capsule(tmp_path: Path) -> Path:
    return made(tmp_path / "source", tmp_path / "run.thd", FILES)


def made(folder: Path, target: Path, files: dict[str, bytes]) -> Path:
    paths = {}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        paths[name] = path
    pack(paths, Manifest(version="1", study="a", engine={}, files=[]), target)
    return target


def rewritten(capsule: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The capsule with other files."""
    with zipfile.ZipFile(capsule) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    change(files)
    with zipfile.ZipFile(capsule, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return capsule


def test_what_was_packed_comes_out(capsule: Path, tmp_path: Path) -> None:
    manifest = unpack(capsule, tmp_path / "out")
    found = {each.path: (tmp_path / "out" / each.path).read_bytes() for each in manifest.files}
    assert found == FILES


def test_the_same_files_give_the_same_capsule(capsule: Path, tmp_path: Path) -> None:
    assert made(tmp_path / "again", tmp_path / "again.thd", FILES).read_bytes() == capsule.read_bytes()


def _other_content(files: dict[str, bytes]) -> None:
    files["trials.jsonl"] = b"y" * 5000


def _longer(files: dict[str, bytes]) -> None:
    files["trials.jsonl"] += b"x"


def _shorter(files: dict[str, bytes]) -> None:
    files["trials.jsonl"] = b"x"


def _without(files: dict[str, bytes]) -> None:
    del files["run.json"]


def _with_more(files: dict[str, bytes]) -> None:
    files["more.json"] = b"{}"


def _listed(name: str) -> Callable[[dict[str, bytes]], None]:
    """Adds a file to the archive and to its manifest."""

    def change(files: dict[str, bytes]) -> None:
        manifest: dict[str, Any] = json.loads(files[MANIFEST])
        digest = hashlib.sha256(b"evil").hexdigest()
        manifest["files"].append({"path": name, "bytes": 4, "sha256": digest})
        files[MANIFEST] = json.dumps(manifest).encode()
        files[name] = b"evil"

    return change


def _huge(files: dict[str, bytes]) -> None:
    manifest = json.loads(files[MANIFEST])
    manifest["files"][0]["bytes"] = container.MOST_BYTES + 1
    files[MANIFEST] = json.dumps(manifest).encode()


def _listed_twice(files: dict[str, bytes]) -> None:
    manifest = json.loads(files[MANIFEST])
    manifest["files"].append(manifest["files"][0])
    files[MANIFEST] = json.dumps(manifest).encode()


def _not_json(files: dict[str, bytes]) -> None:
    files[MANIFEST] = b"[" * 100_000


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_other_content, "capsule.altered"),
        (_longer, "capsule.altered"),
        (_shorter, "capsule.altered"),
        (_without, "capsule.altered"),
        (_with_more, "capsule.altered"),
        (_listed("../evil"), "capsule.unsafe_name"),
        (_listed("/evil"), "capsule.unsafe_name"),
        (_listed("a/../../evil"), "capsule.unsafe_name"),
        (_listed(".bashrc"), "capsule.unsafe_name"),
        (_listed("a\\..\\evil"), "capsule.unsafe_name"),
        (_listed("a\x1b[31m"), "capsule.unsafe_name"),
        (_listed_twice, "capsule.altered"),
        (_huge, "capsule.too_large"),
        (_not_json, "capsule.other_version"),
        (_listed("run.json/inside"), "capsule.damaged"),
        (_listed("study/a.toml/b"), "capsule.damaged"),
        (_listed("a" * 300), "capsule.damaged"),
        (lambda files: files.pop(MANIFEST) and None, "capsule.no_manifest"),
    ],
)
def test_an_altered_capsule_is_refused_and_writes_nothing_outside(
    change: Callable[[dict[str, bytes]], None], code: str, capsule: Path, tmp_path: Path
) -> None:
    out = tmp_path / "deep" / "out"
    (problem,) = refused(unpack, rewritten(capsule, change), out)
    assert problem.code == code
    assert not (tmp_path / "evil").exists() and not (tmp_path / "deep" / "evil").exists()


def test_a_content_that_unpacks_to_more_than_it_says_is_not_read_on(capsule: Path, tmp_path: Path) -> None:
    """The sizes in a zip archive are as false as its author likes."""

    def change(files: dict[str, bytes]) -> None:
        files["trials.jsonl"] = b"x" * 50_000_000

    (problem,) = refused(unpack, rewritten(capsule, change), tmp_path / "out")
    assert problem.code == "capsule.altered"
    assert (tmp_path / "out/trials.jsonl").stat().st_size <= 5000


@pytest.mark.parametrize("what", ["entries", "length", "zip64"])
def test_a_list_of_contents_that_would_fill_the_memory_is_not_read(
    what: str, capsule: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(capsule.read_bytes())
    end = content.rfind(b"PK\5\6")
    if what == "entries":
        content[end + 10 : end + 12] = (2001).to_bytes(2, "little")
    elif what == "length":
        content[end + 12 : end + 16] = (1 << 30).to_bytes(4, "little")
    else:
        content[end:end] = b"PK\6\7" + bytes(16)
    capsule.write_bytes(content)

    def read(*_: object) -> None:
        raise AssertionError("zipfile reads it")

    monkeypatch.setattr(zipfile, "ZipFile", read)
    (problem,) = refused(unpack, capsule, tmp_path / "out")
    assert problem.code == "capsule.too_large"


def test_what_nobody_could_unpack_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "LARGEST_TEXT", 10)
    (problem,) = refused(
        made, tmp_path / "source", tmp_path / "run.thd", FILES | {"study/claims.txt": b"x" * 11}
    )
    assert problem.code == "capsule.too_large" and not (tmp_path / "run.thd").exists()


@pytest.mark.parametrize(
    ("lines", "is_refused"), [(b"x" * 5001, True), (b"x" * 3000 + b"\n" + b"x" * 3000, False)]
)
def test_a_line_that_would_fill_the_memory_is_refused(
    lines: bytes, is_refused: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capsule = made(tmp_path / "source", tmp_path / "run.thd", FILES | {"trials.jsonl": lines})
    monkeypatch.setattr(container, "LARGEST_TEXT", 5000)
    monkeypatch.setattr(container, "CHUNK", 1000)
    if not is_refused:
        unpack(capsule, tmp_path / "out")
        return
    (problem,) = refused(unpack, capsule, tmp_path / "out")
    assert problem.code == "capsule.too_large"


def test_a_link_is_unpacked_as_a_plain_file(capsule: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    target = str(tmp_path / "secret").encode()
    with zipfile.ZipFile(capsule) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    manifest = json.loads(files[MANIFEST])
    digest = hashlib.sha256(target).hexdigest()
    manifest["files"].append({"path": "link", "bytes": len(target), "sha256": digest})
    files[MANIFEST] = json.dumps(manifest).encode()
    with zipfile.ZipFile(capsule, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        info = zipfile.ZipInfo("link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, target)
    unpack(capsule, tmp_path / "out")
    assert not (tmp_path / "out/link").is_symlink() and (tmp_path / "out/link").read_bytes() == target


@pytest.mark.parametrize("way", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_only_what_pack_writes_is_unpacked(way: int, capsule: Path, tmp_path: Path) -> None:
    """Another compression may take more memory than it says, and fail in other ways."""
    other = tmp_path / "other.thd"
    with zipfile.ZipFile(capsule) as source, zipfile.ZipFile(other, "w", way) as target:
        for each in source.infolist():
            target.writestr(each.filename, source.read(each))
    # Damaged, too: it is refused before it is read.
    content = bytearray(other.read_bytes())
    content[40:60] = bytes(20)
    other.write_bytes(content)
    (problem,) = refused(unpack, other, tmp_path / "out")
    assert problem.code == "capsule.altered"


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + b"\0" * 40])
def test_another_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.thd").write_bytes(content)
    (problem,) = refused(unpack, tmp_path / "a.thd", tmp_path / "out")
    assert problem.code == "capsule.damaged"
    assert refused(unpack, tmp_path / "none.thd", tmp_path / "out")[0].code == "capsule.no_file"
    assert refused(unpack, tmp_path, tmp_path / "out")[0].code == "capsule.no_file"


@pytest.mark.parametrize("content", kept("capsules"))
def test_a_kept_damaged_capsule_is_refused_or_harmless(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.thd").write_bytes(content)
    try:
        unpack(tmp_path / "a.thd", tmp_path / "deep/out")
    except container.UserError as error:
        assert all(code.startswith("capsule.") for code in error.codes)
    assert not list(tmp_path.rglob("evil*"))


@pytest.mark.fuzz(examples_a_second=160)
@given(some.binary(max_size=200), some.integers(0, 4000), some.integers(1, 200))
def test_random_damage_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, garbage: bytes, place: int, length: int
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    path = made(folder / "source", folder / "a.thd", FILES)
    content = path.read_bytes()
    path.write_bytes(content[:place] + garbage + content[place + length :])
    try:
        manifest = unpack(path, folder / "out")
    except container.UserError:
        return
    assert {each.path: (folder / "out" / each.path).read_bytes() for each in manifest.files} == FILES
