"""A stand-in for the engine, which prints its lines without measuring anything. Standard library only,
and of it what is there at once: tests start this some thousand times, and to import `json` and `socket` takes
longer than all that it does.

Every connection costs CPU_NS of its design, by decree. What is to go wrong is said in the environment
variable FAKE_ENGINE, words with commas between; each word is explained where it is looked up.
"""

import os
import sys
import time
from _json import encode_basestring_ascii
from _socket import AF_INET, SOCK_STREAM, socket
from _thread import start_new_thread
from itertools import pairwise

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
CATALOGUE = os.path.join(TESTS, "data", "catalogue.json")  # noqa: PTH118
CPU_NS = {"iterative": 20_000, "fork_per_client": 120_000}
DEFAULT_CPU_NS = 40_000
FAULTS = set(filter(None, os.environ.get("FAKE_ENGINE", "").split(",")))
NO_SUCH_PORT = ("port 80 may not be bound by this user", "listen.not_permitted", "use one above 1023")
BEFORE_A_CRASH = ("first a warning", "then a reason")


def say(**line):
    print(written(line), flush=True)


def written(value):
    """The value as JSON."""
    if isinstance(value, dict):
        return "{%s}" % ",".join(f"{encode_basestring_ascii(key)}:{written(of)}" for key, of in value.items())  # noqa: UP031
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    if isinstance(value, str):
        return encode_basestring_ascii(value)
    return "null" if value is None else str(value).lower()


def flags(arguments):
    """`--a-b 1` as {"a_b": "1"}."""
    found = {}
    for name, value in pairwise(arguments):
        if name.startswith("--"):
            found[name.removeprefix("--").replace("-", "_")] = value
    return found


def nanoseconds(text):
    """`5ms` as 5000000; a number without a unit as it is."""
    sizes = {"ns": 1, "us": 10**3, "ms": 10**6, "min": 60 * 10**9, "s": 10**9, "h": 3600 * 10**9}
    unit = next((unit for unit in sizes if text.endswith(unit)), "")
    return int(text.removesuffix(unit)) * sizes.get(unit, 1)


