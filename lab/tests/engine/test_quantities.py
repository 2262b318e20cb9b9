"""Both halves read and write quantities by the same rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thunderherd.engine.catalogue import Catalogue, IntegerSetting
from thunderherd.engine.client import catalogue
from thunderherd.engine.dry_run import Command, ask, load_command, server_command
from thunderherd.engine.lines import Accepted, Refused

TIME = IntegerSetting(
    name="length", help="", kind="integer", unit="ns", resolution=10**6,
    minimum=10**6, maximum=60 * 10**9, default=10**9,
)  # fmt: skip
FINE = TIME.model_copy(update={"resolution": 1000, "minimum": 0})
SIZE = TIME.model_copy(update={"unit": "bytes", "resolution": 1, "minimum": 1, "maximum": 2**30})
COUNT = SIZE.model_copy(update={"unit": "clients"})


def offered(engine: Path) -> Catalogue:
    return catalogue(engine)


def test_each_default_is_accepted_as_it_is_written(use_engine: Path) -> None:
    here = offered(use_engine)
    assert here.namespace is not None
    settings = [*here.of_ends.values(), *here.limit_settings, *here.namespace.settings]
    refused = [each.name for each in settings if not each.accepts(each.write(each.default))]
    assert settings and refused == []


def test_each_default_of_a_server_is_accepted_by_the_engine(use_engine: Path) -> None:
    here = offered(use_engine)
    way = here.defaults.way
    for design in here.designs:
        known = here.settings_of_server(design.name, way, "bytes")
        usual = {name: setting.default for name, setting in known.items()}
        found = ask(use_engine, server_command(design.name, "bytes", way._asdict(), usual))
        assert isinstance(found, Accepted) or found.only_here, (design.name, found)


def test_each_default_of_a_load_is_accepted_by_the_engine(use_engine: Path) -> None:
    here = offered(use_engine)
    way = here.defaults.way
    for load in here.loads:
        for name, setting in here.settings_of_load(load.name, way, "bytes").items():
            usual = {name: setting.default}
            found = ask(use_engine, load_command("bytes", load.name, way._asdict(), usual))
            assert isinstance(found, Accepted), (load.name, name, found)


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("duration", "5", "no_unit"),
        ("duration", "5m", "unknown_unit"),
        ("duration", "1us", "not_whole"),
        ("duration", "25h", "invalid_value"),
        ("think", "5", "no_unit"),
        ("bytes", "64K", "unknown_unit"),
        ("bytes", "1.5", "not_whole"),
        ("clients", "4KiB", "unknown_unit"),
    ],
)
def test_both_refuse_alike(use_engine: Path, option: str, value: str, code: str) -> None:
    setting = offered(use_engine).of_ends[option]
    words = (
        "load",
        "bytes",
        "--connect",
        "127.0.0.1:1",
        "--load",
        "closed_connections",
        f"--{option}",
        value,
    )
    found = ask(use_engine, Command(words))
    assert isinstance(found, Refused) and found.code == f"setting.{code}"
    refusal = setting.refusal(int(value) if value.isdecimal() else value)
    assert refusal is not None
    assert refusal.code == ("invalid_setting" if code == "invalid_value" else code)
    assert (
        refusal.hint.replace('"', "") in (found.hint, (found.hint or "").partition("; ")[0])
        or "allowed" in refusal.hint
    )


@pytest.mark.parametrize("value", ["5s", "1.5s", "500ms", "0.5min", "60000ms"])
def test_a_time_of_a_study_has_a_unit(value: str) -> None:
    assert TIME.accepts(value) and TIME.has(TIME.read(value))


@pytest.mark.parametrize(
    ("setting", "value", "code", "hint"),
    [
        (TIME, 5, "no_unit", '"5s" or "5ms"'),
        (TIME, 500, "no_unit", '"500ms"'),
        (TIME, "5", "no_unit", '"5s" or "5ms"'),
        (FINE, 50, "no_unit", '"50ms" or "50us"'),
        (TIME, "5m", "unknown_unit", '"5ms"; allowed: a time from 1ms to 1min'),
        (TIME, "0.5ms", "not_whole", "allowed: a time from 1ms to 1min"),
        (TIME, 0, "invalid_setting", "allowed: a time from 1ms to 1min"),
        (TIME, True, "invalid_setting", "allowed: a time from 1ms to 1min"),
        (TIME, "soon", "invalid_setting", "allowed: a time from 1ms to 1min"),
        (SIZE, "64", "invalid_setting", "allowed: a size from 1 to 1GiB"),
        (SIZE, "64.0", "invalid_setting", "allowed: a size from 1 to 1GiB"),
        (COUNT, " 50 ", "invalid_setting", "allowed: a whole number from 1 to 1073741824 clients"),
        (COUNT, "50.0", "invalid_setting", "allowed: a whole number from 1 to 1073741824 clients"),
        (SIZE, "2GiB", "invalid_setting", "allowed: a size from 1 to 1GiB"),
        (COUNT, "4KiB", "unknown_unit", "allowed: a whole number from 1 to 1073741824 clients"),
        (COUNT, 1.5, "invalid_setting", "allowed: a whole number from 1 to 1073741824 clients"),
    ],
)
def test_each_refusal_of_a_value_has_a_code(
    setting: IntegerSetting, value: object, code: str, hint: str
) -> None:
    refusal = setting.refusal(value)
    assert refusal is not None and (refusal.code, refusal.hint) == (code, hint)


@pytest.mark.parametrize(
    ("value", "number"), [(64, 64), ("64KiB", 65_536), ("64k", 64_000), ("64kB", 64_000)]
)
def test_a_size_may_have_a_unit(value: object, number: int) -> None:
    assert SIZE.accepts(value) and SIZE.read(value) == number


@given(st.integers(0, 60_000))
def test_a_value_is_read_as_it_is_written(steps: int) -> None:
    number = steps * FINE.resolution
    assert FINE.read(FINE.write(number)) == number
