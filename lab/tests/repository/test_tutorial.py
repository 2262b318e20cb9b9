"""docs/tutorial.md works: its commands run in order and print the output that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from handbook import tutorial
from handbook.tutorial import Command, commands, written
from thunderherd.errors import UserError

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / tutorial.PAGE).read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")

COMPARED = "http.toml"
"""The study of the comparison, whose sentences depend on the verdicts of a few seconds."""

AS_BEFORE = 0.8
"""Of the words that the page shows below a command, the share that it prints again: the rest are verdicts,
and notes on the machine."""


def test_every_command_prints_what_is_shown(tmp_path: Path) -> None:
    printed = tutorial.run(PAGE, tmp_path)
    assert len(printed) >= 8
    for command, lines in zip(commands(PAGE), printed, strict=True):
        if COMPARED in command.typed and "thunderherd" in command.typed:
            assert lines, command.typed
            continue
        shown, now = tutorial.words(command.shown), tutorial.words(lines)
        assert len(shown & now) >= AS_BEFORE * len(shown), (
            f"`{command.typed}` prints other words than {tutorial.PAGE} shows: {sorted(shown - now)} are "
            "gone; type: .venv/bin/python tools/run_tutorial.py"
        )
    assert (tmp_path / "mine.html").is_file()


def test_make_targets_match_the_page() -> None:
    """CI runs the commands; this test checks that the Makefile matches the page."""
    assert "```sh\nmake demo\nmake test\n```" in PAGE
    assert "DEMO_STUDY := unp-ch30\n" in MAKEFILE
    assert "\ndemo: build " in MAKEFILE and "-m thunderherd run $(DEMO_STUDY) --quick\n" in MAKEFILE
    recipe = MAKEFILE.partition("\ntest: ")[2].partition("\n\n")[0]
    assert "test-engine;" in recipe and "test-lab " in recipe


EXAMPLE = """\
# Title

**`a.txt`**
```toml
one
```

```console
$ cat a.txt
stale
$ echo two; echo
```
"""


def test_output_is_written_below_its_command(tmp_path: Path) -> None:
    printed = tutorial.run(EXAMPLE, tmp_path)
    assert printed == [["one"], ["two"]]
    new = written(EXAMPLE, printed)
    assert "```console\n$ cat a.txt\none\n$ echo two; echo\ntwo\n```\n" in new
    assert commands(new) == [Command("cat a.txt", ("one",)), Command("echo two; echo", ("two",))]
    assert written(new, printed) == new


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`cat none \| tail`.* 1:"):
        tutorial.run("```console\n$ cat none | tail\n```\n", tmp_path)


def test_a_diff_that_finds_differences_is_no_failure(tmp_path: Path) -> None:
    page = "```console\n$ echo a > a; echo b > b\n$ diff a b | tail -1\n```\n"
    assert tutorial.run(page, tmp_path) == [[], ["> b"]]


def test_a_shell_that_ends_early_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"\b0 of 2\b"):
        tutorial.run("```console\n$ exit 0\n$ echo\n```\n", tmp_path)


def test_output_that_looks_like_a_command_is_refused() -> None:
    with pytest.raises(UserError, match=r"`\$ `"):
        written(EXAMPLE, [["$ rm"], []])
