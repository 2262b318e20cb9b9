"""The machine's noise during a contender's trials: soft interrupts by CPU, steal, retransmitted segments."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from thunderherd.machine.noise import TICKS_A_SECOND
from thunderherd.records.noise import RETRANSMITTED, SOFTIRQ_RATES, NoiseSummary
from thunderherd.records.summary import Noise, TrialRecord

NOT_RECORDED = "its trials ran before the lab recorded this"
NO_TCP = "Unix sockets retransmit nothing"
NOT_READ = "/proc/PID/net/snmp could not be read in the network namespaces of its trials"


def noise_summary(trials: Sequence[TrialRecord], *, over_tcp: bool) -> NoiseSummary | None:
    """Return the medians over these trials; None if none has the two samples that they need."""
    return _medians([trial.noise for trial in trials if trial.noise is not None], over_tcp)


def noise_of_hosts(trials: Sequence[TrialRecord], *, over_tcp: bool) -> dict[str, NoiseSummary]:
    """Return the medians of each host; none if both sides were on this machine."""
    recorded: dict[str, list[Noise]] = {}
    for each in (host for trial in trials for host in trial.hosts):
        if each.noise is not None:
            recorded.setdefault(each.host, []).append(each.noise)
    found = {host: _medians(noises, over_tcp) for host, noises in recorded.items()}
    return {host: each for host, each in found.items() if each is not None}


def _medians(recorded: Sequence[Noise], over_tcp: bool) -> NoiseSummary | None:
    """Return the medians of these trials.

    Soft interrupts are counted in ticks, of which a short trial has few: all trials are summed for them.
    `over_tcp` says whether the connections are TCP's; otherwise the retransmissions were another program's.
    """
    if not recorded:
        return None
    ticked = [noise for noise in recorded if noise.softirq_seconds]
    together = sum(noise.wall_seconds for noise in ticked)
    again = [noise.retransmitted for noise in recorded if noise.retransmitted is not None]
    why = {}
    if not together:
        why[SOFTIRQ_RATES] = NOT_RECORDED
    if not again or not over_tcp:
        why[RETRANSMITTED] = NOT_READ if over_tcp else NO_TCP
    return NoiseSummary(
        trials=len(recorded),
        softirq_milliseconds_per_second=_rates(ticked),
        softirq_resolution=1e3 / TICKS_A_SECOND / together if together else None,
        steal_share=median(noise.steal_share for noise in recorded),
        foreign_share=median(noise.foreign_share for noise in recorded),
        retransmitted=median(again) if again and over_tcp else None,
        why=why,
    )


def _rates(trials: Sequence[Noise]) -> list[float]:
    """Return the rate of each CPU, over the trials that recorded it."""
    cpus = max((len(noise.softirq_seconds) for noise in trials), default=0)
    by_cpu = [[noise for noise in trials if cpu < len(noise.softirq_seconds)] for cpu in range(cpus)]
    return [
        round(
            1e3 * sum(noise.softirq_seconds[cpu] for noise in own) / sum(noise.wall_seconds for noise in own),
            3,
        )
        for cpu, own in enumerate(by_cpu)
    ]
