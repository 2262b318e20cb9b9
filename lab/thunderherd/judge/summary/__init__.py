"""The summary: trials in, `summary.json` out."""
