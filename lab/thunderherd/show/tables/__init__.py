"""Tables: one model, and one writer for each medium."""
