"""gitsync: Git Sync and workspace templates for reinforcement-learning rollouts.

Rooms, from the inside out: `model`, `errors`, `settings`, `tree`, `text` are plain values; `git`,
`check`, `template`, `store`, `artifacts`, `forge` each own one outside thing; `sync`, `pool` and
the other stories use the owners; `web`, `engine`, `cli` are the doors.
"""

__version__ = "0.1.0"
