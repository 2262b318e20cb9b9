"""Studies: TOML in, a frozen `Study` out."""
