"""Conformance: a server as it was typed, run against the cases that any server of its workload must pass."""
