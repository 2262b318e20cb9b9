"""Runs a study: block after block, look after look, until all is decided or the last look is taken.

The order of each block follows from seed and block number alone. Which blocks count follows from the trials
on disk (`selection`). An interrupted or killed run therefore resumes exactly where it stopped.
"""

from __future__ import annotations

import contextlib
import random
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from thunderherd.conform.before_timing import check_servers
from thunderherd.engine.client import EngineError, catalogue, find_engine
from thunderherd.errors import Problem, Refusal, UserError
from thunderherd.files import write_text
from thunderherd.judge.summary import source_csv, summarise
from thunderherd.judge.summary.block_rejection import ATTEMPTS, Block, Selection, blocks_of, seconds_allowed
from thunderherd.judge.summary.noted_cells import write_noted_cells
from thunderherd.judge.summary.open_claims import claims_after, selected
from thunderherd.judge.why.pairs import best_against_others, with_counted_points
from thunderherd.judge.why.profile_files import profiling_summary
from thunderherd.labs.kind import Site
from thunderherd.machine import description, noise
from thunderherd.machine.busy import other_runs
from thunderherd.machine.limits import limits_by_host, measured_lines, measuring_seconds
from thunderherd.records.directory import (
    RunDirectory,
    RunInfo,
    SavedRun,
    check_unused,
    default_directory,
    is_begun,
)
from thunderherd.records.limits import LimitsHost, MachineLimits
from thunderherd.records.summary import Summary, TrialRecord
from thunderherd.run import live_view, progress, recordings
from thunderherd.run.counted import count_run, counted, counted_so_far
from thunderherd.run.counting_cost import cost_run, cost_so_far
from thunderherd.run.extra_trials import ExtraTrials
from thunderherd.run.own_programs import as_begun, prepared, without_unfit
from thunderherd.run.plan import next_in_block, plan
from thunderherd.run.profiled import profile_run, profiled
from thunderherd.run.results_folder import write_folder
from thunderherd.show.sentences.claims_so_far import SoFar, Telling, claims_so_far
from thunderherd.study.file.names import typed
from thunderherd.study.loading import Contender, Study, asked_for
from thunderherd.study.own_programs import check_commands
from thunderherd.study.resolved import LEFT_OUT
from thunderherd.text.figures import count
from thunderherd.toml.quantities import quantity_of
from thunderherd.trial.caveats import PASSED_CASES
from thunderherd.trial.hosts import check_hosts, places_of_machines, sent_at_most, sent_before
from thunderherd.trial.outline import outline
from thunderherd.trial.sites import sites_of
from thunderherd.trial.trial import ProfileFiles, run_trial

SEEDS = 2**32
"""A seed that the user did not choose is below this."""
GONE_SECONDS = 0.5
"""The time to wait for the end of a lab's site, which may be the reason of a failed trial."""

RESUME = "resume: "
"""Begins the line with the command that resumes an interrupted run."""
NO_LIMITS = "machine limits unavailable"
OTHER_RUN = "another server or load of Thunderherd was on this machine during the run"
NEW_RUN = "start a new run with another --out"
NOTHING_TO_RESUME = "no run to resume; starting a new one"

FEW_BLOCKS = 6
"""After so many blocks a run that decides claims first says what they are expected to need."""

CHANGES_SHOWN = 5
"""Most changes of a study that a refusal to resume lists."""


