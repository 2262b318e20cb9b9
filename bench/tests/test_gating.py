"""`git bisect run` with the gate finds the slower commit of a repository, and skips what does not build."""

from __future__ import annotations

import pytest
from started import bench


@pytest.mark.alone("each gate has some seconds for a verdict, which other programs on the CPUs delay")
@pytest.mark.usefixtures("use_engine")
def test_git_bisect_finds_the_slower_commit() -> None:
    printed = bench("gate", "--gates", "0", "--bisects", "1")
    assert "bisects: 1 of a repository of 40 commits: 1 found" in printed, printed
