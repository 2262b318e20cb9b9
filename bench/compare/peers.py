"""Peers: the foreign tools iperf3, netperf, neper, sockperf and netbench, which measure sockets.

They are searched in the folders of $THUNDERHERD_PEERS, then on PATH. Each run starts a new server. The tool's
figure is used unchanged; if both ends report one, the receiving end's.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache

from common import search_path, until_done
from compare.places import Place, Side, free_port
from thunderherd.engine.client import EngineError
from thunderherd.trial.listener_holders import is_listening

PATIENCE_SECONDS = 20
"""Time limit beyond the length of a run, for a busy machine."""
LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1
"""PR_SET_PDEATHSIG of linux/prctl.h, which survives exec, also nsenter's."""
IPERF3 = "apt-get install iperf3"
NETPERF = "apt-get install netperf (Debian: component non-free)"
NEPER = "build it from github.com/google/neper and put its folder into THUNDERHERD_PEERS"
SOCKPERF = "apt-get install sockperf"
NETBENCH = "build it from github.com/DylanZA/netbench and put its folder into THUNDERHERD_PEERS"
RECEIVE_BYTES = 128 << 10
"""Size of a receive of neper's server. netperf's server uses the same size, iperf3's a message."""
FLOWS = 64
"""Connections at a time, in tests with many."""
ON_EACH_CPU = " on each CPU"
"""Suffix of the name of a peer that runs on each CPU."""
SOCKPERF_LEAST = 14
"""Bytes of the smallest message that sockperf sends."""


