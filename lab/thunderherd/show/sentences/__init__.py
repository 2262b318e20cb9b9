"""Sentences that the terminal and the report share."""
