"""The standing of two contenders at a size, and the pattern of standings over a range of sizes."""

from __future__ import annotations

from typing import Literal

Standing = Literal["a", "b", "equivalent", "undecided"]
"""The finding at one size: the contender that is ahead, equivalence, or nothing."""

Outcome = Literal["one", "several", "everywhere", "where_separated", "nowhere_separated"]
"""The finding over all sizes.

In the order of the names: one crossing; several; one contender ahead at every size; one ahead at some sizes
and the other at none; neither ahead at any.
"""
