"""The sync story: from a trigger to a published code version or a clear refusal.

`triggers` stores what asks for a look, `turn` does the work of one turn in the order of the design
(look, fetch, inspect, build, publish), `trace` says why a commit is live or not, `lines` what a
push prints. Everything here may run twice, and may be killed anywhere.
"""
