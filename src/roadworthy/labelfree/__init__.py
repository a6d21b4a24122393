"""How far a classifier's predictions can be believed where there are no labels."""

from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.saved import read_outputs, write_outputs

__all__ = ["Outputs", "read_outputs", "write_outputs"]
