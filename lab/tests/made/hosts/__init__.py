"""Hosts of tests: network namespaces of this machine, and SSH servers in them."""
