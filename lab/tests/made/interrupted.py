"""A study that is interrupted."""

from __future__ import annotations

from made.small_studies import head

STUDY = (
    head("small", settings="children = 2, loops = 250, bytes = 4000")
    + """\
[sizes.quick]
repetitions = 1
[[contenders]]
name = "iterative"
design = "iterative"
[[contenders]]
name = "prefork"
design = "prefork"
"""
)
