"""Judgements on the trials: explanations, the summary, and verdicts on claims."""
