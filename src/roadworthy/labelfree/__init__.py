"""How far a classifier's predictions can be believed where there are no labels."""

from roadworthy.labelfree.outputs import Outputs

__all__ = ["Outputs"]
