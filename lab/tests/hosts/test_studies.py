"""Bundled studies across hosts: their results have the shape that they have on one machine."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from made.hosts.bundled import SHORT, run_bundled
from made.hosts.network import Network

from thunderherd.records.summary import Summary
from thunderherd.show.tables.by_name import all_tables

VARYING = ("noise", "counters")
"""Tables that leave out contenders without a valid trial, which a busy machine makes."""


def shape(summary: Summary) -> dict[str, tuple[Sequence[str], int]]:
    """Return the heads of each table without units, which depend on figures, and the number of its rows."""
    return {
        f"{each.name} {number}": (
            [re.sub(r" \([^)]*\)$", "", column.head) for column in table.columns],
            len(table.rows),
        )
        for each in all_tables(summary)
        for number, table in enumerate(each.tables())
        if each.name not in VARYING
    }


@pytest.mark.usefixtures("use_engine")
@pytest.mark.parametrize("study", SHORT)
def test_a_study_across_hosts_has_the_shape_of_one_on_one_machine(
    study: str, network: Network, tmp_path: Path
) -> None:
    server, load_host, _ = network.names
    there = run_bundled(
        study, tmp_path / "hosts", "--server", f"netns:{server}", "--load", f"netns:{load_host}"
    )
    here = run_bundled(study, tmp_path / "here", "--lab", "loopback")
    assert there.summary is not None and here.summary is not None
    assert [each.name for each in there.summary.contenders] == [each.name for each in here.summary.contenders]
    assert shape(there.summary) == shape(here.summary)
    # A sweep over kinds of lab keeps them.
    frame = there.frame()
    assert frame.columns == here.frame().columns
    assert set(frame["server_host"]) - {None} == {f"netns:{server}"}
    assert set(frame["load_hosts"]) - {None} == {f"netns:{load_host}"}
    assert set(here.frame()["server_host"]) == {None}
