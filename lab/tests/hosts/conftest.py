"""The network of these tests."""

from __future__ import annotations

from made.hosts.network import network

__all__ = ["network"]
