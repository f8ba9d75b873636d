"""Random rollouts, checked and really imported: the two must not contradict each other.

`run_generated(count, seed)` is the whole interface: `make torture` asks it for 50,000 programs.
"""

from tests.check.generated.compare import Tally, run_generated

__all__ = ["Tally", "run_generated"]
