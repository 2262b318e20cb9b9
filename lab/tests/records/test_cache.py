"""Kept files are made once; a cache that cannot be used is ignored."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from jinja2 import Environment

from thunderherd.records.cache import UnsafeFolderError, kept, kept_folder
from thunderherd.show.report.templates import environment


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "thunderherd"


def test_a_file_is_made_once(folder: Path) -> None:
    made = iter(["first", "second", "third"])
    assert [kept("a", lambda: next(made)) for _ in range(2)] == ["first", "first"]
    assert kept("b", lambda: next(made)) == "second"
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b"]
    (folder / "a").unlink()
    assert kept("a", lambda: next(made)) == "third"


def test_without_a_cache_it_is_made_each_time(folder: Path) -> None:
    folder.parent.write_text("no folder")
    made = iter(["first", "second"])
    assert [kept("a", lambda: next(made)) for _ in range(2)] == ["first", "second"]


def test_undecodable_file_is_made_again(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"\xff\xfe")
    assert kept("a", lambda: "text") == "text"
    assert (folder / "a").read_text() == "text"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")
def test_a_cache_of_somebody_else_is_neither_read_nor_written(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "a").write_text("planted")
    for theirs in (folder, folder.parent):
        os.chown(theirs, 65_533, 65_533)
        assert kept("a", lambda: "mine") == kept("b", lambda: "mine") == "mine"
        with pytest.raises(UnsafeFolderError) as raised:
            kept_folder()
        assert raised.value.codes == ("cache.not_private",)
        assert "vegaEmbed" in environment().get_template("report.js").render()
        assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("a", "planted")]
        os.chown(theirs, 0, 0)


def test_templates_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = environment().get_template("report.js").render()
    (kept_one,) = (tmp_path / "thunderherd").glob("template-of-jinja-*")

    def compiled(*_: object, **__: object) -> None:
        raise AssertionError("it was compiled anew")

    with monkeypatch.context() as patched:
        patched.setattr(Environment, "_generate", compiled)
        assert environment().get_template("report.js").render() == text
        kept_one.write_bytes(kept_one.read_bytes()[:100])
        with pytest.raises(AssertionError, match="anew"):
            environment().get_template("report.js")
    assert environment().get_template("report.js").render() == text, "what is broken is made again"


@pytest.mark.parametrize("what", ["a file", "nowhere", "taken"])
def test_templates_without_a_cache(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    folder = {"a file": tmp_path / "file", "nowhere": Path("/proc"), "taken": tmp_path}[what]
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    if what == "taken":
        monkeypatch.setattr("tempfile.NamedTemporaryFile", _full)
    assert "vegaEmbed" in environment().get_template("report.js").render()


def _full(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")
