"""Random rollouts, checked and really imported: the two must not contradict each other."""
