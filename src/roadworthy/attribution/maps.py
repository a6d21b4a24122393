"""Maps in memory, by method, with what a result must state about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


class Maps(dict[str, np.ndarray]):
    """Attribution maps: method name -> float32 array (N, C, H, W) or (N, H, W), or the like for other kinds.

    Attributes:
        ids: N sample ids.
        targets: int64 (N,), the class each sample was explained for.
        info: for each method, its resolved settings and what it found out: ``"settings"``, numbers per sample such as
            ``"completeness_gap"`` (N,), and notes.
        run: what is true of all: settings in pixel units, seed, target, versions.

    Example:
        >>> maps = Maps({"random": np.zeros((2, 4, 4), np.float32)}, ids=["a", "b"], targets=np.array([0, 1]))
        >>> maps["random"].shape, maps.ids
        ((2, 4, 4), ['a', 'b'])
    """

    def __init__(
        self,
        maps: dict[str, np.ndarray],
        *,
        ids: Iterable[str],
        targets: np.ndarray,
        info: dict[str, dict[str, Any]] | None = None,
        run: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(maps)
        self.ids = list(ids)
        self.targets = targets
        self.info = info or {name: {} for name in maps}
        self.run = run or {}
