"""What is kept is made once, and is not missed where it cannot be kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from thunderherd.kept_files import kept


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


def test_what_is_no_text_is_made_anew(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"\xff\xfe")
    assert kept("a", lambda: "text") == "text"
    assert (folder / "a").read_text() == "text"
