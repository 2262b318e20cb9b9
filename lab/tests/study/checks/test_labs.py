"""Impossible labs are refused with their line, and a lab without TCP with the labs that have it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from made.refusals import page
from made.refusals import refused as problems_of
from made.small_studies import SMALL_STUDY
from made.study_labs import OF_UNIX, STUDY, catalogue, refused

from thunderherd.engine import client
from thunderherd.engine.catalogue import Catalogue
from thunderherd.study import lab_option
from thunderherd.study.loading import load_study

__all__ = ["catalogue"]

IMPOSSIBLE = [
    ('[lab]\nkind = "vet"', "study.unknown_lab"),
    ('[lab]\nkind = "veth"\nmtu = 67', "study.invalid_quantity"),
    ('[lab]\nkind = "veth"\nmtu = "1500"', "study.invalid_value"),
    ('[lab]\nkind = "veth"\nrate = "fast"', "study.invalid_quantity"),
    ('[lab]\nkind = "veth"\nrate = "9000gbit"', "study.invalid_quantity"),
    ('[lab]\nkind = "veth"\nrate = "7kbit"', "study.invalid_quantity"),
    ('[lab]\nkind = "veth"\nspeed = 1', "study.unknown_key"),
    ("[lab]\nmtu = 1500", "study.key_of_other_lab"),
    ('[lab]\nkind = "unix"\nrate = "1gbit"', "study.key_of_other_lab"),
    (f'{OF_UNIX}congestion = "reno"', "study.key_of_other_lab"),
    (f"{OF_UNIX}[server.settings]\nnodelay = false", "study.setting_of_tcp"),
    ('[lab]\ncongestion = "a name too long for it"', "study.invalid_setting"),
    ('[lab]\nkind = "veth"\ndelay = "5ms"', "study.unavailable_lab_key"),
    ('[lab]\nkind = "veth"\nloss = "1%"', "study.unavailable_lab_key"),
    ('[lab]\ncongestion = "cubic"', "study.congestion_control_not_allowed"),
    ('[lab]\ncongestion = "cubik"', "study.unknown_congestion_control"),
]


@pytest.mark.parametrize(("more", "code"), IMPOSSIBLE)
def test_an_impossible_lab_is_refused_at_its_last_line(
    more: str, code: str, tmp_path: Path, catalogue: Catalogue
) -> None:
    (problem,) = refused(tmp_path, catalogue, more)
    last = len((STUDY + more).splitlines())
    assert (problem.code, problem.where) == (code, f"small.toml:{last}")


def test_golden_page_of_impossible_labs(
    tmp_path: Path, catalogue: Catalogue, golden: Callable[[str, str], None]
) -> None:
    cases = ((more.replace("\n", " "), refused(tmp_path, catalogue, more)) for more, _ in IMPOSSIBLE)
    golden("study/labs.txt", page(cases))


def test_a_design_that_needs_tcp_is_refused_over_unix_sockets(tmp_path: Path, catalogue: Catalogue) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_STUDY + '[lab]\nkind = "unix"\n')
    (problem,) = problems_of(load_study, str(path), "quick", (), catalogue)
    assert problem.code == "study.needs_tcp"
    assert problem.message.startswith("iterative ") and "port" in problem.message


def test_a_typed_lab_without_tcp_is_refused_with_the_labs_that_have_it(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "small.toml"
    path.write_text(SMALL_STUDY)
    for typed in (["unix"], ["kind=unix"]):
        overrides, as_typed = lab_option.as_overrides(lab_option.read(typed)), lab_option.typed_as(typed)
        first, second = problems_of(load_study, str(path), "quick", overrides, catalogue, as_typed)
        assert (first.code, first.where) == ("study.lab_without_tcp", f"--lab {typed[0]}")
        assert re.findall(r"--lab (\w+)", first.hint) == ["loopback", "veth"]
        assert second.code == "study.needs_tcp" and second.hint.endswith("loopback, veth")


@pytest.mark.parametrize("study", ["cse638-pa02", "css503-p4"])
def test_the_labs_in_the_hint_run_a_bundled_study_that_needs_tcp(study: str, use_engine: Path) -> None:
    as_typed = lab_option.typed_as(["unix"])
    problems = problems_of(load_study, study, "quick", ["lab.kind=unix"], client.catalogue(), as_typed)
    (advice,) = [each.hint for each in problems if each.where == "--lab unix"]
    for kind in re.findall(r"--lab (\w+) or --lab (\w+)", advice)[0]:
        assert load_study(study, "quick", [f"lab.kind={kind}"], client.catalogue()).contenders
