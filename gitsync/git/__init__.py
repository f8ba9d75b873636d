"""Owner of Git: child processes for the network and the embedded host, pygit2 for objects.

Promise: nothing here runs a hook, a filter or any other program a repository names, nothing reads
the configuration of the user or the machine, and every child ends at a deadline of its own.
Modules: `remote` and `lsrefs` look at remotes, `mirror` fetches, `objects` and `commits` read,
`write` commits and pushes, `host` serves repositories; `child`, `lock`, `address`, `credentials`
are what they stand on and `failures` is how they fail.
"""
