"""What one meta-test found for one strategy."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Trial:
    """One meta-test of one strategy: what was measured, what a sound strategy gives, and whether it did.

    Attributes:
        id: the meta-test, such as ``"M1"`` or ``"M3a"``.
        strategy: the strategy tested.
        measured: the number that decides; NaN where it is undefined.
        expected: what it should be, in words: ``"at least 0.97"``.
        passed: whether it is; None where the test could not be held, or gives no verdict.
        note: anything a reader needs to read ``measured``, such as the interval or the seed that failed.
        n: samples per seed.
        seeds: the seeds it was run with.

    Example:
        >>> Trial("M6", "symmetric", 0.01, "at most 0.03", True, "", 300, (0, 1)).described()["passed"]
        True
    """

    id: str
    strategy: str
    measured: float
    expected: str
    passed: bool | None
    note: str = ""
    n: int = 0
    seeds: tuple[int, ...] = ()

    def described(self) -> dict[str, Any]:
        """Return the fields as a JSON-serialisable mapping; NaN as None."""
        found = asdict(self)
        found["measured"] = None if self.measured != self.measured else float(self.measured)
        found["seeds"] = list(self.seeds)
        return found


def within(value: float, half: float, bound: float) -> bool | None:
    """Judge a measured difference that should be 0.

    Args:
        value: the difference.
        half: half the width of its interval.
        bound: how far from 0 it may lie.

    Returns:
        True if it lies within the bound and its interval, no wider than the bound either side, holds 0. None, "cannot
        tell", if the interval is too wide to say. Else False: a wide interval does not pass for a small difference.

    Example:
        >>> within(0.01, 0.02, 0.03), within(0.02, 0.01, 0.03), within(0.01, 0.05, 0.03), within(0.2, 0.05, 0.03)
        (True, False, None, False)
    """
    if not half <= bound:
        return False if abs(value) - half > bound else None
    return bool(abs(value) <= bound and abs(value) <= half)
