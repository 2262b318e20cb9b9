"""Records of runs: made, kept in records/, and read for pages."""
