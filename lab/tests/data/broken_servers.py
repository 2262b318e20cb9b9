"""Servers that each break one thing, for tests of the cases that any server must pass.

`python broken_servers.py FAULT PORT`: a server of workload `bytes`, or `http` if the fault is one of that
protocol. Each connection has a thread. Without a fault (`none`, `none_http`) the servers pass every case.
"""

from __future__ import annotations

import os
import re
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable

PATTERN = bytes(range(251)) * 80
LONGEST_LINE = 64
LONGEST_HEAD = 8192
GIANT = 500_000

kept: list[int] = []
"""Descriptors that are never closed."""


class Ended(Exception):
    """The client has ended, or the server ends the connection."""


class TooLong(Ended):
    """The client sends more than a request may have."""


class Connection:
    """The bytes of one connection, with the fault of the server."""

    def __init__(self, client: socket.socket, fault: str) -> None:
        self.client, self.fault, self.buffer = client, fault, b""

    def until(self, mark: bytes, longest: int) -> bytes:
        """Return the bytes up to a mark; raise `Ended` at the end, and at more than the longest."""
        while mark not in self.buffer:
            if len(self.buffer) > longest:
                if self.fault == "crashes_on_giant":
                    os._exit(1)
                raise TooLong
            if self.fault == "mishandles_split" and self.buffer:
                self.buffer = b""  # what came before the rest is forgotten
            piece = self.client.recv(4096)
            if not piece:
                raise Ended
            self.buffer += piece
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    def has_ended(self) -> bool:
        """Return whether the client's end has come, or comes within a moment."""
        if not select.select([self.client], [], [], 0.02)[0]:
            return False
        return not self.client.recv(1, socket.MSG_PEEK)


def serve_bytes(each: Connection) -> None:
    """The workload `bytes`: a number and a newline, and as many bytes."""
    longest = GIANT if each.fault == "crashes_on_giant" else LONGEST_LINE
    while True:
        count = int(each.until(b"\n", longest))
        if not 0 < count <= 16384:
            raise Ended
        reply = PATTERN[:count]
        if each.fault == "ignores_half_close" and each.has_ended():
            raise Ended
        if each.fault == "out_of_order" and b"\n" in each.buffer:
            # A client that pipelines gets the reply to its second request first.
            second = int(each.until(b"\n", LONGEST_LINE))
            reply = PATTERN[:second] + reply
        if each.fault == "one_byte_more":
            reply += b"x"
        if each.fault == "closes_early" and count > 12_000:
            each.client.sendall(reply[: count // 2])
            raise Ended
        each.client.sendall(reply)
        if each.fault == "one_request":
            raise Ended


def serve_http(each: Connection) -> None:
    """GET and HEAD of one resource (RFC 9112)."""
    while True:
        try:
            head = each.until(b"\r\n\r\n", LONGEST_HEAD)
        except TooLong:
            each.client.sendall(b"HTTP/1.1 431 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            raise
        status, close, head_only = understood(head.lstrip(b"\r\n"))
        if each.fault == "ignores_close" and b"\r\nConnection: close" in head:
            close = False
        body = b"" if status == "404" else b"hello"
        fields = f"Content-Length: {len(body)}\r\n" + ("Connection: close\r\n" if close else "")
        reply = f"HTTP/1.1 {status} X\r\n{fields}\r\n".encode()
        each.client.sendall(reply + (b"" if head_only and each.fault != "body_of_head" else body))
        if close:
            raise Ended


def understood(head: bytes) -> tuple[str, bool, bool]:
    """Return the status, whether the connection closes, and whether the request is HEAD."""
    first, *lines = head.split(b"\r\n")
    line = re.fullmatch(rb"([A-Z]+) (?:http://[^/ ]*)?(/[^ ]*) HTTP/1\.([01])", first)
    fields = [re.fullmatch(rb"([!-9;-~]+):[ \t]*(.*?)[ \t]*", each) for each in lines]
    if line is None or None in fields:
        return "400", True, False
    named = [(found[1].lower(), found[2]) for found in fields if found]
    hosts = [value for name, value in named if name == b"host"]
    has_body = any(name in (b"content-length", b"transfer-encoding") for name, _ in named)
    if len(hosts) != (line[3] == b"1") or any(re.search(rb"[ /]", host) for host in hosts) or has_body:
        return "400", True, line[1] == b"HEAD"
    close = line[3] == b"0" or (b"connection", b"close") in named
    if line[1] not in (b"GET", b"HEAD"):
        return "405", close, False
    return "200" if line[2] == b"/" else "404", close, line[1] == b"HEAD"


OF_HTTP = ("none_http", "body_of_head", "ignores_close")
"""The faults of servers of the workload `http`."""


def connection(client: socket.socket, fault: str, serve: Callable[[Connection], None]) -> None:
    """Serve one connection until either end closes it."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        serve(Connection(client, fault))
    except (Ended, ValueError, BrokenPipeError):
        pass
    except ConnectionResetError:
        if fault == "leaks_a_descriptor":
            kept.append(os.dup(client.fileno()))
    # What the client has sent is taken before the close, which would be a reset otherwise.
    with client:
        client.settimeout(1.0)
        try:
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
        except OSError:
            pass


def main() -> None:
    """Serve until SIGTERM."""
    fault, port = sys.argv[1], int(sys.argv[2])
    signal.signal(signal.SIGTERM, signal.SIG_IGN if fault == "ignores_sigterm" else signal.SIG_DFL)
    serve = serve_http if fault in OF_HTTP else serve_bytes
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=connection, args=(client, fault, serve), daemon=True).start()


if __name__ == "__main__":
    main()
