"""Servers that each break one thing, for tests of the cases that any server must pass.

`python broken_servers.py FAULT PORT`: a server of workload `bytes`, or of `echo` or `http` if the fault is
one of that protocol. Each connection has a thread. Without a fault (`none`, `none_echo`, `none_http`) the
servers pass every case.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable

PATTERN = bytes(range(251)) * 80
LONGEST_LINE = 64
LONGEST_HEAD = 8192
CUT = 4096
"""Length of the buffer for a head that is too short."""
LATE = 150
"""A place far from both ends of a request of some 270 bytes."""
GIANT = 500_000

SHORT_TIMEOUT = 0.2
"""Seconds after which a server with too short a timeout gives a client up."""

kept: list[object] = []
"""Descriptors, threads and memory that are never released."""
served = itertools.count(1)
"""Numbers of connections."""
replies = itertools.count(1)
"""Numbers of replies whose bodies differ."""
shared = [0]
"""A length that all threads write and read, as a `static` variable of a function in C."""


class Ended(Exception):
    """The client has ended, or the server ends the connection."""


class TooLong(Ended):
    """The client sends more than a request may have."""


class Connection:
    """The bytes of one connection, with the fault of the server."""

    def __init__(self, client: socket.socket, fault: str) -> None:
        self.client, self.fault, self.buffer = client, fault, b""
        self.has_received = False
        self.edges: select.epoll | None = None
        self.is_full = False

    def until(self, mark: bytes, longest: int) -> bytes:
        """Return the bytes up to a mark; raise `Ended` at the end, and at more than the longest."""
        while mark not in self.buffer:
            if self.fault == "cuts_heads" and len(self.buffer) >= CUT:
                # The buffer is full, and what is in it is taken for the head.
                found, self.buffer = self.buffer[:CUT], self.buffer[CUT:]
                return found
            if len(self.buffer) > longest:
                if self.fault == "crashes_on_giant":
                    os._exit(1)
                raise TooLong
            if self.fault == "mishandles_split" and self.buffer:
                self.buffer = b""  # what came before the rest is forgotten
            if self.fault == "mishandles_late_split" and len(self.buffer) == LATE:
                self.buffer = b""
            if self.fault == "times_out_in_request":
                self.client.settimeout(SHORT_TIMEOUT if self.buffer else None)
            self.buffer += self.receive()
        found, _, self.buffer = self.buffer.partition(mark)
        return found

    def receive(self) -> bytes:
        """Return some bytes; raise `Ended` at the end."""
        if self.fault == "reads_once_an_edge":
            # Bytes beyond the first 4096 wait until others come.
            if self.edges is None:
                self.edges = select.epoll()
                self.edges.register(self.client, select.EPOLLIN | select.EPOLLET)
                self.edges.poll()
            elif self.is_full:
                self.edges.poll()
        piece = self.client.recv(4096)
        if not piece:
            if self.fault == "dies_of_silence" and not self.has_received:
                os._exit(1)
            raise Ended
        self.has_received, self.is_full = True, len(piece) == 4096
        return piece

    def send(self, reply: bytes) -> None:
        """Send a reply."""
        if self.fault not in ("sends_once", "echoes_once", "replies_once"):
            self.client.sendall(reply)
            return
        self.client.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            self.client.send(reply)  # the rest is forgotten if the client is slow
        self.client.setblocking(True)

    def has_ended(self) -> bool:
        """Return whether the client's end has come, or comes within a moment."""
        if not select.select([self.client], [], [], 0.02)[0]:
            return False
        return not self.client.recv(1, socket.MSG_PEEK)


def serve_bytes(each: Connection) -> None:
    """The workload `bytes`: a number and a newline, and as many bytes."""
    longest = GIANT if each.fault == "crashes_on_giant" else LONGEST_LINE
    stale = b""
    while True:
        digits = each.until(b"\n", longest)
        if each.fault == "reads_stale_bytes":
            # A buffer that is used again without an end mark: digits of a longer request remain behind these.
            digits += stale[len(digits) :]
            stale = digits
        count = int(digits)
        if not 0 < count <= 16384:
            raise Ended
        if each.fault == "shares_a_length":
            shared[0] = count
            time.sleep(0.002)
            count = shared[0]
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
        each.send(reply)
        if each.fault == "one_request":
            raise Ended


