"""The places of comparisons: all programs of a place have the same congestion control."""

from __future__ import annotations

import argparse
import ast
import os
import sys
from pathlib import Path

import pytest
from started import in_a_place

import streams
from compare import peers, places
from thunderherd.errors import UserError


def test_unknown_congestion_control_is_refused_before_any_run() -> None:
    side = places.Side((0,))
    where = places.Place("loopback", "loopback", "127.0.0.1", side, side, "reno")
    places.may_be_chosen("reno", where)
    with pytest.raises(UserError, match="--congestion no_such") as refusal:
        places.may_be_chosen("no_such", where)
    assert refusal.value.codes == ("bench.refused_congestion",) and "loopback" in str(refusal.value)


@pytest.mark.usefixtures("use_engine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_own_loopback_sets_the_default_congestion_control() -> None:
    machine = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text()
    with in_a_place(places.OWN_LOOPBACK) as where:
        told = (
            "import socket; print(socket.socket().getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16))"
        )
        said = peers.client([sys.executable, "-c", told], peers.Run(where, 1, 1, "reno"))
        assert ast.literal_eval(said).rstrip(b"\0") == b"reno"
        assert where.server.namespace == where.client.namespace and where.server.cpus != where.client.cpus
        assert peers.other_congestion("netbench epoll", where, "reno") == ""
    assert Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text() == machine


@pytest.mark.usefixtures("use_engine")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_own_loopback_refuses_an_unknown_congestion_control() -> None:
    with in_a_place(places.OWN_LOOPBACK):
        pass
    with (
        pytest.raises(UserError, match="--congestion no_such") as refusal,
        places.place(places.OWN_LOOPBACK, "no_such"),
    ):
        pass
    assert refusal.value.codes == ("bench.no_default_congestion",)


def test_peer_without_a_congestion_option_is_marked() -> None:
    side = places.Side((0,))
    where = places.Place("loopback", "loopback", "127.0.0.1", side, side, "bbr")
    assert peers.other_congestion("netperf sendfile", where, "cubic") == " (bbr)"
    assert peers.other_congestion("netperf sendfile", where, "bbr") == ""
    assert peers.other_congestion("netperf", where, "cubic") == ""
    assert peers.other_congestion("netbench epoll on each CPU", where, "cubic") == " (bbr)"


def test_own_loopback_is_no_default_place_of_streams() -> None:
    """A separate namespace may have another default congestion control."""
    parser = argparse.ArgumentParser()
    streams.options(parser)
    assert places.OWN_LOOPBACK not in parser.parse_args([]).places
