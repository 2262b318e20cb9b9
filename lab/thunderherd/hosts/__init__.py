"""Several machines: an agent on each, started over SSH, and Dask between them.

Dask (`distributed`) encrypts, carries calls, and notices what is lost. It is an optional dependency,
`thunderherd[cluster]`: only `agent` and `cluster` import it.
"""
