"""Programs in hostile surroundings: closed streams, planted links, pipes for files, limits."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from made.interrupted import STUDY
from made.refusals import codes_printed

from thunderherd.cli.main import run_command
from thunderherd.engine import client
from thunderherd.machine.room import NEEDED
from thunderherd.trial.faults import THROTTLED

pytestmark = pytest.mark.usefixtures("use_engine")

PROGRAM = (sys.executable, "-m", "thunderherd")
SOMEBODY = 65_533
"""A user who is neither root nor the owner of anything."""
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do this")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(STUDY)
    return tmp_path


def shell(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script of sh; `$T` is the program."""
    return subprocess.run(
        ["sh", "-c", f'T="{" ".join(PROGRAM)}"\n{script}'], cwd=folder, capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture(scope="module")
def run_once(tmp_path_factory: pytest.TempPathFactory, real_engine: Path) -> Path:
    """The results of the study in `here`."""
    folder = tmp_path_factory.mktemp("run-once")
    (folder / "small.toml").write_text(STUDY)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("THUNDERHERD_ENGINE", str(real_engine))
        ended = shell("$T run small.toml --out run", folder)
    assert ended.returncode == 0, ended
    return folder / "run"


@pytest.fixture
def run(here: Path, run_once: Path) -> Path:
    """A copy of these results, in `here`."""
    return shutil.copytree(run_once, here / "run")


# Standard streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "closed",
    [*(pytest.param(each, marks=pytest.mark.thorough) for each in ("<&-", ">&-", "2>&-")), "<&- >&- 2>&-"],
)
def test_a_run_with_closed_streams_is_complete(closed: str, here: Path) -> None:
    ended = shell(f"$T run small.toml --out run {closed}; echo status $? >status", here)
    assert (here / "status").read_text() == "status 0\n", ended
    assert "Traceback" not in ended.stdout + ended.stderr
    assert (here / "run/report.html").stat().st_size > 100_000
    assert json.loads((here / "run/summary.json").read_text())["trials"]["valid"] == 2


def test_a_mistake_with_closed_streams_has_its_status(here: Path) -> None:
    assert shell("$T run no-such-study 2>&-; exit $?", here).returncode == 2
    assert shell("$T list designs >&-; exit $?", here).returncode == 0


# Files of others --------------------------------------------------------------------------------------------


@as_root
def test_a_run_in_the_folder_of_somebody_else_follows_no_planted_link(here: Path, run: Path) -> None:
    targets = here / "targets"
    targets.mkdir()
    names = [path.name for path in run.iterdir() if path.is_file()]
    planted = [*(f".{name}.unfinished" for name in names), *(name for name in names if not own(name))]
    for number, name in enumerate(planted):
        (targets / str(number)).write_text("untouched")
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(targets / str(number))
    shutil.rmtree(run / "study")
    os.chown(run, SOMEBODY, SOMEBODY)
    ended = shell("$T run small.toml --out run --resume", here)
    assert ended.returncode == 0, ended.stderr
    assert {path.read_text() for path in targets.iterdir()} == {"untouched"}
    assert not [path for path in run.iterdir() if path.is_symlink() and not path.name.startswith(".")]


@as_root
def test_a_chart_in_the_folder_of_somebody_else_follows_no_planted_link(here: Path, run: Path) -> None:
    target = here / "target"
    name = shell("$T plot run", here).stdout.split()[0]
    target.write_text("untouched")
    (run / f"{name}.svg").symlink_to(target)
    os.chown(run, SOMEBODY, SOMEBODY)
    ended = shell(f"$T plot run {name}", here)
    assert ended.returncode == 0, ended.stderr
    assert target.read_text() == "untouched"
    assert not (run / f"{name}.svg").is_symlink() and (run / f"{name}.svg").read_text().startswith("<svg")


@pytest.mark.usefixtures("run")
@pytest.mark.parametrize("command", ["plot run blocks --format svg", "report run", "table run main"])
def test_a_link_or_a_pipe_that_the_user_typed_is_written_to(command: str, here: Path) -> None:
    link, target = here / "link", here / "target"
    target.write_text("old")
    link.symlink_to(target)
    ended = shell(f"$T {command} --output link", here)
    assert ended.returncode == 0, ended.stderr
    assert link.is_symlink() and target.read_text() not in ("", "old")
    os.mkfifo(here / "pipe")
    ended = shell(f"timeout 60 cat pipe >read & $T {command} --output pipe && wait", here)
    assert ended.returncode == 0 and (here / "pipe").is_fifo(), ended
    assert (here / "read").read_text() == target.read_text()


