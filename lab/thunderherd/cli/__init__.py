"""The commands: one file each. Options in, one line on a mistake."""
