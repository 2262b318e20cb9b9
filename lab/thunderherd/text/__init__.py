"""Figures, quantities and paragraphs as texts."""
