"""Outputs of load generators, as these programs printed them."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from made.damage.corpus import CORPUS

from thunderherd.engine.outputs.parsers import PARSERS, LoadGeneratorOutput, UnreadableError, parsed

RECORDED = Path(__file__).parents[1] / "data" / "clients"
READ: dict[str, tuple[int | None, int, float, dict[str, float]]] = {
    "wrk": (103_303, 0, 1.0948, {"mean": 3.23e-3, "maximum": 73.14e-3, "p50": 58e-6, "p90": 4.01e-3}),
    "wrk-404": (42_968, 42_968, 1.0028, {"p99": 6.73e-3}),
    "wrk-closes": (50_315, 1024, 1.01, {"mean": 0.91e-3}),
    "ab": (126_466, 0, 1.0, {"mean": 0.127e-3}),
    "hey": (36_407, 0, 1.0006, {"maximum": 69.4e-3}),
    "hey-404": (0, 51_205, 1.0024, {}),
    "h2load": (76_375, 0, 1.0, {"mean": 190e-6, "maximum": 52.39e-3}),
    "h2load-404": (0, 36_906, 1.0, {}),
    "wrk2": (3918, 0, 2.0006, {"mean": 833.12e-6, "maximum": 8.63e-3, "p50": 750e-6, "p999": 6.77e-3}),
    "wrk2-404": (3933, 3933, 2.0006, {}),
    "oha": (135_219, 0, 1.00568, {"mean": 117.28e-6, "maximum": 13.128e-3, "p50": 82.4e-6, "p999": 3.398e-3}),
    "oha-404": (0, 146_176, 1.0047, {}),
    "oha-refused": (0, 5, 0.00299, {}),
    "vegeta": (2000, 0, 0.99881, {"mean": 315.4e-6, "p50": 128.6e-6, "p99": 8.645e-3, "maximum": 11.61e-3}),
    "vegeta-404": (0, 41_618, 1.00006, {}),
    "vegeta-refused": (0, 96, 1.00428, {}),
    "iperf3": (None, 0, 1.000101, {}),
    "iperf3-reverse": (None, 0, 1.047125, {}),
    "iperf3-two": (None, 0, 1.001966, {}),
    "netperf": (168_736, 0, 1.0, {"mean": 5.89e-6, "maximum": 24.183e-3}),
    "netperf-crr": (40_902, 0, 1.0, {"mean": 24.41e-6}),
    "netperf-stream": (None, 0, 1.0, {}),
    "netperf-maerts": (None, 0, 1.0, {}),
    "neper": (
        136_360,
        0,
        1.02633,
        {"mean": 7.306e-6, "maximum": 66.507e-3, "p50": 6.47e-6, "p999": 37.75e-6},
    ),
    "neper-crr": (18_949, 0, 0.73374, {"mean": 43.637e-6}),
    "neper-stream": (None, 0, 1.0, {}),
    "sockperf": (172_281, 0, 1.04189, {"mean": 6.027e-6, "p50": 4.479e-6, "p999": 32.352e-6}),
    "sockperf-half": (139_136, 0, 1.09557, {"mean": 7.838e-6, "maximum": 29.149e-3}),
    "sockperf-throughput": (None, 0, 1.0, {}),
    "sockperf-under_load": (10, 0, 0.794, {"p90": 34.556e-6}),
}
"""Output → requests, errors, seconds and some latencies."""
MOVED = {
    "iperf3": (553_149_440, "to_server"),
    "iperf3-reverse": (137_756_672, "to_clients"),
    "iperf3-two": (1_949_040_640, "to_server"),
    "netperf-stream": (1_039_580_000, "to_server"),
    "netperf-maerts": (2_869_021_250, "to_clients"),
    "neper-stream": (2_552_432_644, "to_server"),
    "sockperf-throughput": (1_754_591_658, "to_server"),
}
"""Output of a stream → its bytes and their direction."""


@pytest.mark.parametrize("name", READ)
def test_an_output_is_read(name: str) -> None:
    requests, errors, seconds, latency = READ[name]
    found = parsed(name.partition("-")[0], (RECORDED / f"{name}.txt").read_text())
    assert (found.requests, found.errors) == (requests, errors)
    assert found.seconds == pytest.approx(seconds, rel=1e-3)
    assert {each: found.latency[each] for each in latency} == pytest.approx(latency, rel=1e-3)
    assert found.starts == ("intended" if name.startswith("wrk2") else "sent")


@pytest.mark.parametrize(
    ("name", "kept"), [("ab", {"mean"}), ("hey", {"maximum"}), ("netperf", {"mean", "maximum"})]
)
def test_coarsely_rounded_latencies_are_left_out(name: str, kept: set[str]) -> None:
    """hey rounds all to 0.1 ms, ab its percentiles to 1 ms, netperf its own to 1 us."""
    assert parsed(name, (RECORDED / f"{name}.txt").read_text()).latency.keys() == kept


@pytest.mark.parametrize("name", MOVED)
def test_a_stream_has_bytes_and_a_direction_instead_of_requests(name: str) -> None:
    read = parsed(name.partition("-")[0], (RECORDED / f"{name}.txt").read_text())
    assert (read.bytes, read.direction) == MOVED[name] and read.requests is None and not read.latency


@pytest.mark.parametrize("name", ["iperf3-bidir", "iperf3-udp", "iperf3-refused"])
def test_a_test_that_is_no_tcp_stream_in_one_direction_is_refused(name: str) -> None:
    with pytest.raises(UnreadableError):
        parsed("iperf3", (RECORDED / f"{name}.txt").read_text())


def test_bytes_are_those_that_the_program_counts_exactly() -> None:
    read = {
        name: parsed(name, (RECORDED / f"{name}.txt").read_text()).bytes for name in ("wrk", "ab", "h2load")
    }
    assert read == {"wrk": None, "ab": 519_142_930, "h2load": 313_519_375}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("output", ["", "\n", "garbage 12 %", "\0" * 100, "{", "[" * 100_000, "[]", "{}"])
def test_garbage_is_not_read(parser: str, output: str) -> None:
    with pytest.raises(UnreadableError):
        parsed(parser, output)


MANY = 1 << 20
HOSTILE = {
    "blank lines": "\n" * MANY,
    "spaces": " " * MANY,
    "digits": "9" * MANY,
    "dots": "1." * (MANY // 2),
    "brackets": "[1" * (MANY // 2),
    "a number of 5,000 digits": "9" * 5000,
    "bytes": "".join(map(chr, range(256))) * 100,
}


@pytest.mark.parametrize("parser", PARSERS)
@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_output_is_refused_soon(parser: str, what: str) -> None:
    """A pattern that looks at each part of a mebibyte more than once would take hours."""
    with pytest.raises(UnreadableError):
        parsed(parser, HOSTILE[what])


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 400, "1.2.3", "..", "1e999", "NaN", "-1", "٣"])
def test_a_number_that_is_none_is_refused_or_left_out(name: str, digits: str) -> None:
    text = (RECORDED / f"{name}.txt").read_text()
    for found in list(re.finditer(r"[0-9.]+", text))[:200]:
        changed = text[: found.start()] + digits + text[found.end() :]
        with contextlib.suppress(UnreadableError):
            read = parsed(name.partition("-")[0], changed)
            assert all(
                0 <= each <= 1e18 for each in (read.requests or 0, read.errors, *read.latency.values())
            )


@pytest.mark.parametrize("name", READ)
def test_each_beginning_of_an_output_is_refused_or_read(name: str) -> None:
    text = (RECORDED / f"{name}.txt").read_text()
    whole = parsed(name.partition("-")[0], text)
    for length in range(0, len(text), 7):
        try:
            found = parsed(name.partition("-")[0], text[:length])
        except UnreadableError:
            continue
        assert (found.requests or 0) <= (whole.requests or 0)


@pytest.mark.fuzz(examples_a_second=1200)
@given(
    name=some.sampled_from(sorted(READ)),
    garbage=some.text(max_size=60),
    place=some.floats(0, 1),
    more=some.data(),
)
def test_random_damage_is_refused_or_read_within_bounds(
    name: str, garbage: str, place: float, more: some.DataObject
) -> None:
    text = (RECORDED / f"{name}.txt").read_text()
    at = int(place * len(text))
    changed = text[:at] + garbage + text[at + more.draw(some.integers(0, 200)) :]
    with contextlib.suppress(UnreadableError):
        is_within_bounds(parsed(name.partition("-")[0], changed))


def is_within_bounds(read: LoadGeneratorOutput) -> None:
    assert 0 < read.seconds < 1e18
    amounts = (read.requests or 0, read.errors, read.bytes or 0, *read.latency.values())
    assert all(0 <= each <= 1e18 for each in amounts)


@pytest.mark.parametrize("path", sorted(CORPUS.joinpath("outputs").iterdir()), ids=lambda path: path.stem)
def test_a_kept_damaged_output_is_refused_or_read_within_bounds(path: Path) -> None:
    with contextlib.suppress(UnreadableError):
        is_within_bounds(parsed(path.stem.partition("-")[0], path.read_text()))


def test_a_line_of_json_has_counts_and_seconds() -> None:
    line = {"requests": 5, "errors": 1, "seconds": 0.5, "bytes": 10, "p99": 0.01}
    found = parsed("json", f"{json.dumps(line)}\n")
    assert found == LoadGeneratorOutput(5, 1, 0.5, 10, {"p99": 0.01})


@pytest.mark.parametrize(
    "change",
    [
        {"requests": None}, {"requests": -1}, {"requests": 1.5}, {"requests": True}, {"errors": "0"},
        {"seconds": 0}, {"seconds": float("nan")}, {"seconds": float("inf")}, {"requests": 10**30},
        {"p99": -1}, {"other": 1}, {"p50": 0.2, "p99": 0.1}, {"p90": 0.2, "maximum": 0.1},
    ],
)  # fmt: skip
def test_a_line_of_json_with_another_value_is_refused(change: dict[str, object]) -> None:
    line = {"requests": 5, "errors": 0, "seconds": 0.5, **change}
    with pytest.raises(UnreadableError):
        parsed("json", json.dumps(line))


def test_a_line_of_json_with_a_direction_is_a_stream() -> None:
    line = {"errors": 0, "seconds": 0.5, "bytes": 10, "direction": "to_clients"}
    found = parsed("json", json.dumps(line))
    assert found == LoadGeneratorOutput(None, 0, 0.5, 10, direction="to_clients")
    assert parsed("json", json.dumps({**line, "requests": 3})).requests == 3
    for change in ({"direction": "up"}, {"direction": None}, {"direction": []}, {"bytes": None}):
        with pytest.raises(UnreadableError):
            parsed("json", json.dumps({**line, **change}))


def test_two_lines_of_json_are_refused() -> None:
    line = json.dumps({"requests": 5, "errors": 0, "seconds": 0.5})
    with pytest.raises(UnreadableError):
        parsed("json", f"{line}\n{line}\n")
