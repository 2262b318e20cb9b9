"""The output of the engine's tests shows what they skipped, which libtest hides for tests that pass."""

from __future__ import annotations

import importlib.util
from pathlib import Path

TOOL = Path(__file__).resolve().parents[3] / "tools" / "engine_tests.py"

SAID = """
running 3 tests
test one ... ok
test other ... ok
test third ... FAILED

successes:

---- one stdout ----
asked 5 times
skipped: no control group here

successes:
    one
    other

failures:

---- third stdout ----
it is skipped in no case

failures:
    third

test result: FAILED. 2 passed; 1 failed; 0 ignored
"""


def test_output_of_passed_tests_is_shortened_to_what_they_skipped() -> None:
    spec = importlib.util.spec_from_file_location("engine_tests", TOOL)
    assert spec and spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    said = tool.shortened(SAID)
    assert "one: skipped: " in said
    assert "asked 5 times" not in said and "successes:" not in said
    assert said.endswith(SAID[SAID.index("failures:") :])
    assert tool.shortened("no list\n") == "no list\n"