def own(name: str) -> bool:
    """True for the files that a resumed run reads."""
    return name in ("run.json", "trials.jsonl")


@pytest.mark.parametrize("name", ["trials.jsonl", "counted.jsonl", "with_counters.jsonl", "profiles.jsonl"])
def test_trials_are_not_appended_to_a_link(name: str, here: Path, run: Path) -> None:
    elsewhere, link = here / "elsewhere", run / name
    elsewhere.write_text("no line")
    if link.exists():
        shutil.move(link, elsewhere)
    link.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    ended = shell("$T run small.toml --out run --resume", here)
    assert "Traceback" not in ended.stderr
    # The study has no extra trials, so some files are never opened.
    found = codes_printed(ended.stderr)
    assert found == ["system.eloop"] or (not found and name != "trials.jsonl"), ended
    assert elsewhere.read_bytes() == before


PIPES = {
    "a study": "$T run pipe.toml",
    "an overridden study": "$T run pipe.toml --set measure.alpha=0.01",
    "loads": "$T merge pipe.toml",
    "judged loads": "$T judge pipe.toml vs pipe.toml",
    "claims": "$T claims pipe.toml run",
    "a capsule": "$T replay pipe.toml",
    "the run itself": "$T table run",
    "its trials": "$T watch run",
    "the body of a request": "$T load http://127.0.0.1:9/ --body-file pipe.toml",
    "a recording": "$T load bytes --connect 127.0.0.1:9 --load open --duration 1s --rate 10 "
    "--arrivals recorded --recording pipe.toml",
    "sizes": "$T load bytes --connect 127.0.0.1:9 --sizes file:pipe.toml",
    "all baselines": "XDG_DATA_HOME=$PWD/data $T baseline list",
    "a baseline": "XDG_DATA_HOME=$PWD/data $T baseline compare first",
}
BASELINE = "data/thunderherd/baselines/first/baseline.json"


@pytest.mark.parametrize(
    ("what", "kind"),
    [
        *((what, "pipe") for what in PIPES),
        # They are told apart in one place, for all.
        ("a study", "device"),
        *(pytest.param(what, "device", marks=pytest.mark.thorough) for what in PIPES if what != "a study"),
    ],
)
def test_a_pipe_or_a_device_for_a_file_is_refused_at_once(what: str, kind: str, here: Path) -> None:
    for path in (here / each for each in ("pipe.toml", "run/run.json", "run/trials.jsonl", BASELINE)):
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to("/dev/zero")
    began = time.monotonic()
    ended = shell(PIPES[what], here)
    assert ended.returncode not in (0, 130), ended
    assert "Traceback" not in ended.stderr and "regular file" in ended.stderr, ended.stderr
    # The start of a program takes long on a busy machine; one that waits is ended after 120 s.
    assert time.monotonic() - began < 100


# What the machine allows ------------------------------------------------------------------------------------


def test_a_run_in_an_empty_network_namespace_is_refused_and_doctor_says_so(here: Path) -> None:
    unshare = "unshare --net" if os.geteuid() == 0 else "unshare --map-root-user --net"
    if shell(f"{unshare} true", here).returncode:
        pytest.skip("network namespaces are not allowed here")
    ended = shell(f"{unshare} $T run small.toml --out run", here)
    assert ended.returncode == 2, ended
    assert (
        set(codes_printed(ended.stderr)) == {"study.unavailable_lab"} and "ip link set lo up" in ended.stderr
    )
    doctor = json.loads(shell(f"{unshare} $T doctor --json", here).stdout)
    assert not doctor["all_studies_run"]
    labs = doctor["examinations"]["namespaces"]["findings"]
    assert [each["judgement"] for each in labs if each["seen"] == "loopback"] == ["stops"]


