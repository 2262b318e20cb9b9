"""Results for readers: report, charts, tables and sentences, all from `summary.json`."""
