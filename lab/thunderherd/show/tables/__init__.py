"""Tables: one model, its builders, and the formats of files."""
