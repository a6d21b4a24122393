"""M16 of the self-test alone: retraining on a table of which four of sixteen columns are informative.

Prints the mean area of each order over five seeds, and which links of the known order hold. Smaller areas are better
for an order that removes what matters first.
"""

from __future__ import annotations

import time

from _common import Record, environment, parser

from roadworthy.evaluation.selftest.tabular import tabular


def main() -> None:
    """Print and keep what the test says."""
    options = parser((__doc__ or "").splitlines()[0])
    chosen = options.parse_args()
    record, began = Record("tabular_truth"), time.process_time()
    record.line(environment("roadworthy", "torch", "numpy"))
    found = tabular()
    record.line(f"links that hold: {found.measured:g} of 4; passed: {found.passed}")
    record.line(found.note)
    record.line(f"20,000 rows, seeds 0 to 4; {time.process_time() - began:.0f} CPU seconds")
    if chosen.save:
        record.save()


if __name__ == "__main__":
    main()