@dataclass(frozen=True)
class Run:
    """The parameters of one run of a peer."""

    place: Place
    message_bytes: int
    seconds: int
    congestion: str
    flows: int = FLOWS
    """Connections at a time, in tests with many."""

    def on_each_cpu(self) -> list[Run]:
        """Return concurrent runs that share the connections, each with both sides on one CPU."""
        places = self.place.on_each_cpu()
        return [replace(self, place=place, flows=self.flows // len(places)) for place in places]


@dataclass(frozen=True)
class Peer:
    """A tool with some options."""

    name: str
    program: str
    """The program that must be installed. Its server may be another program of the same package."""
    install: str
    run: Callable[[Run], float]
    """Returns bits or round trips per second. Raises `EngineError` if it has no figure."""
    needs: str = ""
    """An option that only some versions have, as the help shows it."""
    has_congestion_option: bool = True
    """It has an option for the congestion control. Otherwise it uses that of the place."""
    uncopied: bool = False
    """It sends by sendfile or MSG_ZEROCOPY, without copying."""
    discards: bool = False
    """Its receiver does not copy."""

    def missing(self) -> str | None:
        """Return why it cannot run on this machine; None if it can."""
        program = found(self.program)
        if program is None:
            return f"{self.program} is not installed: {self.install}"
        if self.needs and self.needs not in help_of(program):
            return f"this {self.program} has no {self.needs}"
        return None


@lru_cache
def folder() -> tempfile.TemporaryDirectory[str]:
    """Return the temporary folder in which the tools run. neper writes a log there, even with --nolog."""
    return tempfile.TemporaryDirectory()


def found(program: str) -> str | None:
    """Return the path of a program."""
    return shutil.which(program, path=search_path())


@lru_cache
def help_of(program: str) -> str:
    """Return the output of --help."""
    done = subprocess.run(
        [program, "--help"], capture_output=True, text=True, timeout=10, check=False, cwd=folder().name
    )
    return done.stdout + done.stderr


def iperf3(run: Run, *more: str) -> float:
    """Measure the bits per second that iperf3's server received."""
    address, port = run.place.address, free_port()
    with server(["iperf3", "-s", "-1", "-B", address, "-p", str(port)], port, run):
        command = ["iperf3", "-c", address, "-p", str(port), "-t", str(run.seconds), "-J"]
        return iperf3_bits(client([*command, "-l", str(run.message_bytes), "-C", run.congestion, *more], run))


def iperf3_bits(output: str) -> float:
    """Read the bits per second that the server received."""
    try:
        return float(json.loads(output)["end"]["sum_received"]["bits_per_second"])
    except (ValueError, KeyError) as error:
        raise EngineError(f"iperf3 reports no received bits ({error!r}):\n{output}") from None


def netperf(run: Run, test: str, own: Sequence[str], more: Sequence[str] = ()) -> float:
    """Run a test of netperf; return 10^6 bits or transactions per second.

    `own` are options of the test, `more` options of netperf.
    """
    address, port = run.place.address, free_port()
    with server(["netserver", "-D", "-4", "-L", address, "-p", str(port)], port, run):
        command = ["netperf", "-4", "-H", address, "-p", str(port), "-l", str(run.seconds), "-P", "0"]
        return netperf_figure(client([*command, "-t", test, *more, "--", *own], run))


def netperf_figure(output: str) -> float:
    """Read the last figure of the first line: 10^6 bits or transactions per second."""
    line = next((line for line in output.splitlines() if line.strip()), "")
    try:
        return float(line.split()[-1])
    except (IndexError, ValueError):
        raise EngineError(f"netperf reports no figure:\n{output}") from None


def netperf_stream(run: Run) -> float:
    """Measure the bits per second that netperf sent."""
    return netperf(run, "TCP_STREAM", ["-m", str(run.message_bytes), "-K", run.congestion]) * 1e6


def netperf_sendfile(run: Run) -> float:
    """Measure the bits per second that netperf sent by sendfile."""
    with tempfile.NamedTemporaryFile() as file:
        # netperf needs a file larger than a message and than the socket's buffer.
        file.write(os.urandom(2 * max(RECEIVE_BYTES, run.message_bytes)))
        file.flush()
        return netperf(run, "TCP_SENDFILE", ["-m", str(run.message_bytes)], ["-F", file.name]) * 1e6


def netperf_round_trips(run: Run) -> float:
    """Measure transactions per second, one after another."""
    size = str(run.message_bytes)
    return netperf(run, "TCP_RR", ["-r", f"{size},{size}", "-D", "-K", run.congestion])


def neper(program: str, run: Run, of_server: Sequence[str], of_client: Sequence[str]) -> float:
    """Run neper; return the server's figure of a stream, or the client's figure of round trips."""
    address, control, data = run.place.address, free_port(), free_port()
    both = ["-4", "-C", str(control), "-P", str(data), "-l", str(run.seconds), "--nolog"]
    both += [f"--congestion-control={run.congestion}"]
    with server([program, *both, *of_server], control, run) as ended:
        output = client([program, "-c", "-H", address, *both, *of_client], run)
        return neper_throughput(ended() if program == "tcp_stream" else output)


def neper_throughput(output: str) -> float:
    """Read 10^6 bits, or transactions, a second."""
    throughput = re.search(r"^throughput=([0-9.]+)$", output, re.MULTILINE)
    if not throughput:
        raise EngineError(f"neper reports no throughput:\n{output}")
    return float(throughput[1])


def neper_stream(run: Run, *more: str) -> float:
    """Measure the bits per second that neper's server received."""
    received, sent = str(max(RECEIVE_BYTES, run.message_bytes)), str(run.message_bytes)
    return neper("tcp_stream", run, ["-B", received, *more], ["-B", sent, *more]) * 1e6


def neper_round_trips(run: Run) -> float:
    """Measure transactions per second, one after another."""
    sizes = ["-Q", str(run.message_bytes), "-R", str(run.message_bytes), "--no-delay"]
    return neper("tcp_rr", run, sizes, sizes)


def neper_many(program: str, run: Run, *more: str) -> float:
    """Measure transactions per second on many connections at a time, with one thread on each side."""
    sizes = ["-Q", str(run.message_bytes), "-R", str(run.message_bytes), "--no-delay"]
    both = ["-T", "1", "-F", str(run.flows), *sizes]
    return neper(program, run, both, [*both, *more])


def netbench(run: Run, engine: str) -> float:
    """Measure requests per second on many persistent connections, with one thread on each side."""
    port = free_port()
    both = ["--v6", "0", "--use_port", str(port), "--control_port", str(free_port())]
    size = str(run.message_bytes)
    sent = f"{engine} --threads 1 --per_thread {run.flows} --size {size} --resp {size}"
    # netbench registers its ring from a thread that does not use it. Newer kernels refuse that (EINVAL).
    received = f"{engine} --register_ring 0" if engine == "io_uring" else engine
    with server(["netbench", *both, "--server_only", "1", "--rx", received], port, run):
        command = ["netbench", *both, "--client_only", "1", "--host", run.place.address]
        command += ["--time", str(run.seconds), "--tx", sent]
        output = client(command, run, reports_on_stderr=True)
        return netbench_requests(output) / run.seconds


def netbench_requests(output: str) -> int:
    """Read the number of replies from the count of latencies, since rates have only two digits."""
    errors = re.search(r"(connect|send|recv)Errors=[1-9]", output)
    count = re.search(r" count=([0-9]+)}", output)
    if errors or not count:
        raise EngineError(f"netbench reports errors, or no replies:\n{output}")
    return int(count[1])


def sockperf(run: Run, *more: str) -> float:
    """Measure round trips per second, from their mean time."""
    port = free_port()
    address = ["--tcp", "-i", run.place.address, "-p", str(port), *more]
    size = str(max(run.message_bytes, SOCKPERF_LEAST))
    with server(["sockperf", "server", *address], port, run):
        command = ["sockperf", "ping-pong", *address, "-t", str(run.seconds), "-m", size, "--full-rtt"]
        return 1 / sockperf_seconds(client(command, run))


def sockperf_seconds(output: str) -> float:
    """Read the mean time of a round trip."""
    mean = re.search(r"Summary: Round trip is ([0-9.]+) usec", output)
    if not mean or not float(mean[1]):
        raise EngineError(f"sockperf reports no round trip:\n{output}")
    return float(mean[1]) / 1e6


def with_options(run: Callable[..., float], *more: str) -> Callable[[Run], float]:
    """Return the same tool with further options."""
    return lambda given: run(given, *more)


STREAMS = (
    Peer("iperf3", "iperf3", IPERF3, iperf3),
    Peer("iperf3 -Z", "iperf3", IPERF3, with_options(iperf3, "-Z"), uncopied=True),
    Peer(
        "iperf3 --skip-rx-copy",
        "iperf3",
        IPERF3,
        with_options(iperf3, "--skip-rx-copy"),
        needs="--skip-rx-copy",
        discards=True,
    ),
    Peer("netperf", "netperf", NETPERF, netperf_stream),
    Peer(
        "netperf sendfile", "netperf", NETPERF, netperf_sendfile, has_congestion_option=False, uncopied=True
    ),
    Peer("neper", "tcp_stream", NEPER, neper_stream),
    Peer("neper --zerocopy", "tcp_stream", NEPER, with_options(neper_stream, "--zerocopy"), uncopied=True),
    Peer(
        "neper --skip-rx-copy",
        "tcp_stream",
        NEPER,
        with_options(neper_stream, "--skip-rx-copy"),
        needs="--skip-rx-copy",
        discards=True,
    ),
)

BLOCKING = (
    Peer("netperf TCP_RR", "netperf", NETPERF, netperf_round_trips),
    Peer("neper tcp_rr", "tcp_rr", NEPER, neper_round_trips),
    Peer("sockperf", "sockperf", SOCKPERF, sockperf, has_congestion_option=False),
)
SPINNING = (
    Peer(
        "sockperf --nonblocked",
        "sockperf",
        SOCKPERF,
        with_options(sockperf, "--nonblocked"),
        has_congestion_option=False,
    ),
)


def on_each_cpu(peer: Peer) -> Peer:
    """Return a peer that runs once on each CPU, with both sides there, all at a time; rates are added."""

    def run(given: Run) -> float:
        runs = given.on_each_cpu()
        # Threads could make two folders at once, so make it before they start.
        folder()
        with ThreadPoolExecutor(len(runs)) as threads:
            return sum(threads.map(peer.run, runs))

    return replace(peer, name=peer.name + ON_EACH_CPU, run=run)


MANY_KEPT = (
    Peer("neper tcp_rr", "tcp_rr", NEPER, lambda run: neper_many("tcp_rr", run)),
    Peer(
        "netbench epoll",
        "netbench",
        NETBENCH,
        lambda run: netbench(run, "epoll"),
        has_congestion_option=False,
    ),
    Peer(
        "netbench io_uring",
        "netbench",
        NETBENCH,
        lambda run: netbench(run, "io_uring"),
        has_congestion_option=False,
    ),
)
MANY_RESET = (Peer("neper tcp_crr", "tcp_crr", NEPER, lambda run: neper_many("tcp_crr", run)),)
MANY_FIN = (Peer("neper tcp_crr", "tcp_crr", NEPER, lambda run: neper_many("tcp_crr", run, "--time-wait")),)
"""The peers with a connection for each request. By default neper's client ends them with RST."""

EVERY = (*STREAMS, *BLOCKING, *SPINNING, *MANY_KEPT, *MANY_RESET, *MANY_FIN)


def missing(peers: Sequence[Peer]) -> list[str]:
    """Describe the tools that are missing, and how to install them."""
    reasons = [reason for peer in peers if (reason := peer.missing())]
    return list(dict.fromkeys(reasons))


def other_congestion(name: str, where: Place, congestion: str) -> str:
    """Return a note on a peer that does not use the chosen congestion control; else nothing."""
    alone = name.removesuffix(ON_EACH_CPU)
    lacks_option = any(peer.name == alone and not peer.has_congestion_option for peer in EVERY)
    return f" ({where.congestion})" if lacks_option and where.congestion != congestion else ""


@contextlib.contextmanager
def server(command: Sequence[str], port: int, run: Run) -> Iterator[Callable[[], str]]:
    """Start a peer's server; yield a function that waits for its end and returns its output."""
    side = run.place.server
    process = subprocess.Popen(
        placed(command, side),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
        cwd=folder().name,
        preexec_fn=lambda: begin(side),
    )

    def ended() -> str:
        try:
            return process.communicate(timeout=run.seconds + PATIENCE_SECONDS)[0]
        except subprocess.TimeoutExpired:
            raise EngineError(f"{' '.join(command)} does not end") from None

    try:
        for _ in until_done():
            if process.poll() is not None:
                raise EngineError(f"{' '.join(command)} ended: {ended().strip()}")
            if is_listening(process.pid, port):
                break
        else:
            raise EngineError(f"{' '.join(command)} does not listen")
        yield ended
    finally:
        end_group(process)


def begin(side: Side) -> None:
    """Prepare a peer's process: it dies with its parent and stays on its CPUs."""
    if LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    os.sched_setaffinity(0, side.cpus)


def end_group(process: subprocess.Popen[str]) -> None:
    """End a server and its child processes."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=2)
            return


def client(command: Sequence[str], run: Run, *, reports_on_stderr: bool = False) -> str:
    """Run a peer's client in its place; return its output, for some tools that of standard error."""
    side = run.place.client
    try:
        done = subprocess.run(
            placed(command, side),
            capture_output=True,
            text=True,
            timeout=run.seconds + PATIENCE_SECONDS,
            check=False,
            cwd=folder().name,
            preexec_fn=lambda: begin(side),
        )
    except subprocess.TimeoutExpired:
        raise EngineError(f"{' '.join(command)} does not end") from None
    if done.returncode:
        output = (done.stderr or done.stdout).strip()
        raise EngineError(f"{' '.join(command)} ended with {done.returncode}: {output}")
    return done.stderr if reports_on_stderr else done.stdout


def placed(command: Sequence[str], side: Side) -> list[str]:
    """Return the command line that runs a tool in its namespace."""
    name, *more = command
    program = found(name)
    if program is None:
        raise EngineError(f"{name} is not on PATH")
    return [*side.enter, program, *more]