class Server:
    """Each client connects and sends the number of connections and requests that it represents."""

    def __init__(self, design, counters):
        self.design, self.counters = design, counters
        self.connections = self.requests = 0
        self.snapshots = 0
        self.socket = socket(AF_INET, SOCK_STREAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen()
        start_new_thread(self.accept, ())

    def accept(self):
        while True:
            descriptor, _ = self.socket._accept()
            client = socket(fileno=descriptor)
            connections, requests = map(int, client.recv(64).split())
            self.connections += connections
            self.requests += requests
            client.sendall(b"done")
            client.close()

    def tally(self, ended=False):
        miscounted = 1 if "tally_short" in FAULTS and self.requests else 0  # one request is not counted
        # Completions are read when a connection ends, where few sends are in flight.
        completed = self.requests if "zero_copy" in FAULTS or (ended and "read_at_the_end" in FAULTS) else 0
        return {
            "connections": self.connections, "closed": self.connections - ("left_open" in FAULTS),
            "requests": self.requests - miscounted, "bytes_received": 5 * self.requests,
            "bytes_not_copied": 0, "completions": completed, "completions_copied": completed // 4,
            "bytes_sent": 4000 * self.requests, "receive_calls": 3 * self.requests,
            "send_calls": 2 * self.requests, "empty_wakeups": 0,
            "workers_lost": int("worker_lost" in FAULTS), "workers_replaced": 0,
            "errors": {"reset": 3} if "server_error" in FAULTS else {},
            "a_key_of_a_newer_engine": 1,
        }  # fmt: skip

    def cpu_ns(self):
        # A server that never becomes idle: each snapshot finds more CPU time used.
        restless = 1_000_000 * self.snapshots if "restless" in FAULTS else 0
        return self.requests * CPU_NS.get(self.design, DEFAULT_CPU_NS) + restless

    def counted(self):
        return {name: None if name in FAULTS else 3 * self.requests for name in self.counters}

    def workers(self):
        if not self.design.startswith("pre"):
            return None
        return [self.connections // 3, self.connections // 3, self.connections - 2 * (self.connections // 3)]

    def snapshot(self):
        self.snapshots += 1
        say(
            line="snapshot", monotonic_ns=time.monotonic_ns(),
            cpu_ns=None if FAULTS & {"whole_life", "no_cpu"} else self.cpu_ns(), tally=self.tally(),
            workers=self.workers(), listen_drops=7 if "drops" in FAULTS and self.connections > 150 else 0,
            listen_queue=0, counters=self.counted(), read_ns=time.monotonic_ns() + 20_000_000,
        )  # fmt: skip

    def summary(self, died=None):
        say(
            line="summary", cpu_ns=self.cpu_ns(), user_ns=self.cpu_ns(), system_ns=0, server_process=None,
            dead_children=None, voluntary_switches=2 * self.connections, involuntary_switches=0,
            minor_faults=0, major_faults=0, max_resident_kib=1,
            tally=self.tally(ended=True),
            workers=self.workers(), listen_drops=0, died=died, counters=self.counted(),
            account={"busy": 2 * self.requests + ("wrong_account" in FAULTS), "own": 7},
            account_fault="a bucket is short" if "account_fault" in FAULTS else None,
        )  # fmt: skip


def serve(arguments):
    design, settings = arguments[0], flags(arguments[1:])
    if "no_such_port" in FAULTS:  # the user's mistake
        message, code, hint = NO_SUCH_PORT
        print(f"thunderherd-engine: {message} [{code}]\nhint: {hint}", file=sys.stderr)
        sys.exit(2)
    if "mute" in FAULTS:  # never prints its ready line
        time.sleep(60)
    if "crash" in FAULTS:
        print(*BEFORE_A_CRASH, sep="\n", file=sys.stderr)
        import signal

        os.kill(os.getpid(), signal.SIGSEGV)
    server = Server(design, counters_of(settings))
    port = server.socket.getsockname()[1]
    say(
        line="ready", schema=99 if "newer" in FAULTS else 4, address=f"127.0.0.1:{port}", port=port,
        supervisor_pid=os.getpid(), server_pid=os.getpid(), design=design,
        primitive=settings.get("primitive", "send_each"), receive=settings.get("receive", "recv"),
        workload=settings["workload"], settings=settings,
        cpu_source="whole_life" if "whole_life" in FAULTS else "perf_event",
        cpu_source_reason="perf_event: not permitted" if "whole_life" in FAULTS else None,
        socket={"backlog": 1024, "send_buffer": 16384, "receive_buffer": 131072}, cpus=None, spins=False,
        descriptor_limit=1024,
        counters={name: "no such thing here" if name in FAULTS else None for name in server.counters},
    )  # fmt: skip
    for line in sys.stdin:
        if "dies" in FAULTS and server.connections:  # after the load has begun
            server.summary(died="killed by SIGKILL")
            sys.exit(1)
        if "garbage" in FAULTS:
            print("{oops", flush=True)
        assert line == "snapshot\n", line
        server.snapshot()
    if "stuck" in FAULTS:  # does not end at the end of its input, nor by SIGTERM
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    server.summary()


def load(arguments):
    settings = flags(arguments[1:])
    timed = nanoseconds(settings.get("duration", "0")) > 0
    assert not (timed and "loops" in settings), "the engine refuses to be told both"
    planned = 0 if timed else int(settings["children"]) * int(settings["loops"])
    kept = settings.get("connections") == "kept"
    done = WARM_UP + WINDOW + IN_FLIGHT if timed else planned - 2 if "load_error" in FAULTS else planned
    connections = int(settings["children"]) if kept else done
    began = time.monotonic_ns()
    if "load_hangs" in FAULTS:
        time.sleep(60)
    window = None
    if timed and "no_marks" not in FAULTS:
        tell(settings, connections if kept else WARM_UP, WARM_UP)
        is_late = "late" in FAULTS or (
            "late_in_short_windows" in FAULTS and nanoseconds(settings["duration"]) < 1_000_000_000
        )
        started = mark("window_started", is_late)
        tell(settings, 0 if kept else WINDOW, WINDOW)
        ended = mark("window_ended", is_late)
        tell(settings, 0 if kept else IN_FLIGHT, IN_FLIGHT)
        window = {
            "started_monotonic_ns": started, "ended_monotonic_ns": ended, "requests": WINDOW,
            "connections": 0 if kept else WINDOW,
        }  # fmt: skip
    else:
        tell(settings, connections, done)
    latency = {
        "from": "sent",
        "requests": done, "mean_ns": 2e6, "p50_ns": 1_500_000, "p90_ns": 3_000_000, "p99_ns": None,
        "p999_ns": None, "maximum_ns": 9_000_000, "histogram": None,
    }  # fmt: skip
    say(
        line="load", schema=4, workload=arguments[0], load=settings.get("load", "closed"),
        primitive=settings.get("primitive", "send_each"), receive=settings.get("receive", "recv"),
        settings=settings,
        expected_requests=None if timed else planned, elapsed_ns=1, tally={
            "connections": connections, "closed": connections, "requests": done,
            "bytes_received": 4000 * done, "bytes_sent": 5 * done, "receive_calls": 4 * done,
            "bytes_not_copied": 1000 * done if "zero_copy" in FAULTS else 0,
            "completions": 0, "completions_copied": 0,
            "send_calls": done, "empty_wakeups": 0, "workers_lost": 0, "workers_replaced": 0,
            "errors": {"refused": 2} if done < planned else {},
        }, window=window, latency=latency, account={"busy": 2 * done},
        counters={name: None if name in FAULTS else 5 * done for name in counters_of(settings)},
        unavailable={name: "not for clients" for name in counters_of(settings) if name in FAULTS},
        started_monotonic_ns=began, ended_monotonic_ns=time.monotonic_ns(), user_ns=1_000_000,
        counted_from_ns=began - 1_000_000, counted_to_ns=time.monotonic_ns() + 50_000_000,
        system_ns=2_000_000, voluntary_switches=0, involuntary_switches=0, minor_faults=0, major_faults=0,
        first_error="connect: refused" if done < planned else None,
    )  # fmt: skip
    sys.exit(0 if done == planned else 1)


WARM_UP, WINDOW, IN_FLIGHT = 20, 300, 5
"""Invented counts of requests of a load that ends by time: before, in and after its window."""


def counters_of(settings):
    return list(filter(None, settings.get("count", "").split(",")))


def tell(settings, connections, requests):
    """To the server; it has counted them when this returns."""
    host, _, port = settings["connect"].rpartition(":")
    server = socket(AF_INET, SOCK_STREAM)
    server.connect((host, int(port)))
    server.sendall(f"{connections} {requests}".encode())
    server.recv(64)
    server.close()


def mark(name, is_late):
    now = time.monotonic_ns()
    if is_late:  # the lab reads the mark when half of the window is over
        time.sleep(0.1)
    say(line="mark", mark=name, monotonic_ns=now)
    time.sleep(0.15)  # time for a snapshot
    return now


def count(arguments):
    """Runs the command after `--` as a child, then prints invented figures of its use."""
    import subprocess

    own, command = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
    began = time.monotonic_ns()
    status = subprocess.run([sys.executable, "-I", "-S", __file__, *command]).returncode
    counters = {name: None if name in FAULTS else 1_000 for name in counters_of(flags(own))}
    say(
        line="life", counters=counters, unavailable={name: "not here" for name in counters if name in FAULTS},
        elapsed_ns=2_000_000_000, started_monotonic_ns=began, user_ns=30_000_000, system_ns=10_000_000,
        voluntary_switches=50, involuntary_switches=6, minor_faults=700, major_faults=0, status=status,
    )  # fmt: skip
    sys.exit(status)


def limits(arguments):
    """Two rounds of two invented limits, and an unavailable one."""
    settings = flags(arguments)
    if "no_limits" in FAULTS:
        print("thunderherd-engine: none of the limits could be measured here", file=sys.stderr)
        sys.exit(1)
    if "slow_limits" in FAULTS:
        time.sleep(60)
    say(
        line="limits", schema=4, cpus=[0, 1],
        settings={name: nanoseconds(settings.get(name, "1")) for name in ("duration", "rounds", "seed")},
    )  # fmt: skip
    lost = {"limit": "pipe_round_trip", "place": "two_cpus", "bytes": None}
    say(line="limit_unavailable", **lost, reason="it takes two CPUs")
    for number in (1, 2):
        for name in ("fork_exit_wait", "tcp_connection"):
            point = {"limit": name, "place": "one_cpu", "bytes": None}
            say(
                line="limit_round",
                **point,
                round=number,
                times=10,
                elapsed_ns=100_000 * number,
                page_faults=0,
            )


def main():
    command, rest = sys.argv[1], sys.argv[2:]
    if command == "list":
        with open(CATALOGUE) as file:  # noqa: PTH123
            print(file.read())
    elif [command, *rest] == ["profile", "--check"]:
        say(
            line="profile_check", schema=4, reason="it is a stand-in", event=None, why_not_cycles=None,
            scope=None, why_not_cpus=None, frequency_hertz=997, kernel_symbols="none", frame_pointers=True,
        )  # fmt: skip
    elif command == "--version":
        print("thunderherd-engine 0.0.0 (fake)")
    elif "--dry-run" in rest:
        say(line="accepted", schema=4, replaced=[], largest=None, source_bytes=None)
    else:
        {"serve": serve, "load": load, "count": count, "limits": limits}[command](rest)


if __name__ == "__main__":
    main()
