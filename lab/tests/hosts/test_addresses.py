"""Addresses of hosts: each is understood, or refused with its code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from made.refusals import refused
from typer.testing import CliRunner

from thunderherd.cli.main import app
from thunderherd.errors import UserError
from thunderherd.hosts.addresses import (
    NETNS,
    SSH,
    THIS,
    WORKER,
    HostAddress,
    parse_host,
    parse_host_of,
    parse_scheduler,
)


@pytest.mark.parametrize(
    ("text", "expected", "short"),
    [
        ("ssh://a", HostAddress(SSH, "a"), "a"),
        ("ssh://alice@a.example:2222", HostAddress(SSH, "alice@a.example", 2222), "a.example"),
        ("ssh://a?data=10.0.1.5", HostAddress(SSH, "a", data="10.0.1.5"), "a"),
        ("ssh://[2001:db8::1]:22", HostAddress(SSH, "2001:db8::1", 22), "2001:db8::1"),
        ("netns:blue", HostAddress(NETNS, "blue"), "blue"),
        ("worker:load-0", HostAddress(WORKER, "load-0"), "load-0"),
        ("worker:a?data=10.0.1.5", HostAddress(WORKER, "a", data="10.0.1.5"), "a"),
        ("worker:tls://[::1]:40001", HostAddress(WORKER, "tls://[::1]:40001"), "tls://[::1]:40001"),
        ("this?data=2001:db8::2", HostAddress(THIS, "", data="2001:db8::2"), THIS),
    ],
)
def test_an_address_is_understood(text: str, expected: HostAddress, short: str) -> None:
    assert (parse_host(text), parse_host(text).short) == (expected, short)
    assert str(expected) == text


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("a", "hosts.address", "ssh://a"),
        ("alice@a", "hosts.address", "ssh://alice@a"),
        ("http://a", "hosts.address", ""),
        ("ssh://", "hosts.address", ""),
        ("ssh://-oProxyCommand=x", "hosts.address", ""),
        ("ssh://-l@a", "hosts.address", ""),
        ("ssh://a b", "hosts.address", ""),
        ("ssh://a:0", "hosts.port", "65535"),
        ("ssh://a:99999", "hosts.port", "65535"),
        ("ssh://a?data=b", "hosts.data_address", ""),
        ("ssh://a?dat=10.0.0.1", "hosts.unknown_parameter", "data"),
        ("netns:", "hosts.address", ""),
        ("netns:../../proc/1/ns/net", "hosts.address", ""),
        ("worker:", "hosts.address", ""),
        ("worker:-x", "hosts.address", ""),
        ("worker:a b", "hosts.address", ""),
        ("worker:a\x1b", "hosts.address", ""),
        ("this2", "hosts.address", "ssh://this2"),
    ],
)
def test_anything_else_is_refused(text: str, code: str, hint: str) -> None:
    (problem,) = refused(parse_host, text)
    assert problem.code == code and hint in problem.hint


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tls://head", "tls://head:8786"),
        ("tls://10.0.0.1:9000", "tls://10.0.0.1:9000"),
        ("tls://[2001:db8::1]", "tls://[2001:db8::1]:8786"),
        ("tcp://localhost", "tcp://localhost:8786"),
        ("tcp://127.1.2.3:1", "tcp://127.1.2.3:1"),
        ("tcp://[::1]:1", "tcp://[::1]:1"),
    ],
)
def test_the_address_of_a_scheduler_is_understood(text: str, expected: str) -> None:
    assert parse_scheduler(text) == expected == parse_scheduler(expected)


@pytest.mark.parametrize(
    ("text", "code", "hint"),
    [
        ("head", "hosts.scheduler", "tls://head"),
        ("http://head", "hosts.scheduler", "tls://"),
        ("tls://", "hosts.address", "tls://"),
        ("tls://head:0", "hosts.port", "tls://"),
        ("tls://head/x", "hosts.address", "tls://"),
        ("tls://-x", "hosts.address", "tls://"),
        ("tcp://head:8786", "hosts.not_encrypted", "tls://head:8786"),
        ("tcp://0.0.0.0:1", "hosts.not_encrypted", "tls://"),
        ("tcp://localhost.example:1", "hosts.not_encrypted", "tls://"),
    ],
)
def test_any_other_scheduler_is_refused(text: str, code: str, hint: str) -> None:
    (problem,) = refused(parse_scheduler, text)
    assert problem.code == code and hint in problem.hint


def test_only_workers_are_hosts_of_a_scheduler() -> None:
    assert parse_host_of("worker:a", "tls://head:8786").kind == WORKER
    assert parse_host_of("ssh://a", None).kind == SSH
    (problem,) = refused(parse_host_of, "ssh://a", "tls://head:8786")
    assert problem.code == "hosts.no_worker"
    (problem,) = refused(parse_host_of, "worker:a", None)
    assert problem.code == "hosts.needs_scheduler" and "--scheduler" in problem.hint


@pytest.mark.parametrize(
    "words",
    [["--install", "--uninstall", "ssh://a"], ["--install", "--scheduler", "tls://head", "worker:a"]],
)
def test_options_that_contradict_each_other_are_refused(words: list[str]) -> None:
    """An agent is installed over SSH, and the workers of a scheduler are started by others."""
    ended = CliRunner().invoke(app, ["hosts", *words])
    assert isinstance(ended.exception, UserError) and ended.exception.codes == ("hosts.both",), ended.output


@given(some.text(max_size=40), some.sampled_from([SSH, NETNS, THIS, ""]))
def test_an_address_is_itself_when_it_is_written(text: str, kind: str) -> None:
    """And nothing in it can be an option of ssh(1), or another path."""
    try:
        found = parse_host(f"{kind}{text}")
    except UserError as error:
        assert all(error.codes)
        return
    assert parse_host(str(found)) == found
    assert not found.name.startswith("-") and "/" not in found.name