def run_study(
    study: Study,
    directory: Path | None = None,
    *,
    seed: int | None = None,
    resume: bool = False,
    command: Sequence[str] = (),
    go_on: tuple[str, ...] | str = (),
    conform: bool = True,
    allow_commands: bool = False,
    show: progress.Progress | None = None,
    telling: Telling = claims_so_far,
) -> Summary:
    """Run `study` into `directory` (default: results/STUDY-DATE-TIME) and return the summary written there.

    With `resume`, continue the run in `directory` with the same seed and order. Ctrl-C keeps the trials,
    writes their summary, prints how to go on and raises KeyboardInterrupt. `go_on` is the command to print
    if that is not `thunderherd run ... --resume`, or the line of a command without --resume (`again`). With
    `conform`, servers that are not ours must first pass the cases that their loads need. With
    `allow_commands`, commands of the study may run on other hosts. `telling` words how far a run is that
    decides claims. Main thread only.

    Raises
    ------
    UserError
        The directory is taken or has a run of another study, or the engine refuses a setting.
    """
    if not allow_commands:
        check_commands(study)
    path = directory or default_directory(study.name)
    if not resume:
        check_unused(path)
    engine = find_engine()
    with contextlib.ExitStack() as held:
        shown = held.enter_context(show or live_view.choose(study))
        for line in sent_before(study):
            shown.say(line)
        sites = held.enter_context(sites_of(study, engine))
        for line in sent_at_most(study, sites, ATTEMPTS):
            shown.say(line)
        study, opened = _open(study, path, seed, resume, command, conform, engine, sites, shown)
        with opened as run:
            return RunState(study, run, command, go_on, engine, sites, shown, telling).run()


def _open(
    study: Study,
    path: Path,
    seed: int | None,
    resume: bool,
    command: Sequence[str],
    conform: bool,
    engine: Path,
    sites: Mapping[str, Site],
    show: progress.Progress,
) -> tuple[Study, RunDirectory]:
    """Return the study that can run, and the directory of a new run, or of the run to resume.

    A new run leaves out the contenders whose programs cannot be built or started; a resumed run, the same.
    """
    now = datetime.now().astimezone().isoformat(timespec="seconds")
    here = {**description.describe(engine), "labs": {name: site.facts() for name, site in sites.items()}}
    if resume and is_begun(path):
        run = RunDirectory.resume(path, outline)
        try:
            study = as_begun(study, run.info)
            check_hosts(study, sites)
            here["servers"] = prepared(study, sites=sites)
            check_same(run.info, study, seed, here)
            run.note_resumption(now)
        except BaseException:
            run.close()
            raise
        show.say(f"{study.name}: resuming in {path}, seed {run.info.seed}, {len(run.trials)} trials on disk")
        return study, run
    if resume:
        show.say(f"{path}: {NOTHING_TO_RESUME}")
    unfit: dict[str, Problem] = {}
    check_hosts(study, sites, unfit)
    study, unfit = without_unfit(study, unfit), {}
    servers = prepared(study, unfit, sites)
    study = without_unfit(study, unfit)
    if any(each.own_server for each in study.contenders):
        unfit = {}
        passed = check_servers(study, show.say, unfit, sites) if conform else None
        study = without_unfit(study, unfit)
        here[PASSED_CASES] = passed
    bases = {each.base for each in study.contenders}
    if servers := {name: each for name, each in servers.items() if name.removesuffix(" load") in bases}:
        here["servers"] = servers
    info = RunInfo(
        study=study.model_dump(mode="json"),
        digest=study.digest,
        seed=random.SystemRandom().randrange(SEEDS) if seed is None else seed,
        overrides=list(study.overrides),
        command=list(command),
        started=now,
        version=metadata.version("thunderherd"),
        machine=here,
    )
    kept, own = recordings.copies(study), recordings.study_files(study)
    run = RunDirectory.create(path, info, outline)
    recordings.write_copies(kept, path)
    recordings.write_copies(own, path, recordings.STUDY_FOLDER)
    write_folder(SavedRun(path, info, run.trials, None))
    first = study.looks[0].blocks
    points = len(study.contenders) - len(study.main)
    for note in study.notes:
        if note.startswith(LEFT_OUT):
            show.say(note)
    what = f"{len(study.contenders)} contenders"
    if points:
        what += f" ({points} of them points of {count(len(study.sweeps), 'sweep')})"
    length = count(first, "repetition") if study.repetitions else f"first look after {first} blocks"
    show.say(f"{study.name} ({study.size}): {what}, {length}, seed {info.seed}, into {path}")
    return study, run


