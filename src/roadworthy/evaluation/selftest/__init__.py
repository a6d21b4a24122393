"""Meta-tests: the tool tests its own strategies on cases whose right answer is known."""

from roadworthy.evaluation.selftest.record import Trial

__all__ = ["Trial"]
