"""Loads of several processes, on one machine or on many, merged from the results of each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from made.refusals import codes_printed, refused
from rich.console import Console

import thunderherd
from thunderherd.cli import main
from thunderherd.engine import client
from thunderherd.engine.lines import Closings, LoadResult
from thunderherd.engine.merged_loads import ARRIVALS, load_lines, merged_loads
from thunderherd.show.terminal.merged import notes, print_merged
from thunderherd.statistics.histograms import merged as histograms_merged

# Seconds: loads that start together overlap for most of it, on a busy machine, too.
WINDOW = 4


def load(address: str, file: Path, *words: str, workload: str = "bytes") -> subprocess.Popen[bytes]:
    """One load process, as a user on some host starts it."""
    command = [sys.executable, "-m", "thunderherd", "load", workload, "--connect", address, "--json", *words]
    with file.open("w") as output:
        return subprocess.Popen(command, stdout=output)


@pytest.fixture(scope="module")
def files(real_engine: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two simultaneous open loads, of 300 and 500 requests per second with two seeds; then a closed load."""
    folder = tmp_path_factory.mktemp("loads")
    found = [folder / name for name in ("one.jsonl", "other.jsonl", "closed.jsonl")]
    with pytest.MonkeyPatch.context() as patch, client.Server("epoll", workload="bytes") as server:
        patch.setenv("THUNDERHERD_ENGINE", str(real_engine))
        common = ("--load", "open", "--duration", f"{WINDOW}s", "--clients", "8", "--bytes", "9")
        together = [
            load(server.ready.address, found[0], *common, "--rate", "300"),
            load(server.ready.address, found[1], *common, "--rate", "500", "--arrival-seed", "2"),
        ]
        for each in together:
            each.wait(60)
        load(server.ready.address, found[2], "--load", "closed_connections", "--loops", "20").wait(60)
    return found