class RunState:
    """A run in progress."""

    def __init__(
        self,
        study: Study,
        directory: RunDirectory,
        command: Sequence[str],
        go_on: tuple[str, ...] | str,
        engine: Path,
        sites: Mapping[str, Site],
        show: progress.Progress,
        telling: Telling,
    ) -> None:
        self.study, self.directory, self.command, self.show = study, directory, command, show
        self.telling = telling
        self.go_on = go_on
        self.engine, self.build, self.sites = engine, _build_of(engine), sites
        self.seed = directory.info.seed
        self.limits: dict[str, MachineLimits] = {}
        self.settled: frozenset[str] = frozenset()
        self.blocks = 0
        self.notes = [
            *recordings.not_kept(study),
            *self._warnings_of_servers(),
            *(warning for site in sites.values() for warning in site.warnings()),
        ]
        self.names = [contender.name for contender in study.contenders]

    def run(self) -> Summary:
        self.show.begins(self.directory.trials, self.study.absent)
        self.limits = self._limits()
        try:
            number = self._next_block()
            if number is not None:
                self._note_other_run()
            while number is not None:
                self._run_block(number)
                ended, number = number, self._next_block()
                self._note_other_run()
                self._report(ended)
                self._report_claims()
            self._check_build()
            count_run(self.study, self.directory, self.engine, self._trial, self.show)
            cost_run(self.study, self.directory, self._trial, self.show)
            profile_run(self.study, self.directory, self._trial, self.show)
            return self._finish()
        except KeyboardInterrupt:
            self._stopped()
            raise
        except UserError:
            self._keep_results()
            raise
        except BaseException:
            # A full disk, or no memory: the trials are kept.
            with contextlib.suppress(OSError):
                self.show.say(f"failed: {self._kept()}")
                self.show.say(self._how_to_go_on())
            raise

    def _note_other_run(self) -> None:
        """Note another run on this machine, once: the noise of a block need not show it.

        A study's running servers may be ours, so a run with any does not look for others.
        """
        has_running = any(each.own_server and each.own_server.url for each in self.study.contenders)
        if has_running or any(note.startswith(OTHER_RUN) for note in self.directory.info.notes):
            return
        if others := other_runs():
            self.directory.note(f"{OTHER_RUN} (process {others[0]})")
            self.show.say(self.directory.info.notes[-1])

    def _stopped(self) -> None:
        """Report how many trials were kept, write their summary, and print how to go on.

        A second Ctrl-C skips the summary.
        """
        self.show.say(f"stopped: {self._kept()}")
        try:
            self._keep_results()
        finally:
            self.show.say(self._how_to_go_on())

    def _keep_results(self) -> None:
        """Write the summary of the trials so far, such as when a host does not come back."""
        if self.directory.trials:
            with contextlib.suppress(UserError, OSError):
                self._finish()
                self.show.say(f"report: {shlex.join(['thunderherd', 'report', str(self.directory.path)])}")

    def _kept(self) -> str:
        """Return how many trials are on disk, and where."""
        trials = ", ".join([count(len(self.directory.trials), "trial"), *self._extra_trials()])
        return f"{trials} kept in {self.directory.path}"

    def _warnings_of_servers(self) -> list[str]:
        """Return what was wrong with the commands of servers and load generators before the first trial."""
        servers = self.directory.info.machine.get("servers", {})
        return [f"{name}: {why}" for name, server in servers.items() for why in server.get("warnings", ())]

    def _extra_trials(self) -> list[str]:
        """Return, in words, how many of the requested extra trials exist."""
        extra: list[tuple[ExtraTrials[Any], str]] = [
            (counted(self.study, self.directory), "counted"),
            (profiled(self.study, self.directory), "sampled"),
        ]
        requested = [(each.valid(), each.wanted, word) for each, word in extra if each.table.is_asked_for]
        return [f"{valid} of {count(wanted, f'{word} trial')}" for valid, wanted, word in requested]

    def _limits(self) -> dict[str, MachineLimits]:
        """Return the limits of the server's host, and of the other machines of the run.

        They are those of the run, or measured now; empty if not wanted or unavailable.
        """
        duration = self.study.measure.limits
        if not duration:
            return {}
        try:
            lines = self.directory.limits()
            if lines is None:
                lines = self._measured_limits(duration)
                self.directory.keep_limits(lines)
            server = next(iter(self.sites.values())).server.host
            found = limits_by_host(lines, catalogue(self.engine).limits, server)
            for host, each in found.items():
                if each.disturbed:
                    self.notes.append(f"{host}: {each.disturbed}" if host else each.disturbed)
                    self.show.say(self.notes[-1])
            return found
        except (EngineError, ValueError) as error:
            self.notes.append(f"{NO_LIMITS}: {error}")
            self.show.say(self.notes[-1])
            return {}

    def _measured_limits(self, duration: int) -> list[str]:
        """Measure the limits on one host of each machine, that of the server first, and return all lines."""
        settings = {"duration": duration, "seed": self.seed}
        seconds = measuring_seconds(settings, catalogue(self.engine).limit_settings)
        lines: list[str] = []
        for place in places_of_machines(self.sites.values()):
            on = f" on {place.host}" if place.host else ""
            self.show.say(f"measuring machine limits{on} (about {duration / 1e9:g} s)")
            if lines:
                lines.append(LimitsHost(host=place.host).model_dump_json())
            lines += place.ask_for(
                seconds,
                measured_lines,
                cpus=None if place.host else _first_cpus(self.study),
                settings=settings,
                engine=place.engine,
                allowed=self.study.noise,
            )
        return lines

    def _next_block(self) -> int | None:
        """Return the number of the block to run or finish; None at the end."""
        found = plan(self.study, self.directory.trials)
        self.settled = found.settled
        self.show.plan(found.blocks, found.trials_left)
        return found.number

    def _run_block(self, number: int) -> None:
        """Run the trials that the block lacks, in its order, then repeat the invalid and the noisy ones."""
        for _ in range(ATTEMPTS * len(self.names)):
            following = next_in_block(self.study, self.seed, number, self.directory.trials, self.settled)
            if following is None:
                break
            self._run_trial(number, following.contender, following.position, following.attempt)

    def _report(self, number: int) -> None:
        block = self._block(number)
        self.show.block_ends(number, list(block.trials.values()), self._remark(block))

    def _report_claims(self) -> None:
        """Say what the open claims are expected to need, after a few blocks and at each look."""
        if self.study.decides != "claims":
            return
        selection = selected(self.study, self.directory.trials)
        blocks = len(selection.accepted)
        due = (FEW_BLOCKS, *(look.blocks for look in self.study.looks))
        # Noisy blocks that are taken after all may make the number jump.
        if not any(self.blocks < each <= blocks for each in due):
            return
        self.blocks = blocks
        claims, results = claims_after(self.study, self.directory.trials, selection)
        times: dict[str, list[float]] = {}
        for trial in self.directory.trials:
            times.setdefault(trial.contender, []).append(trial.wall_seconds)
        means = {name: sum(each) / len(each) for name, each in times.items()}
        room = self._room(selection, sum(map(sum, times.values())))
        alpha = next((look.alpha for look in self.study.looks if look.blocks >= room), None)
        found = SoFar(claims, results, blocks, means, room, alpha or self.study.measure.alpha)
        for line in self.telling(found):
            self.show.say(line)

    def _room(self, selection: Selection, used: float) -> int:
        """Return the number of blocks that the run has room for, by the time of those so far."""
        most = self.study.looks[-1].blocks
        allowed = seconds_allowed(self.study, selection.reached)
        return most if allowed is None else min(most, int(allowed / used * len(selection.accepted)))

    def _block(self, number: int) -> Block:
        begun = {block.number: block for block in blocks_of(self.directory.trials)}
        return begun.get(number, Block(number))

    def _run_trial(self, number: int, name: str, position: int, attempt: int) -> TrialRecord:
        self._check_build()
        self.show.trial_begins(number, name, position, len(self.names))
        contender = self.study.contender(name)
        try:
            trial = self._trial(self.study, contender, block=number, position=position, attempt=attempt)
        except UserError as error:
            problems = [
                replace(
                    each,
                    message=f"{name}: {each.message}",
                    code=each.code or "run.trial_refused",
                    hint="; ".join(filter(None, (each.hint, self._after(error, name)))),
                )
                for each in error.problems
            ]
            raise UserError(*problems) from None
        self.directory.append(trial)
        self.show.trial_ends(trial)
        return trial

    def _trial(
        self,
        study: Study,
        contender: Contender,
        *,
        block: int,
        position: int,
        attempt: int,
        profiles: ProfileFiles | None = None,
    ) -> TrialRecord:
        """Run a trial at the site of its contender's lab."""
        site = self.sites[contender.lab.network]
        site.check()
        try:
            return run_trial(
                study,
                contender,
                block=block,
                position=position,
                seed=self.seed,
                attempt=attempt,
                engine=self.engine,
                site=site,
                profiles=profiles,
            )
        except (OSError, UserError):
            # The site may be gone; its own error then explains more than this one.
            site.check_for(GONE_SECONDS)
            raise

    def _check_build(self) -> None:
        if _build_of(self.engine) != self.build:
            raise UserError(
                "the engine was rebuilt during the run; trials of two builds must not be mixed",
                code="run.engine_rebuilt",
                hint=NEW_RUN,
                where=str(self.engine),
            )

    def _after(self, error: UserError, name: str) -> str:
        """Return a hint on how to go on after a mistake of the user during a run.

        If a contender's very first trial is refused, the reason is in its settings. A resumed run would keep
        those.
        """
        kept = f"{len(self.directory.trials)} trials are kept"
        if isinstance(error, Refusal) and name not in {trial.contender for trial in self.directory.trials}:
            return f"{kept}, but each further trial would be refused, too: {NEW_RUN}"
        return f"{kept}; {self._how_to_go_on()}"

    def _remark(self, block: Block) -> str:
        """Return the noise of a block, if it was noisier than the study allows; otherwise empty."""
        limits = self.study.noise
        heard = [
            (noise.loudness(trial.noise, limits), trial) for trial in block.trials.values() if trial.noise
        ]
        remarks = []
        if heard:
            loudest, trial = max(heard, key=lambda pair: pair[0])
            if loudest > 1 and trial.noise is not None:
                remarks.append(f"noisy ({trial.contender}: {noise.describe(trial.noise, limits)})")
                if others := other_runs():
                    remarks.append(f"another server or load of Thunderherd is active: process {others[0]}")
        return ", ".join(remarks)

    def _finish(self) -> Summary:
        info, trials = self.directory.info, self.directory.read_trials()
        summary = summarise.summarise(
            self.study,
            trials,
            info.machine,
            seed=self.seed,
            command=self.command or info.command,
            started=info.started,
            notes=[
                *self.notes,
                *info.notes,
                *(f"the run was interrupted, and resumed at {when}" for when in info.resumed),
            ],
            limits=next(iter(self.limits.values()), None),
            limits_of_hosts={host: each for host, each in self.limits.items() if host},
        )
        extra = {
            "counting": counted_so_far(self.study, self.directory, catalogue(self.engine)),
            "counting_cost": cost_so_far(self.study, self.directory),
        }
        summary = with_counted_points(summary.model_copy(update=extra))
        summary = self._with_profiles(summary)
        why = best_against_others(summary, trials)
        summary = summary.model_copy(update={"explanations": why})
        saved = self.directory.finish(summary, trials)
        write_noted_cells(self.study, saved)
        if self.study.source_csv and (text := source_csv.text_of(self.study, summary)):
            write_text(self.directory.path / self.study.source_csv.file, text)
        write_folder(saved)
        return summary

    def _with_profiles(self, summary: Summary) -> Summary:
        """Return the summary with the profiles of the run, and write their files."""
        trials = profiled(self.study, self.directory).done
        found, reasons = profiling_summary(self.study, summary, trials, self.directory.path, self.engine)
        for reason in reasons:
            self.show.say(reason)
        notes = [*summary.study.notes, *reasons]
        study = summary.study.model_copy(update={"notes": notes})
        return summary.model_copy(update={"profiles": found, "study": study})

    def _how_to_go_on(self) -> str:
        """Return a line with the command that resumes the run, or how to start it anew."""
        if isinstance(self.go_on, str):
            return self.go_on
        of_study = typed(asked_for(self.study), self.study.size, self.study.overrides)
        words = self.go_on or (*of_study, "--out", str(self.directory.path), "--resume")
        return f"{RESUME}{shlex.join(words)}"


