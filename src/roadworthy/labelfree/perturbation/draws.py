"""Random draws for perturbations: every sample of a batch has its own stream, which goes on from pass to pass."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from roadworthy.rng import torch_generator


class Draws:
    """One stream a sample, so that neither batch size nor row order changes what a sample meets.

    The generators are made once for a batch and serve all its passes: that takes less time than one draw for the
    whole batch, since each row stays in the cache of the processor.

    Args:
        seed: the run's seed.
        purpose: what is drawn; different purposes are independent.
        ids: ids of the samples, one stream each.

    Attributes:
        used: how many times something was drawn.

    Example:
        >>> both, alone = Draws(0, "noise", ["a", "b"]), Draws(0, "noise", ["b"])
        >>> bool((both.normal(3)[1] == alone.normal(3)[0]).all())
        True
    """

    def __init__(self, seed: int, purpose: str, ids: Sequence[str]) -> None:
        self._generators = [torch_generator(seed, "labelfree", purpose, sample) for sample in ids]
        self._place: torch.Tensor | None = None
        self.used = 0

    def __len__(self) -> int:
        return len(self._generators)

    def normal(self, *shape: int, reuse: bool = False) -> torch.Tensor:
        """Draw standard normal values, float32 (N, *shape).

        With ``reuse`` they lie in one place in memory, which the next such call overwrites: to fill new memory of the
        size of a batch takes longer than the draw.
        """
        if reuse and (self._place is None or self._place.shape[1:] != shape):
            self._place = torch.empty(len(self), *shape)
        out = self._empty(shape) if not reuse or self._place is None else self._place
        self.used += reuse
        for row, generator in zip(out.unbind(0), self._generators, strict=True):
            row.normal_(generator=generator)
        return out

    def uniform(self, *shape: int) -> torch.Tensor:
        """Draw values from [0, 1), float32 (N, *shape)."""
        out = self._empty(shape)
        for row, generator in zip(out.unbind(0), self._generators, strict=True):
            row.uniform_(generator=generator)
        return out

    def signed(self, *shape: int) -> torch.Tensor:
        """Draw values from [-1, 1), float32 (N, *shape)."""
        return self.uniform(*shape).mul_(2).sub_(1)

    def seeds(self) -> list[int]:
        """Draw an integer for each sample, for a library that makes its own draws."""
        self.used += 1
        return [int(torch.randint(2**62, (1,), generator=generator)) for generator in self._generators]

    def _empty(self, shape: tuple[int, ...]) -> torch.Tensor:
        self.used += 1
        return torch.empty(len(self), *shape)