def test_a_run_without_a_valid_trial_ends_with_3(
    fake_engine: Callable[..., Path],
    small_study_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake_engine("load_error")
    assert run_command(["run", str(small_study_file), "--out", str(tmp_path / "run")]) == 3
    said = capsys.readouterr()
    assert codes_printed(said.err) == ["run.nothing_measured"] and "0 valid" in said.out, said


@pytest.mark.parametrize(("option", "what"), [("-v", "address space"), ("-d", "data segment")])
def test_a_limit_that_a_run_would_exceed_is_named_before_the_first_trial(
    option: str, what: str, here: Path
) -> None:
    kilobytes = NEEDED[what] // 1024 - 1
    ended = shell(f"ulimit {option} {kilobytes} && exec $T run small.toml --out run", here)
    assert ended.returncode == 2 and codes_printed(ended.stderr) == ["run.too_little_room"], ended
    assert f"ulimit {option}" in ended.stderr and not (here / "run").exists()
    ended = shell(f"ulimit {option} {NEEDED[what] // 1024 + 1} && exec $T run small.toml --out run", here)
    assert ended.returncode == 0 and (here / "run/summary.json").exists(), ended
    # Charts need more address space than a run.
    assert (here / "run/report.html").exists() != ("no report: only" in ended.stderr), ended
    assert (option == "-v") == ("no report: only" in ended.stderr)


@pytest.fixture(params=["memory", "pids"])
def group(request: pytest.FixtureRequest, make_control_group: Callable[[str], Path]) -> Path:
    """The file with the limit of a control group of this test, in either version of the interface."""
    controller = str(request.param)
    made = make_control_group(controller)
    names = ("pids.max",) if controller == "pids" else ("memory.max", "memory.limit_in_bytes")
    files = [made / name for name in names if (made / name).exists()]
    if not files:
        pytest.skip(f"{made} has no limit on {controller}")
    return files[0]


def test_a_limit_of_a_control_group_is_named(group: Path, here: Path) -> None:
    what = "processes and threads" if group.name == "pids.max" else "memory"
    enter = f"echo $$ >{group.parent}/cgroup.procs && exec $T run small.toml --out run"
    group.write_text(str(NEEDED[what] - 1))
    ended = shell(enter, here)
    assert ended.returncode == 2 and codes_printed(ended.stderr) == ["run.too_little_room"], ended
    assert str(group) in ended.stderr and not (here / "run").exists()
    # The shell itself is in the group.
    group.write_text(str(NEEDED[what] + (2 if what != "memory" else 0)))
    ended = shell(enter, here)
    assert ended.returncode == 0 and (here / "run/report.html").exists(), ended


def part_of_a_cpu(group: Path, percent: int) -> dict[str, str]:
    """What to write to which files of a control group, of either version, for a percentage of a CPU."""
    quota = {"cpu.max": f"{percent}000 100000", "cpu.cfs_quota_us": f"{percent}000"}
    files = {name: text for name, text in quota.items() if (group / name).exists()}
    if not files:
        pytest.skip(f"{group} has no quota")
    return files


@pytest.mark.parametrize(
    "ends_by", ["--load closed_connections --duration 700ms --connections kept", "--loops 2000"]
)
def test_a_load_under_a_cpu_quota_is_not_valid(
    ends_by: str, make_control_group: Callable[[str], Path], real_engine: Path, here: Path
) -> None:
    made = make_control_group("cpu")
    # So little that it is the quota which stops the load, not a busy machine.
    quota = part_of_a_cpu(made, percent=2)
    limit = "".join(f"echo {text} >{made / name}; " for name, text in quota.items())
    with client.Server("epoll", workload="bytes") as server:
        load = f"{real_engine} load bytes --connect {server.ready.address} --json {ends_by}"
        ended = shell(f"{limit} echo $$ >{made}/cgroup.procs; exec {load}", here)
    result = json.loads(ended.stdout.splitlines()[-1])
    assert ended.returncode == 1 and result["validity"]["valid"] is False, ended
    (throttled,) = [each for each in result["validity"]["checks"] if each["name"] == "throttled"]
    assert throttled["holds"] is False and throttled["limit"] < throttled["value"] < 10
    assert "cpu.max" in throttled["words"]


def test_a_server_under_a_cpu_quota_says_how_long_it_stopped(
    make_control_group: Callable[[str], Path], real_engine: Path, here: Path
) -> None:
    made = make_control_group("cpu")
    files = part_of_a_cpu(made, percent=5)
    limit = "".join(f"echo {text} >{made / name}; " for name, text in files.items())
    serve = f"{limit} echo $$ >{made}/cgroup.procs; exec {real_engine} serve epoll --listen 127.0.0.1:0"
    with subprocess.Popen(["sh", "-c", serve], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = server.stdout.readline().removeprefix("listening on ").strip()
            loaded = shell(f"{real_engine} load bytes --connect {address} --loops 2000", here)
            server.send_signal(signal.SIGINT)
            said, _ = server.communicate(timeout=60)
        finally:
            server.kill()
    assert server.returncode == 0, (loaded, said)
    assert "note: a CPU quota stopped this server's control group for " in " ".join(said.split()), said


def test_a_run_under_a_cpu_quota_says_so_and_ends_with_3(
    make_control_group: Callable[[str], Path], here: Path
) -> None:
    made = make_control_group("cpu")
    # So little that it is the quota which stops every trial, not a busy machine.
    files = part_of_a_cpu(made, percent=5)
    # The program itself starts without it.
    script = (
        "import pathlib, os, sys\nfrom thunderherd.cli.main import run_command\n"
        "from thunderherd.run import runner\n"
        f"pathlib.Path({str(made / 'cgroup.procs')!r}).write_text(str(os.getpid()))\n"
        + "".join(
            f"pathlib.Path({str(made / name)!r}).write_text({text!r})\n" for name, text in files.items()
        )
        + "sys.exit(run_command(['run', 'small.toml', '--out', 'run']))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=here, capture_output=True, text=True, check=False, timeout=300
    )
    assert ended.returncode == 3, ended
    assert THROTTLED in ended.stderr
    assert "run.nothing_measured" in ended.stderr


SMALL, LARGE = "mount -t tmpfs -o size={} tmpfs disk", "mount -o remount,rw,size=100m disk"
QUOTA = """
truncate -s 128m image && mkfs.btrfs -q image && mkdir pool && mount -o loop image pool &&
btrfs quota enable pool && btrfs subvolume create pool/disk && mount --bind pool/disk disk &&
btrfs qgroup limit {} pool/disk"""
NO_QUOTA = "btrfs qgroup limit none pool/disk"
ON_A_SMALL_DISK = """
{small} || exit 77
({limit} exec $T run small.toml --out disk/run --seed 7) 2>said; echo $? >status
cp -r disk/run full
{between}
{large}
$T run small.toml --out disk/run --resume && cp -r disk/run resumed
"""
"""The disk is gone with the namespace of the shell that mounts it, so its files are copied."""
READ_ONLY = """
mount -o remount,ro disk
$T run small.toml --out disk/run --resume 2>said-read-only; echo $? >>status
"""
REPETITIONS = 4


@pytest.mark.parametrize(
    ("small", "large", "limit", "between", "fills_in", "code"),
    [
        (SMALL.format("90k"), LARGE, "", READ_ONLY, "trials", "system.enospc"),
        pytest.param(
            SMALL.format("220k"), LARGE, "", "", "the summary", "system.enospc", marks=pytest.mark.thorough
        ),
        # 64 KiB a file, in the units of sh.
        (SMALL.format("100m"), LARGE, "ulimit -f 128;", "", "trials", "system.efbig"),
        # How much a quota has left depends on when the file system last wrote to its disk.
        (QUOTA.format("330k"), NO_QUOTA, "", "", "either", "system.edquot"),
    ],
    ids=["a full disk", "a disk that the summary fills", "a limit on files", "a quota"],
)
def test_a_run_that_finds_no_room_keeps_its_trials_and_is_resumed(
    small: str, large: str, limit: str, between: str, fills_in: str, code: str, here: Path
) -> None:
    (here / "small.toml").write_text(STUDY.replace("repetitions = 1", f"repetitions = {REPETITIONS}"))
    (here / "disk").mkdir()
    script = ON_A_SMALL_DISK.format(small=small, large=large, limit=limit, between=between)
    (here / "script").write_text(f'T="{" ".join(PROGRAM)}"\n{script}')
    unshare = "unshare --mount" if os.geteuid() == 0 else "unshare --map-root-user --mount"
    ended = shell(f"{unshare} sh script", here)
    if not (here / "status").exists():
        pytest.skip(f"no disk can be mounted here: {ended.stderr}")
    said = (here / "said").read_text()
    assert (here / "status").read_text() == ("1\n1\n" if between else "1\n"), said
    assert codes_printed(said) == [code] and "thunderherd: disk/run/" in said, said
    assert "resume: thunderherd run" in said and "Traceback" not in said
    assert ("--resume continues a run" in said) == (code != "system.efbig")
    if between:
        refused = (here / "said-read-only").read_text()
        assert codes_printed(refused) == ["system.erofs"] and "disk/run/trials.jsonl" in refused, refused
    kept = (here / "full/trials.jsonl").read_bytes().splitlines(keepends=True)
    whole = [line for line in kept if line.endswith(b"\n")]
    assert {json.loads(line)["kind"] for line in whole} == {"trial"}
    assert f"failed: {len(whole)} trials kept" in said
    assert fills_in == "either" or (len(whole) >= 2 * REPETITIONS) == (fills_in == "the summary")
    assert ended.returncode == 0, ended.stderr
    summary = json.loads((here / "resumed/summary.json").read_text())
    assert (here / "resumed/trials.jsonl").read_bytes().startswith(b"".join(whole))
    assert summary["study"]["seed"] == 7 and summary["trials"]["valid"] == 2 * REPETITIONS
