"""What the trials show: explanations, the summary, and verdicts on claims."""
