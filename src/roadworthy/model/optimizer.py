"""SGD with the weight decay where a recipe wants it."""

from __future__ import annotations

import torch

from roadworthy.errors import ModelError
from roadworthy.model.recipe import Recipe

_NORMS = (
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.GroupNorm,
    torch.nn.LayerNorm,
    torch.nn.RMSNorm,
    torch.nn.LocalResponseNorm,
)


def sgd(model: torch.nn.Module, recipe: Recipe) -> torch.optim.SGD:
    """Return the optimiser for the parameters that require gradients.

    Raises:
        ModelError: there are none.
    """
    norms = {id(p) for part in model.modules() if isinstance(part, _NORMS) for p in part.parameters(recurse=False)}
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ModelError(f"fit: {type(model).__name__} has no parameters that require gradients")
    decays = [id(p) not in norms and (p.ndim > 1 or recipe.decay_biases) for p in trained]
    groups = [
        {"params": [p for p, yes in zip(trained, decays, strict=True) if yes], "weight_decay": recipe.weight_decay},
        {"params": [p for p, yes in zip(trained, decays, strict=True) if not yes], "weight_decay": 0.0},
    ]
    return torch.optim.SGD(
        [group for group in groups if group["params"]],
        lr=recipe.peak_rate,
        momentum=recipe.momentum,
        nesterov=recipe.nesterov and recipe.momentum > 0,
    )
