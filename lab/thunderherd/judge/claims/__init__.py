"""The claims of a source, judged by the figures of a run."""
