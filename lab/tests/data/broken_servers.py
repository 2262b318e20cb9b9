"""Servers that each break one thing, for tests of the cases that any server must pass.

`python broken_servers.py FAULT PORT`: a server of workload `bytes`, or of another one if the fault is one of
its protocol. Each connection has a thread. Without a fault (`none`, `none_echo`, `none_http` and so on) the
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
from pathlib import Path

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
        if self.fault == "dies_of_sigpipe":
            # The first send after a reset is told of it, and the second one is a signal.
            for piece in (reply[:1], reply[1:2], reply[2:]):
                with contextlib.suppress(ConnectionResetError):
                    self.client.sendall(piece)
                time.sleep(0.02)
            return
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
        if each.fault == "sums_digits":
            # Blanks are taken for digits, as `n = n * 10 + (c - '0')` does.
            count = 0
            for digit in digits:
                count = count * 10 + digit - ord("0")
        else:
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
        if each.fault == "dies_of_quit" and piece == b"quit\n":
            os.kill(os.getpid(), signal.SIGSEGV)
        if each.fault == "strips_lines":
            piece = piece.rstrip(b"\n")
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
        if each.fault == "gives_up_half_closed" and each.has_ended():
            raise Ended
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
        framing = sorted(re.findall(rb"\n((?:Content|Transfer)-[A-Z])", head))
        if each.fault in OF_CHUNKS and framing == [b"Transfer-E"] and is_chunked(head, each.fault):
            status, close = without_chunks(each)
        if each.fault in OF_LENGTHS and framing == [b"Content-L"]:
            expect = re.search(rb"\r\nExpect: (.*)\r\n", head)
            if expect and (each.fault != "waits_unless_lower_case" or expect[1] == b"100-continue"):
                each.client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
            status, close = sized_body(each, head)
        if each.fault == "wants_host_of_1_0" and b" HTTP/1.0" in head and b"\r\nHost" not in head:
            status, close = "400", True
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
        if CHUNKED_REPLIES.get(each.fault, b"\0") in head and body:
            fields += "Transfer-Encoding: chunked\r\n"
            if each.fault == "chunks_for_1_0":
                fields = fields.partition("\r\n")[2]
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        if each.fault == "length_of_204" and head.startswith(b"OPTIONS"):
            status, body = "204", b""
        if each.fault == "body_of_304" and b"\r\nIf-None-Match: " in head:
            status = "304"
        if each.fault == "body_of_304":
            fields += 'ETag: "1"\r\n'
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
        digits, _, extension = each.until(b"\r\n", LONGEST_LINE).partition(b";")
        if set(digits) & set(OF_CHUNKS[each.fault]) or (extension and each.fault == "refuses_extensions"):
            return "400", True
        if each.fault == "takes_no_digits_for_0" and not re.fullmatch(rb"[0-9a-fA-F]+", digits):
            digits = b"0"
        elif not re.fullmatch(
            rb"0x[0-9]+" if each.fault == "takes_0x" else rb"[0-9a-fA-F]+", digits
        ) and not (each.fault == "takes_0x" and re.fullmatch(rb"[0-9a-fA-F]+", digits)):
            return "400", True
        size = int(digits, 16)
        if each.fault == "wraps_chunks":
            size %= 2**32
        if size > 2**31:
            return "413", True
        if size == 0:
            # Trailers end with an empty line.
            while each.fault != "knows_no_trailers" and each.until(b"\r\n", LONGEST_LINE):
                pass
            if each.fault == "knows_no_trailers":
                while len(each.buffer) < 2:
                    each.buffer += each.receive()
                each.buffer = each.buffer[2:]
            return "200", False
        while len(each.buffer) < size + 2:
            each.buffer += each.receive()
        if each.buffer[size : size + 2] != b"\r\n" and each.fault != "skips_ends_of_chunks":
            return "400", True
        each.buffer = each.buffer[size + 2 :]


def is_chunked(head: bytes, fault: str) -> bool:
    """Return whether the last transfer coding is chunked."""
    found = re.search(rb"\r\nTransfer-Encoding: (.*)", head)
    coding = found[1].strip() if found else b""
    if fault == "reads_any_coding":
        return bool(coding)
    return (coding if fault == "knows_one_coding" else coding.lower()) == b"chunked"


SHORT_INT = {"wraps_at_32_bits": 2**32, "wraps_at_64_bits": 2**64}
"""Servers whose lengths are too short an integer, and how many values that has."""


def sized_body(each: Connection, head: bytes) -> tuple[str, bool]:
    """Take a body with a length, which has a sign or is cut to an integer if that is the fault."""
    found = re.search(rb"\r\nContent-Length: ([^\r]*)", head)
    digits = found[1] if found else b"0"
    if not (digits.isdigit() or (each.fault == "reads_signs" and re.fullmatch(rb"[+-]\d+", digits))):
        return "400", True
    length = max(0, int(digits)) % SHORT_INT.get(each.fault, 2**80)
    while len(each.buffer) < length:
        each.buffer += each.receive()
    each.buffer = each.buffer[length:]
    return "200", False


def understood(head: bytes, fault: str) -> tuple[str, bool, bool]:
    """Return the status, whether the connection closes, and whether the request is HEAD."""
    first, *lines = head.split(b"\r\n")
    if fault == "reads_indented_fields":
        lines = [line.lstrip() for line in lines]
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


CHUNKED_REPLIES = {"both_lengths": b"GET", "chunks_for_1_0": b" HTTP/1.0"}
"""Servers that chunk some replies, and what is in the heads of their requests."""

OF_LENGTHS = ("reads_lengths", "reads_signs", "waits_unless_lower_case", *SHORT_INT)
"""Servers that read bodies with a length."""

OF_CHUNKS = {
    "reads_chunks": b"", "refuses_lower_case": b"abcdef", "refuses_upper_case": b"ABCDEF",
    "refuses_extensions": b"", "knows_no_trailers": b"", "knows_one_coding": b"", "reads_any_coding": b"",
    "takes_no_digits_for_0": b"", "takes_0x": b"", "wraps_chunks": b"", "skips_ends_of_chunks": b"",
}  # fmt: skip
"""Servers that read chunked bodies, and the digits of sizes that they refuse."""

OF_HTTP = (
    "none_http", "replies_once", *OF_CHUNKS, *OF_LENGTHS, *CHUNKED_REPLIES, "length_of_204", "body_of_304",
    "wants_host_of_1_0", "gives_up_half_closed", "reads_indented_fields",
    "grows", "takes_turns", "says_too_little", "says_two_lengths",
    "body_of_head", "ignores_close", "ignores_list", "keeps_1_0", "teapot", "counts",
    "mishandles_late_split", "knows_no_absolute_form", "crashes_on_fold", "knows_one_case", "keeps_blanks",
    "ignores_chunks", "ignores_body", "takes_two_lengths", "receives_once", "cuts_heads", "waits_for_bodies",
)  # fmt: skip
"""The faults of servers of the workload `http`."""

OF_ECHO = ("none_echo", "ends_at_zero", "echoes_once", "strips_lines", "dies_of_quit")
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


def serve_bucket(each: Connection) -> None:
    """The workload `bucket`: a delay and a bucket, and the bucket's value."""
    delay, bucket = map(int, each.until(b"\n", LONGEST_LINE).split(b","))
    if delay < 0 or not 0 <= bucket < len(buckets):
        raise Ended
    if each.fault == "loses_updates":
        value = buckets[bucket] + delay
        time.sleep(delay)
        buckets[bucket] = value
    else:
        time.sleep(delay)
        with lock:
            value = buckets[bucket] = buckets[bucket] + delay
            if each.fault == "counts_requests":
                value = buckets[bucket] = value + 1
            if each.fault == "shares_a_bucket":
                buckets[:] = [value] * len(buckets)
    each.send(b"%d\n" % (delay if each.fault == "replies_the_delay" else value))
    raise Ended


