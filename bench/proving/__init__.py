"""Proofs of the load generator: formulas, and the trials that are checked against them."""
