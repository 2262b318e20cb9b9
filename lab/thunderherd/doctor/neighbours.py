"""Other users of the CPUs: other guests of the host, and other processes on this machine."""

from __future__ import annotations

from collections.abc import Iterator

from thunderherd.doctor.kind import Change, Examination, Finding, Here, good, notable
from thunderherd.machine.busy import other_runs
from thunderherd.text.figures import count

NAMED = 5
"""Most processes that are named."""


def steal(here: Here) -> Iterator[Finding]:
    """Report CPU time that the hypervisor gave to others (proc_stat(5))."""
    noise, allowed = here.watched.noise, here.allowed.steal_percent
    seen = f"{noise.steal_share:.1%} of the machine over {noise.wall_seconds:.1f} s"
    if 100 * noise.steal_share <= allowed:
        yield good("steal", seen, f"studies allow {allowed:g} %")
        return
    yield notable(
        "steal",
        seen,
        f"other guests of the host use its CPUs. Studies reject blocks with more than {allowed:g} %, so a "
        "run takes longer and may end undecided. Use a guest with dedicated CPUs, or run at another time",
    )


def others(here: Here) -> Iterator[Finding]:
    """Report CPU time of other processes, the busiest by name."""
    noise, allowed = here.watched.noise, here.allowed.others_percent
    seen = f"{noise.foreign_share:.1%} of the machine (± {noise.foreign_uncertainty:.1%})"
    surely = 100 * (noise.foreign_share - noise.foreign_uncertainty)
    named = here.watched.busy[:NAMED]
    if surely <= allowed:
        yield good("others", seen + _named(here), f"studies allow {allowed:g} %")
        return
    look = "ps -o pid,user,etime,pcpu,args -p " + ",".join(str(each.pid) for each in named)
    unseen = "" if named else ". No visible process does this: it is outside this container"
    yield notable(
        "others",
        seen + _named(here),
        f"studies reject blocks with more than {allowed:g} %, so a run takes longer and may end "
        f"undecided{unseen}. Wait until these processes have ended, or stop those that you do not need",
        *((Change(command=look, root=False),) if named else ()),
    )


def throttling(here: Here) -> Iterator[Finding]:
    """Report whether a control group ran out of CPU time."""
    times = here.watched.noise.throttled
    if times:
        yield notable(
            "throttling",
            f"{count(times, 'time')} within {here.watched.noise.wall_seconds:.1f} s",
            "the control group has used up its CPU quota: trials that this stops for more than 1 % of their "
            "time are invalid",
        )


def runs(here: Here) -> Iterator[Finding]:
    """Report servers and loads of Thunderherd that are running now."""
    found = other_runs()
    if found:
        pids = [str(pid) for pid in found[:NAMED]]
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        yield notable(
            "other runs",
            f"{count(len(found), 'process', 'processes')} of Thunderherd ({', '.join(pids)}{more})",
            "servers and loads of two runs use the same CPUs, so each run also measures the other one. Wait "
            "until the other run has ended, or stop it",
            Change(command=f"ps -o pid,user,etime,pcpu,args -p {','.join(pids)}", root=False),
        )


def _named(here: Here) -> str:
    """Return `: python3 (98 % of a CPU, process 123)`, and how many more there are."""
    busy = here.watched.busy
    words = [f"{each.name} ({each.share:.0%} of a CPU, process {each.pid})" for each in busy[:NAMED]]
    if len(busy) > NAMED:
        words.append(f"and {len(busy) - NAMED} more")
    return f": {', '.join(words)}" if words else ""


EXAMINATION = Examination(title="Other users of the CPUs", looks=(steal, others, runs, throttling))
