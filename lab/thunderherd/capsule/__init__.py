"""A run in one file, for somebody who wants to check it: packing, checking, replaying, comparing."""
