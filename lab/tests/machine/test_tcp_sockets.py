"""TCP sockets: real ones in TIME_WAIT, and a written table."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from thunderherd.machine import tcp_sockets
from thunderherd.machine.tcp_sockets import TcpCounts, tcp_counts


def test_what_was_sent_again_is_read_in_a_namespace(tmp_path: Path) -> None:
    (tmp_path / "snmp").write_text(
        "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoMin InSegs RetransSegs OutRsts\nTcp: 200 55 12 3\n"
    )
    (tmp_path / "netstat").write_text(
        "TcpExt: ListenOverflows ListenDrops TCPSynRetrans\nTcpExt: 5 6 4\nIpExt: InOctets\nIpExt: 9\n"
    )
    before = TcpCounts(segments=10, syns=1, dropped=6)
    now = tcp_counts([tmp_path])
    assert now == TcpCounts(segments=12, syns=4, dropped=6)
    assert now - before == TcpCounts(segments=2, syns=3, dropped=0)
    assert tcp_counts([tmp_path, tmp_path]) == now + now == TcpCounts(segments=24, syns=8, dropped=12)
    assert tcp_counts([]) is None


@pytest.mark.parametrize(
    "table", ["TcpExt: ListenOverflows\nTcpExt: 5\n", "TcpExt: ListenDrops\nTcpExt:\n", "", None]
)
def test_counts_that_a_kernel_does_not_show_are_none(table: str | None, tmp_path: Path) -> None:
    (tmp_path / "snmp").write_text("Tcp: RetransSegs\nTcp: 12\n")
    if table is not None:
        (tmp_path / "netstat").write_text(table)
    assert tcp_counts([tmp_path]) is None and tcp_counts() is not None


def test_time_wait_is_counted_by_port() -> None:
    if tcp_sockets.time_wait_count() + 5 > tcp_sockets.time_wait_limit():
        pytest.skip("the machine's table of TIME_WAIT sockets is full: it keeps no more of them")
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    before = tcp_sockets.time_wait_of_port(port)
    for closes_first in ("client", "client", "client", "server", "server"):
        client = socket.create_connection(("127.0.0.1", port))
        server, _ = listener.accept()
        for end in (client, server) if closes_first == "client" else (server, client):
            end.close()
    listener.close()
    # The last segments may be on their way, on a busy machine for a moment.
    deadline = time.monotonic() + 10
    while tcp_sockets.time_wait_of_port(port) - before < 5 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert tcp_sockets.time_wait_of_port(port) - before == 5
    assert tcp_sockets.time_wait_listed(tcp_sockets.OWN_NETWORK, port) - before == 5
    assert tcp_sockets.time_wait_count() >= 5
    assert tcp_sockets.local_ports() > 100
