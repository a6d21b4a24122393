"""The processes that share one training; usually there is only one."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Team:
    """This process among those that share a training.

    Attributes:
        rank: which one this is, from 0.
        size: how many there are.
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.rank == 0

    def part(self, count: int) -> slice:
        """Return this process's part of ``count`` samples; parts differ by at most one and may be empty.

        Example:
            >>> [Team(rank, 3).part(7) for rank in range(3)]
            [slice(0, 3, None), slice(3, 5, None), slice(5, 7, None)]
        """
        each, more = divmod(count, self.size)
        start = self.rank * each + min(self.rank, more)
        return slice(start, start + each + (self.rank < more))

    def wrap(self, model: torch.nn.Module) -> torch.nn.Module:
        """Return a model whose gradients are the mean over the team; a single process needs none."""
        if self.size == 1:
            return model
        return torch.nn.parallel.DistributedDataParallel(model)

    def total(self, *values: float | torch.Tensor, device: torch.device) -> list[float]:
        """Sum each value over the team."""
        if self.size == 1:
            return [float(value) for value in values]
        summed = torch.tensor([float(value) for value in values], dtype=torch.float64, device=device)
        torch.distributed.all_reduce(summed)
        return summed.tolist()

    def agree(self, model: torch.nn.Module) -> None:
        """Give all processes the buffers of the first: running statistics are each process's own."""
        if self.size > 1:
            for buffer in model.buffers():
                torch.distributed.broadcast(buffer, src=0)
