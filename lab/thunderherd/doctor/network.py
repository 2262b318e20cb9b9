"""Settings of the kernel's TCP: congestion control, ports, queues."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.doctor.kind import Examination, Finding, Here, good, notable, setting, sysctl
from thunderherd.machine import description, proc, tcp_sockets
from thunderherd.text.figures import count

USUAL_PORTS = 60_999 - 32_768 + 1
"""The default number of local ports of Linux (ip(7))."""
ALL_PORTS = "1024 65535"


def congestion_control(here: Here) -> Iterator[Finding]:
    """Report the default congestion control, and its caveats (tcp(7))."""
    controls = here.catalogue.congestion_controls
    if controls is None or controls.default is None:
        raise description.Unavailable("the engine does not report it")
    seen = f"{controls.default} (available: {', '.join(controls.available)})"
    remark = controls.remarks.get(controls.default)
    if remark is None:
        means = f"this user may choose {', '.join(controls.allowed)}"
        yield good("congestion control", seen, means)
        return
    better = [each for each in ("cubic", "reno") if each in controls.available]
    yield notable(
        "congestion control",
        seen,
        f"{remark}. For a single run: --lab congestion={better[0]}" if better else remark,
        *(sysctl("net.ipv4.tcp_congestion_control", each) for each in better[:1]),
    )


def local_ports(here: Here) -> Iterator[Finding]:
    """Report the ports for outgoing connections, each occupied for a minute afterwards (TIME_WAIT)."""
    number = tcp_sockets.local_ports()
    seen = f"{number:,}, {count(tcp_sockets.time_wait_count(proc.PROC / 'self/net'), 'socket')} in TIME_WAIT"
    if number >= USUAL_PORTS:
        yield good("local ports", seen, "at least as many as by default")
        return
    yield notable(
        "local ports",
        seen,
        "a trial may make at most half as many connections; studies that need more refuse to run",
        sysctl("net.ipv4.ip_local_port_range", ALL_PORTS),
    )


def waiting_connections(here: Here) -> Iterator[Finding]:
    """Report how many connections may wait for accept, and how many of them half open (listen(2))."""
    backlog = next((each.default for each in here.catalogue.server_settings if each.name == "backlog"), 0)
    for name in ("net.core.somaxconn", "net.ipv4.tcp_max_syn_backlog"):
        short, value = name.rpartition(".")[2], int(setting(name))
        if value >= int(backlog):
            means = f"enough for the servers' backlog of {backlog}"
            yield good(short, f"{value:,}", means)
            continue
        yield notable(
            short,
            f"{value:,}",
            f"less than the servers' backlog of {backlog}: in a burst, further connections are dropped and "
            "retried after a second or more",
            sysctl(name, int(backlog)),
        )


def reuse_of_ports(here: Here) -> Iterator[Finding]:
    """Report whether a port in TIME_WAIT may be reused for a new connection (ip-sysctl.rst, tcp_tw_reuse)."""
    name, short = "net.ipv4.tcp_tw_reuse", "tcp_tw_reuse"
    value = setting(name)
    if value != "0":
        where = {"2": "on loopback"}.get(value, "for all addresses")
        yield good(short, value, f"ports in TIME_WAIT are reused {where}")
        return
    yield notable(
        short,
        value,
        "loads that close every connection run out of ports after a while; before that, connect takes longer",
        sysctl(name, 2),
    )


EXAMINATION = Examination(
    title="TCP", looks=(congestion_control, local_ports, waiting_connections, reuse_of_ports)
)