def test_a_damaged_histogram_is_refused_with_its_line(files: list[Path], tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text(re.sub('HISTFA[^"]*', "HISTFAAAA", files[0].read_text()))
    (problem,) = refused(load_lines, bad)
    assert problem.code == "merge.damaged" and re.fullmatch(rf"{bad}:\d+", problem.where)


def test_counts_are_added_and_percentiles_are_of_all(files: list[Path]) -> None:
    one, other = (load_lines(file)[0] for file in files[:2])
    both = thunderherd.merged(*files[:2])
    assert one.scheduled and other.scheduled and both.scheduled and one.window and other.window
    assert both.loads == 2 and both.scheduled.offered_per_second == 800
    assert both.scheduled.due == one.scheduled.due + other.scheduled.due
    assert both.requests == one.window.requests + other.window.requests
    assert both.per_second == pytest.approx(
        one.scheduled.achieved_per_second + other.scheduled.achieved_per_second, rel=1e-6
    )
    assert one.latency and other.latency and both.latency and both.latency.histogram
    assert both.latency.starts == "intended"
    assert both.latency.requests == one.latency.requests + other.latency.requests
    assert histograms_merged([both.latency.histogram]).total_count == both.latency.requests
    longest = max(one.latency.maximum_ns or 0, other.latency.maximum_ns or 0)
    assert both.latency.maximum_ns == pytest.approx(longest, rel=2e-3)
    assert both.latency.p50_ns is not None and both.latency.p999_ns is None
    ends = sorted(each.latency.p50_ns or 0 for each in (one, other) if each.latency)
    assert ends[0] <= both.latency.p50_ns <= ends[1] * 1.002
    assert one.closings and both.closings and both.closings.time_wait == ["load"]
    assert both.closings.closed_by_load == 2 * one.closings.closed_by_load > 0
    assert both.differing == {"arrival_seed": [1, 2], "rate": [300, 500]}
    assert not any("arrival_seed" in reason or reason.startswith("loads 1 ") for reason in both.reasons)


def moved(result: LoadResult, windows: float, **more: object) -> LoadResult:
    """The same so many windows later."""
    seconds = windows * WINDOW
    edges = ("started_monotonic_ns", "ended_monotonic_ns")
    of_all = {edge: getattr(result, edge) + int(seconds * 1e9) for edge in edges}
    window = result.window
    if window is not None:
        window = window.model_copy(update={e: getattr(window, e) + int(seconds * 1e9) for e in edges})
    return result.model_copy(update={**of_all, "window": window, **more})


def test_times_to_connect_are_those_of_all_loads(files: list[Path]) -> None:
    (closed,) = load_lines(files[2])
    both = merged_loads([closed, moved(closed, 9)])
    assert closed.connecting and both.connecting
    assert both.connecting.requests == 2 * closed.connecting.requests == 2 * closed.tally.connections > 0
    assert both.connecting.p50_ns == pytest.approx(closed.connecting.p50_ns, rel=2e-3)


def test_a_load_has_the_boot_id_of_its_machine(files: list[Path]) -> None:
    (found,) = load_lines(files[0])
    assert found.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_loads_of_one_machine_that_ran_one_after_another_are_not_added(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (one,) = load_lines(files[0])

    def told(*others: LoadResult) -> list[str]:
        found = merged_loads([one, *others])
        return [reason for reason in found.reasons if "the same time" in reason and found.valid is False]

    def figures(reason: str) -> list[str]:
        """The numbers of the loads, and the share in which they overlap."""
        return re.findall(r"\d+%?", reason)

    (apart,) = told(moved(one, 1.5))
    assert figures(apart) == ["1", "2", "0%"] and "--duration" in apart
    assert told(moved(one, 0.4)) == []
    by_count = one.model_copy(update={"window": None})
    (apart,) = [each for each in merged_loads([by_count, moved(by_count, 9)]).reasons if "overlap" in each]
    assert "--duration" not in apart, "a load that ends by count has no such option"
    assert figures(told(moved(one, 0.58))[0]) == ["1", "2", "42%"]
    assert figures(told(moved(one, 0.58), moved(one, 1.25))[0]) == ["1", "2", "3", "0%", "1", "3"]
    elsewhere = [moved(one, 1.5, boot_id=other) for other in (None, "another")]
    assert told(*elsewhere) == [], "their clocks cannot be compared"
    assert len(told(moved(one, 1.5), *(moved(one, at, boot_id="another") for at in (5, 9)))) == 2
    # Without windows all of a load counts.
    (closed,) = load_lines(files[2])
    assert figures(merged_loads([closed, moved(closed, 9)]).reasons[0]) == ["1", "2", "0%"]

    (tmp_path / "later.jsonl").write_text(moved(one, 1.5).model_dump_json(by_alias=True))
    assert main.run_command(["merge", str(files[0]), str(tmp_path / "later.jsonl")]) == 1
    said = capsys.readouterr().out
    assert said.index("Not valid") < said.index("overlap")


def test_replies_of_each_status_are_added(real_engine: Path, tmp_path: Path) -> None:
    found = []
    with client.Server("epoll", workload="http") as server:
        for number, mix in enumerate(("GET:/@1,GET=404:/missing@1", "GET:/@1")):
            file = tmp_path / f"{number}.jsonl"
            words = ("--load", "closed_connections", "--loops", "50", "--expect", "404", "--mix", mix)
            load(server.ready.address, file, *words, workload="http").wait(60)
            found += load_lines(file)
    both = merged_loads(found)
    assert set(both.statuses) == {"200", "404"}
    for status, merged in both.statuses.items():
        parts = [each.statuses[status] for each in found if status in each.statuses]
        assert merged.replies == sum(each.replies for each in parts) > 0
        assert merged.errors == (merged.replies if status == "200" else 0)
        assert merged.latency and merged.latency.requests == merged.replies
    assert both.errors == {"error_status": both.statuses["200"].replies}
    console = Console(width=100, file=StringIO())
    print_merged(both, console)
    page = console.file.getvalue()  # type: ignore[attr-defined]
    for status, replies in both.statuses.items():
        assert re.search(rf"{replies.replies:,} +{status}\b", page), page


def test_closings_are_added_and_time_wait_follows_from_the_counts() -> None:
    counts = {name: place for place, name in enumerate(Closings.model_fields, start=1)}
    both = Closings.together([Closings(**counts)] * 2)
    assert both.model_dump() == {name: 2 * count for name, count in counts.items()} | {
        "time_wait": ["load", "server"]
    }
    said = {"closed_by_load": 0, "time_wait": ["load"]}
    assert Closings.model_validate({**both.model_dump(), **said}).time_wait == ["server"], "by the counts"


def test_ends_that_keep_connections_are_listed_with_their_shares(files: list[Path]) -> None:
    found = merged_loads(load_lines(files[0]))
    assert found.closings is not None
    for at_server, shares in ((1, []), (1000, ["50 %", "clients", "50 %", "server"])):
        own = found.closings.model_copy(update={"closed_by_load": 1000, "closed_by_server": at_server})
        told = notes(found.model_copy(update={"closings": own}))
        lines = [each for each in told if "TIME_WAIT" in each]
        assert re.findall(r"\d+ %|clients|server", " ".join(lines)) == shares


def test_loads_with_the_same_arrival_seed_are_invalid(files: list[Path]) -> None:
    (load,) = load_lines(files[0])
    twice = merged_loads([load, load.model_copy(update={"started_monotonic_ns": 1})])
    assert any("--arrival-seed" in reason for reason in twice.reasons)


def test_the_same_load_is_taken_once(files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run_command(["merge", str(files[2]), str(files[0]), str(files[2])]) == 2
    assert codes_printed(capsys.readouterr().err) == ["merge.different_loads"]
    assert main.run_command(["merge", str(files[2]), str(files[2])]) == 2
    assert codes_printed(capsys.readouterr().err) == ["merge.repeated"]


def test_loads_with_the_same_requests_are_reported(files: list[Path]) -> None:
    line = json.loads(files[0].read_text().splitlines()[-1])

    def reasons(*settings: dict[str, object], traffic: bool = False) -> str:
        asked = {"seed": 1, "requests": 5} if traffic else None
        made = [
            {**line, "settings": {**line["settings"], **each}, "traffic": asked, "started_monotonic_ns": at}
            for at, each in enumerate(settings)
        ]
        return " ".join(merged_loads([LoadResult.model_validate(each) for each in made]).reasons)

    even = {"arrivals": "constant", "arrival_seed": 1}
    assert f" {ARRIVALS} " in reasons(even, {**even, "arrival_seed": 2})
    assert f" {ARRIVALS} " not in reasons(even, {**even, "rate": 301})
    recorded = {"arrivals": "recorded", "recording": "/a.csv"}
    assert f" {ARRIVALS} " in reasons(recorded, recorded)
    assert f" {ARRIVALS} " not in reasons(recorded, {**recorded, "recording": "/b.csv"})
    assert "--request-seed" in reasons({"arrival_seed": 1}, {"arrival_seed": 2}, traffic=True)
    assert "--request-seed" not in reasons({"request_seed": 1}, {"request_seed": 2}, traffic=True)
    assert "--request-seed" not in reasons({}, {}), "all of them are alike"


def test_one_invalid_load_makes_the_merged_load_invalid(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.loads(files[0].read_text().splitlines()[-1])
    line["validity"]["valid"] = False
    line["validity"]["checks"] = [
        {"name": "send_lag", "value": 9.0, "limit": 1.0, "holds": False, "words": "late"}
    ]
    line["tally"]["errors"] = {"reset": 3}
    (tmp_path / "bad.jsonl").write_text(json.dumps(line) + "\n")
    assert main.run_command(["merge", str(files[1]), str(tmp_path / "bad.jsonl")]) == 1
    said = capsys.readouterr().out
    assert "Not valid" in said and "load 2: send_lag: late" in said and "  3 reset" in said
    assert main.run_command(["merge", "--json", str(files[1]), str(tmp_path / "bad.jsonl")]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["valid"] is False and found["errors"] == {"reset": 3}
    assert found["latency"]["from"] == "intended"


@pytest.mark.parametrize("check", ["cut_window", "gave_up"])
def test_clients_that_gave_up_leave_no_merged_rate(
    check: str, files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = json.loads(files[0].read_text().splitlines()[-1])
    line["validity"]["valid"] = False
    line["validity"]["checks"] = [
        {"name": check, "value": 0.5, "limit": 0.0, "holds": False, "words": "gave up"}
    ]
    (tmp_path / "cut.jsonl").write_text(json.dumps(line) + "\n")
    words = [str(files[1]), str(tmp_path / "cut.jsonl")]
    assert main.run_command(["merge", "--json", *words]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["per_second"] is found["received"]["bytes_per_second"] is None
    assert main.run_command(["merge", *words]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert "per second" not in printed[0]
    rows = [each.split() for each in printed if each.startswith(("Requests", "Transfer"))]
    assert [row[2 if row[0] == "Requests" else 3] for row in rows] == ["-", "-"]


def test_merged_closed_loads_have_no_schedule(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = json.loads(files[2].read_text().splitlines()[-1]) | {"boot_id": "of another machine"}
    (tmp_path / "other.jsonl").write_text(json.dumps(other))
    assert main.run_command(["merge", str(files[2]), str(tmp_path / "other.jsonl")]) == 0
    said = capsys.readouterr().out
    facts = re.findall(r"\d+|closed_connections|bytes", said)
    assert facts[:4] == ["2", "bytes", "closed_connections", "160"]
    rows = {line.split()[0]: line for line in said.splitlines() if line}
    assert "since sent" in rows["Latency"] and "Due" not in rows and "Lag" not in rows
    p50, *far, largest = re.findall(r"[\d.]+ \S?s\b|-", rows["Latency"].partition("since")[0])
    assert "-" in far and "-" not in (p50, largest), "a maximum is of 100 requests"
    received = sum(json.loads(text)["tally"]["bytes_received"] for text in (files[2].read_text(),) * 2)
    assert f"{received / 1000:.3g} kB" in rows["Transfer"]
    assert main.run_command(["merge", str(files[2])]) == 0
    (alone,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Latency")]
    assert alone.count(" - ") == 4, "of 80 requests only the median is known"


def test_loads_of_different_kinds_and_bad_files_are_refused(files: list[Path], tmp_path: Path) -> None:
    (problem,) = refused(thunderherd.merged, files[0], files[2])
    assert problem.code == "merge.different_loads" and "closed_connections and open" in problem.message
    (problem,) = refused(thunderherd.merged, tmp_path / "none")
    assert (problem.code, problem.where) == ("merge.unreadable", str(tmp_path / "none"))
    for text, code, place in (
        ("", "merge.no_load", ""),
        ('{"line": "mark"}\n', "merge.no_load", ""),
        ("{\n", "merge.not_json", ":1"),
        ('[]\n{"line": "load"}\n', "merge.other_version", ":2"),
        ("\x00\xff", "merge.not_text", ""),
    ):
        (tmp_path / "file").write_bytes(text.encode("latin-1"))
        (problem,) = refused(load_lines, tmp_path / "file")
        assert (problem.code, problem.where) == (code, f"{tmp_path / 'file'}{place}")
