"""Which of two contenders is ahead at a size, and how often they change places over a range of sizes."""

from __future__ import annotations

from typing import Literal

Standing = Literal["a", "b", "equivalent", "undecided"]
"""What is shown at one size: which contender is ahead, that both are equivalent, or nothing."""

Outcome = Literal["one", "several", "everywhere", "where_separated", "nowhere_separated"]
"""What all sizes together show.

In the order of the names: one crossing; several; one contender ahead at every size; one ahead at some sizes
and the other at none; neither ahead at any.
"""