buckets, lock = [0] * 32, threading.Lock()


def serve_blast(each: Connection) -> None:
    """The workload `blast`: a number of iterations and 1500 bytes for each, and the number of reads."""
    count = int(each.until(b"\n", LONGEST_LINE))
    if not 0 < count <= 1_000_000:
        raise Ended
    due, reads = 1500 * count, 1
    if each.fault == "replies_at_once":
        each.send(b"%d\n" % count)
    due -= len(each.buffer)
    while due > 0:
        due -= len(each.client.recv(min(due, 1500)) or exit_thread())
        reads += 1
    if each.fault != "replies_at_once":
        wrong = {"counts_connections": 1, "counts_nonsense": 2**63}
        each.send(b"%d\n" % wrong.get(each.fault, reads))
    raise Ended


def exit_thread() -> bytes:
    """End the connection: the client has ended too early."""
    raise Ended


def serve_top(each: Connection) -> None:
    """The workload `top_processes`: the two processes that have used the most CPU time."""
    request = b"Requesting top 2 processes"
    while len(each.buffer) < len(request):
        each.buffer += each.receive()
        if not request.startswith(each.buffer[: len(request)]):
            raise Ended
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
            found.append((int(fields[11]) + int(fields[12]), int(process.name)))
    top = sorted(found, reverse=each.fault != "names_the_idle")[:2]
    if each.fault == "wrong_order":
        top.reverse()
    if each.fault == "names_nobody":
        top[1] = (top[1][0], 99_999_999)
    if each.fault == "says_seconds":
        top = [(ticks // 100, process) for ticks, process in top]
    lines = [f"Process {at}: PID={each[1]}, Name=x, CPU Time={each[0]}\n" for at, each in enumerate(top, 1)]
    each.send("".join(lines).encode())
    raise Ended


OF_BUCKET = ("none_bucket", "loses_updates", "counts_requests", "shares_a_bucket", "replies_the_delay")
"""The faults of servers of the workload `bucket`."""

OF_BLAST = ("none_blast", "replies_at_once", "counts_connections", "counts_nonsense")
"""The faults of servers of the workload `blast`."""

OF_TOP = ("none_top", "names_the_idle", "wrong_order", "names_nobody", "says_seconds")
"""The faults of servers of the workload `top_processes`."""

SERVERS = {
    **dict.fromkeys(OF_HTTP, serve_http), **dict.fromkeys(OF_ECHO, serve_echo),
    **dict.fromkeys(OF_BUCKET, serve_bucket), **dict.fromkeys(OF_BLAST, serve_blast),
    **dict.fromkeys(OF_TOP, serve_top),
}  # fmt: skip
"""Faults whose server is of another workload than `bytes`."""


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
    serve = SERVERS.get(fault, serve_bytes)
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=connection, args=(client, fault, serve), daemon=True).start()


if __name__ == "__main__":
    main()
