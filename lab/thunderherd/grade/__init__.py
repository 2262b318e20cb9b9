"""Grades of servers: the cases of conformance, and the cost against a reference, in points."""