def again(*, with_out: bool) -> str:
    """Return the line on how to go on after an interrupted command that cannot resume its run."""
    place = ", with another --out" if with_out else ""
    return f"start anew: type the command again{place}; this one cannot be resumed"


def _first_cpus(study: Study) -> list[int] | None:
    """Return one CPU of each side if the study separates them; None leaves the choice to the engine."""
    server, clients = study.lab.server_cpus, study.lab.client_cpus
    if not server or not clients or server[0] == clients[0]:
        return None
    return [server[0], clients[0]]


def _build_of(engine: Path) -> tuple[int, int] | None:
    """Return an identity that changes when the engine is rebuilt; None if there is no engine."""
    try:
        found = engine.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def check_same(info: RunInfo, study: Study, seed: int | None, here: dict[str, Any]) -> None:
    """Refuse to resume a run with another study, seed, engine, kernel, CPU or program.

    `here` describes this machine and the run's hosts and programs. Hosts are not compared if it lacks them:
    those of a run that has ended are not connected.

    Raises `UserError`, which names the changes.
    """
    if seed is not None and seed != info.seed:
        raise UserError(
            f"the run has seed {info.seed}, not {seed}",
            code="run.other_seed",
            hint=f"leave --seed out, or {NEW_RUN}",
            where="--seed",
        )
    if study.digest != info.digest:
        changes = differences(info.study, study.model_dump(mode="json"), units=study.units)
        shown = "; ".join(changes[:CHANGES_SHOWN]) or "a change outside the study's settings"
        more = f"; and {len(changes) - CHANGES_SHOWN} more" if len(changes) > CHANGES_SHOWN else ""
        raise UserError(
            f"the study has changed since the run began: {shown}{more}",
            code="run.other_study",
            hint=f"undo this, or {NEW_RUN}",
        )
    begun = info.machine.get("servers", {})
    servers = {name: each for name, each in begun.items() if name in here.get("servers", {})}
    for what, keys in {
        "engine": ("engine", "sha256"),
        "kernel": ("kernel",),
        "CPU": ("cpu", "model"),
        **{
            f"{what} of {host}": ("labs", lab, "hosts", host, "machine", *keys)
            for lab, of_lab in (info.machine.get("labs", {}) if "labs" in here else {}).items()
            for host in of_lab.get("hosts", {})
            for what, keys in {"kernel": ("kernel",), "CPU": ("cpu", "model")}.items()
        },
        **{f"program of {name}": ("servers", name, "sha256") for name in servers},
        **{
            f"file {word} of {name}": ("servers", name, "files", word)
            for name, server in servers.items()
            for word in server.get("files", {})
        },
    }.items():
        before, now = _look_up(info.machine, keys), _look_up(here, keys)
        if before != now:
            raise UserError(
                f"the {what} has changed since the run began ({before} then, {now} now)",
                code=f"run.other_{what.partition(' ')[0].lower()}",
                hint=f"trials of both must not be mixed: {NEW_RUN}",
            )


def _look_up(tree: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def differences(
    before: Any, now: Any, place: str = "", units: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return the differences between two JSON documents: `load.settings.loops was 500, is 250`.

    Settings in `units` are written as quantities: `load.settings.duration was 2s, is 5s`.
    """
    if isinstance(before, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*before, *now])
        return [
            line
            for key in keys
            if key not in ("digest", "units")
            for line in differences(before.get(key), now.get(key), f"{place}.{key}" if place else key, units)
        ]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [
            line
            for index, (one, other) in enumerate(zip(before, now, strict=True))
            for line in differences(one, other, f"{place}[{_name_of(one, index)}]", units)
        ]
    table, _, name = place.rpartition(".")
    unit = units.get(name) if table.endswith("settings") else None
    return [] if before == now else [f"{place} was {_short(before, unit)}, is {_short(now, unit)}"]


def _name_of(element: Any, index: int) -> str:
    return str(element["name"]) if isinstance(element, dict) and "name" in element else str(index)


def _short(value: Any, unit: str | None) -> str:
    text = quantity_of(unit).write(value) if unit and type(value) is int else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
