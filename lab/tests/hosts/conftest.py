"""The network of these tests."""

from __future__ import annotations

from made.hosts.dask_cluster import cluster_alone, others
from made.hosts.network import network

__all__ = ["cluster_alone", "network", "others"]
