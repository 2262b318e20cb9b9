"""Several machines: an agent on each, started over SSH or by somebody else, and Dask between them.

Dask (`distributed`) encrypts, carries calls, and notices what is lost. It is an optional dependency,
`thunderherd[cluster]`: only functions import it, after `labs/remote.py` has checked that it is installed.
"""
