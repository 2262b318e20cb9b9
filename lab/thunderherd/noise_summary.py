"""What the machine did beside a contender's trials: soft interrupts by CPU, steal, retransmitted segments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from statistics import median

from thunderherd.noise_form import RETRANSMITTED, SOFTIRQ_RATES, NoiseSummary
from thunderherd.records import TrialRecord

NOT_RECORDED = "its trials were made before this was recorded"
NO_TCP = "Unix sockets retransmit nothing"
NOT_ASKED = "the network namespaces of its trials could not be asked (/proc/PID/net/snmp)"


def noise_summary(trials: Sequence[TrialRecord], *, over_tcp: bool) -> NoiseSummary | None:
    """The medians of these trials; None where none has the two samples that they are taken from.

    `over_tcp`: whether connections are TCP's. Of others, what was retransmitted was another program's.
    """
    heard = [trial.noise for trial in trials if trial.noise is not None]
    if not heard:
        return None
    softirqs = [noise.softirq_rates for noise in heard if noise.softirq_seconds]
    again = [noise.retransmitted for noise in heard if noise.retransmitted is not None]
    why = {}
    if not softirqs:
        why[SOFTIRQ_RATES] = NOT_RECORDED
    if not again or not over_tcp:
        why[RETRANSMITTED] = NOT_ASKED if over_tcp else NO_TCP
    return NoiseSummary(
        trials=len(heard),
        softirq_milliseconds_per_second=[
            median(rate for rate in of_cpu if rate is not None) for of_cpu in zip_longest(*softirqs)
        ],
        steal_share=median(noise.steal_share for noise in heard),
        foreign_share=median(noise.foreign_share for noise in heard),
        retransmitted=median(again) if again and over_tcp else None,
        why=why,
    )
