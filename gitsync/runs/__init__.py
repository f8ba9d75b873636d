"""The story of a run: submitted against a published version, carried out by an executor.

`request` reads what a client submits, `ready` waits for the code version it names, `submit` checks
the rest and adds the run, `life` is what executors and people do with it.
"""
