"""Addresses of hosts: each is understood, or refused with its code."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from made.refusals import refused

from thunderherd.errors import UserError
from thunderherd.hosts.addresses import NETNS, SSH, THIS, HostAddress, parse_host


@pytest.mark.parametrize(
    ("text", "expected", "short"),
    [
        ("ssh://a", HostAddress(SSH, "a"), "a"),
        ("ssh://alice@a.example:2222", HostAddress(SSH, "alice@a.example", 2222), "a.example"),
        ("ssh://a?data=10.0.1.5", HostAddress(SSH, "a", data="10.0.1.5"), "a"),
        ("ssh://[2001:db8::1]:22", HostAddress(SSH, "2001:db8::1", 22), "2001:db8::1"),
        ("netns:blue", HostAddress(NETNS, "blue"), "blue"),
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
        ("this2", "hosts.address", "ssh://this2"),
    ],
)
def test_anything_else_is_refused(text: str, code: str, hint: str) -> None:
    (problem,) = refused(parse_host, text)
    assert problem.code == code and hint in problem.hint


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
