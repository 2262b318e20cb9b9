"""TOML files with line numbers, strict tables, and TOML text."""