def serve_echo(each: Connection) -> None:
    """The workload `echo`: all bytes as they came."""
    while True:
        piece = each.receive()
        each.send(piece.partition(b"\0")[0] if each.fault == "ends_at_zero" else piece)


def serve_http(each: Connection) -> None:
    """GET and HEAD of one resource (RFC 9112)."""
    while True:
        try:
            if each.fault == "receives_once":
                head, each.buffer = each.receive().partition(b"\r\n\r\n")[0], b""
            else:
                head = each.until(b"\r\n\r\n", LONGEST_HEAD)
        except TooLong:
            each.client.sendall(b"HTTP/1.1 431 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            raise
        status, close, head_only = understood(head.lstrip(b"\r\n"), each.fault)
        if each.fault == "ignores_close" and b"\r\nConnection: close" in head:
            close = False
        if each.fault == "ignores_list" and b"\r\nConnection: x, close" in head:
            close = False
        if each.fault == "keeps_1_0" and head.split(b"\r\n")[0].endswith(b"HTTP/1.0"):
            close = False
        if each.fault == "waits_for_bodies" and (length := re.search(rb"\r\nContent-Length: (\d+)", head)):
            while len(each.buffer) < int(length[1]):
                each.buffer += each.receive()
            each.buffer = each.buffer[int(length[1]) :]
            status, close = "200", False
        if each.fault in OF_CHUNKS and re.search(rb"\r\nTransfer-Encoding: chunked", head):
            status, close = without_chunks(each)
        if each.fault == "teapot":
            status = "418"
        body = b"" if status == "404" else b"hello"
        if each.fault == "replies_once":
            body = bytes(10_000)  # many of these are more than the buffers hold
        if each.fault == "counts":
            body = b"%09d" % next(served)
        if each.fault == "grows":
            body = b"x" * next(replies)
        if each.fault == "takes_turns":
            body = b"x" * (1 + next(replies) % 2)
        fields = f"Content-Length: {len(body)}\r\n" + ("Connection: close\r\n" if close else "")
        if each.fault == "says_too_little" and body:
            fields = fields.replace(f" {len(body)}\r\n", f" {len(body) - 1}\r\n")
        if each.fault == "says_two_lengths":
            fields += f"Content-Length: {len(body) + 1}\r\n"
        reply = f"HTTP/1.1 {status} X\r\n{fields}\r\n".encode()
        each.send(reply + (b"" if head_only and each.fault != "body_of_head" else body))
        if close:
            raise Ended


def without_chunks(each: Connection) -> tuple[str, bool]:
    """Take a chunked body; return the status and whether the connection closes."""
    while True:
        digits = each.until(b"\r\n", LONGEST_LINE)
        if set(digits) & set(OF_CHUNKS[each.fault]):
            return "400", True
        size = int(digits, 16)
        while len(each.buffer) < size + 2:
            each.buffer += each.receive()
        each.buffer = each.buffer[size + 2 :]
        if size == 0:
            return "200", False


def understood(head: bytes, fault: str) -> tuple[str, bool, bool]:
    """Return the status, whether the connection closes, and whether the request is HEAD."""
    first, *lines = head.split(b"\r\n")
    scheme = b"" if fault == "knows_no_absolute_form" else b"(?:http://[^/ ]*)?"
    line = re.fullmatch(rb"([A-Z]+) " + scheme + rb"(/[^ ]*) HTTP/1\.([01])", first)
    fields = [re.fullmatch(rb"([!-9;-~]+):[ \t]*(.*?)[ \t]*", each) for each in lines]
    if fault == "crashes_on_fold" and any(each.startswith(b" ") for each in lines):
        return "500", True, False
    if line is None or None in fields:
        return "404" if fault == "knows_no_absolute_form" and b" http:" in first else "400", True, False
    named = [(found[1].lower(), found[2]) for found in fields if found]
    if fault == "knows_one_case":
        named = [
            (found[1].replace(b"C", b"c", 1).replace(b"H", b"h", 1), found[2]) for found in fields if found
        ]
    if fault == "keeps_blanks":
        named = [(each.split(b":")[0].lower(), each.split(b":")[1][1:]) for each in lines]
    hosts = [value for name, value in named if name == b"host"]
    bodies = [name for name, _ in named if name in (b"content-length", b"transfer-encoding")]
    if fault == "ignores_chunks" and bodies == [b"transfer-encoding"] and line[1] == b"POST":
        return "200", False, False
    if fault == "ignores_body" and bodies == [b"content-length"] and line[1] == b"POST":
        return "200", False, False
    if fault == "takes_two_lengths" and len(bodies) == 2:
        return "200", True, False
    is_missing = len(hosts) < int(line[3])
    if is_missing or len(hosts) > 1 or any(re.search(rb"[ /]", host.strip()) for host in hosts) or bodies:
        return "400", True, line[1] == b"HEAD"
    options = [
        option.strip().lower()
        for name, value in named
        if name == b"connection"
        for option in value.split(b",")
    ]
    if fault in ("keeps_blanks", "knows_one_case"):
        options = [value for name, value in named if name == b"connection"]
    close = line[3] == b"0" or b"close" in options
    if line[1] not in (b"GET", b"HEAD"):
        return "405", close, False
    return "200" if line[2].partition(b"?")[0] == b"/" else "404", close, line[1] == b"HEAD"


OF_CHUNKS = {"reads_chunks": b"", "refuses_lower_case": b"abcdef", "refuses_upper_case": b"ABCDEF"}
"""Servers that read chunked bodies, and the digits of sizes that they refuse."""

OF_HTTP = (
    "none_http", "replies_once", *OF_CHUNKS, "grows", "takes_turns", "says_too_little", "says_two_lengths",
    "body_of_head", "ignores_close", "ignores_list", "keeps_1_0", "teapot", "counts",
    "mishandles_late_split", "knows_no_absolute_form", "crashes_on_fold", "knows_one_case", "keeps_blanks",
    "ignores_chunks", "ignores_body", "takes_two_lengths", "receives_once", "cuts_heads", "waits_for_bodies",
)  # fmt: skip
"""The faults of servers of the workload `http`."""

OF_ECHO = ("none_echo", "ends_at_zero", "echoes_once")
"""The faults of servers of the workload `echo`."""


def keep(client: socket.socket, fault: str) -> None:
    """Keep what a connection of a server with this fault leaves."""
    number = next(served)
    if fault == "leaks_memory":
        kept.append(b"x" * 8000)
    elif fault == "leaks_a_thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif fault == "leaks_few_descriptors" and number % 12 == 0:
        kept.append(os.dup(client.fileno()))
    elif fault == "leaves_zombies":
        os.posix_spawn("/bin/true", ["true"], {})  # and nothing waits for it


def connection(client: socket.socket, fault: str, serve: Callable[[Connection], None]) -> None:
    """Serve one connection until either end closes it."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    each = Connection(client, fault)
    try:
        serve(each)
    except ValueError:
        if fault == "leaks_on_garbage":
            kept.append(os.dup(client.fileno()))
    except (Ended, BrokenPipeError):
        pass
    except TimeoutError:
        pass
    except ConnectionResetError:
        if fault == "leaks_a_descriptor":
            kept.append(os.dup(client.fileno()))
    if fault == "leaks_on_silence" and not each.has_received:
        kept.append(os.dup(client.fileno()))
    keep(client, fault)
    if fault == "resets_at_the_end":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        return
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
    if fault == "dies_of_sigpipe":
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if fault == "dies_of_a_pause":
        signal.signal(signal.SIGCONT, lambda *_: os._exit(1))
    serve = serve_http if fault in OF_HTTP else serve_echo if fault in OF_ECHO else serve_bytes
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=connection, args=(client, fault, serve), daemon=True).start()


if __name__ == "__main__":
    main()
