"""Before the first trial on several hosts: have they what the study needs, and what will they send?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from thunderherd.engine.client import catalogue
from thunderherd.engine.places.place import Place
from thunderherd.errors import Problem, UserError
from thunderherd.hosts.addresses import THIS, host_of
from thunderherd.labs.kind import Role, Site
from thunderherd.study.checks.labs import CONGESTION, congestion_setting
from thunderherd.study.checks.machine import (
    unavailable_congestion_control,
    unavailable_cpus,
    unavailable_design,
    unavailable_primitive,
    unavailable_user,
)
from thunderherd.study.loading import Contender, LoadPlan, Study
from thunderherd.study.own_programs import lacking_on_host
from thunderherd.study.resolved import RATE
from thunderherd.text.figures import count


def check_hosts(study: Study, sites: Mapping[str, Site], unfit: dict[str, Problem] | None = None) -> None:
    """Raise `UserError` if a host lacks what a contender needs.

    If the contender may be left out, `unfit` receives the problem instead, by the contender's name.
    """
    refused: list[Problem] = []
    for made in study.contenders:
        for problem in _lacking(made, sites[made.lab.network]):
            if unfit is not None and made.may_be_left_out:
                unfit.setdefault(made.name, problem)
            elif not made.may_be_left_out:
                refused.append(problem.at(made.name))
    if refused:
        raise UserError(*dict.fromkeys(refused))


def _lacking(made: Contender, site: Site) -> Iterator[Problem]:
    """Yield what the hosts of a contender lack. Sites without hosts were checked as the study was read."""
    running = made.own_server.address if made.own_server else None
    if running and not site.is_of_server(host_of(running)):
        yield Problem(
            f"{running} is not an address of {site.server.host}, the host of the server",
            "study.other_target",
            'give lab.server the host on which the server runs, such as "ssh://a?data=10.0.1.5"',
        )
    places = {each.host: each for each in (site.server, *site.clients)}
    for host in site.hosts():
        for side in host.roles:
            for problem in places[host.host].ask(lacking_there, made, side):
                yield replace(problem, message=f"{host.host}: {problem.message}")


def lacking_there(made: Contender, side: Role) -> list[Problem]:
    """Return what a side of a contender needs and this machine, a host of that side, lacks."""
    here, lab = catalogue(), made.lab
    problems: list[Problem | None] = []
    if side == "server":
        problems += unavailable_cpus("server_cpus", lab.server_cpus or ())
        ways, settings = [made.primitive, made.receive], made.settings
        if made.own_server is None:
            problems.append(unavailable_design(made.design, here))
    else:
        problems += unavailable_cpus("client_cpus", lab.client_cpus or ())
        ways, settings = [*made.load.own_way.values()], made.load.settings
    for role, _, program in made.programs:
        if role == side:
            problems += lacking_on_host(program, made.base)
    problems += [unavailable_primitive(each, here) for each in ways]
    if lab.user is not None:
        problems.append(unavailable_user(lab.user))
    control, controls = settings.get(CONGESTION), here.congestion_controls
    if isinstance(control, str) and controls is not None:
        setting = congestion_setting(here)
        if setting is None or control != setting.default:
            problems.append(unavailable_congestion_control(control, controls.allowed, controls))
    return [each for each in problems if each is not None]


def places_of_machines(sites: Iterable[Site]) -> list[Place]:
    """Return a place on each machine, that of the first server first. Hosts may share a machine."""
    found: dict[str, Place] = {}
    for site in sites:
        machine_of = {each.host: each.boot for each in site.hosts()}
        for place in site.machines:
            found.setdefault(machine_of.get(place.host, ""), place)
    return list(found.values())


def sent_before(study: Study) -> list[str]:
    """Return what hosts that are not on this machine send while their paths are looked for."""
    found = []
    for lab in (each.lab for each in study.contenders if each.lab.ends.are_hosts):
        ends = lab.ends
        if not all(each.is_here for each in (ends.server, *ends.load) if each is not None):
            senders = " and ".join(lab.load) or THIS
            found.append(
                f"{senders} will send a few bytes to each address of {lab.server or THIS}, to find a path"
            )
    return list(dict.fromkeys(found))


def sent_at_most(study: Study, sites: Mapping[str, Site], attempts: int) -> Iterator[str]:
    """Yield, for each site with hosts that are not on this machine, what they will send at most.

    Each trial is made at most `attempts` times.
    """
    for network, site in sites.items():
        hosts = site.hosts()
        if not any(each.is_elsewhere for each in hosts):
            continue
        made = [each for each in study.contenders if each.lab.network == network]
        ours = [each.load for each in made if each.load.generator is None]
        extra = (study.counting.trials if study.counting.is_asked_for else 0) + (
            study.profiling.trials if study.profiling.is_asked_for else 0
        )
        trials = len(made) * (study.looks[-1].blocks * attempts + extra * attempts)
        senders = " and ".join(each.host for each in hosts if "load" in each.roles)
        sent = f"{senders} will send to {site.address} on {hosts[0].host}: at most {count(trials, 'trial')}"
        if ours:
            connections = max(each.processes * each.clients for each in ours)
            sent += f" of at most {count(connections, 'connection')} at a time, {_pace(ours)}"
        if generators := [each.load.generator.command[0] for each in made if each.load.generator]:
            names = " and ".join(dict.fromkeys(Path(each).name for each in generators))
            sent += f"; nobody knows how much {names} will send"
        yield sent


def _pace(loads: Sequence[LoadPlan]) -> str:
    """Return how much a trial sends at most: requests, or the time for which it sends."""
    parts = []
    counted = [each for each in loads if each.requests_per_trial is not None]
    if counted:
        most = max((each.requests_per_trial or 0) + each.warm_up_connections for each in counted)
        parts.append(f"{most:,} requests")
    rates = [(int(each.settings[RATE]), each) for each in loads if each.settings.get(RATE)]
    if rates:
        parts.append(
            f"{max(rate for rate, _ in rates):,} requests a second for {_longest([e for _, e in rates])}"
        )
    if closed := [each for each in loads if each.requests_per_trial is None and not each.settings.get(RATE)]:
        parts.append(f"as many requests as replies for {_longest(closed)}")
    return " or ".join(parts)


def _longest(loads: Sequence[LoadPlan]) -> str:
    """Return the longest time for which one of these loads sends."""
    seconds = [
        sum(int(each.settings.get(name, 0)) for name in (each.duration, each.warm_up) if name) / 1e9
        for each in loads
    ]
    return f"{max(seconds):g} s"
