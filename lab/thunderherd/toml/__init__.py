"""TOML with line numbers, strict tables, and tables as text."""
