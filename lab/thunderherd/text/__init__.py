"""How figures, quantities and paragraphs are written."""
