"""The class scores in whatever a model returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from roadworthy.errors import ModelError
from roadworthy.hints import scores_hint
from roadworthy.types import Output


def extract_logits(returned: Any, output: Output = None) -> torch.Tensor:
    """Find the class scores in what a model returned.

    Args:
        returned: a tensor or array, a mapping or an object with ``logits``, or a tuple.
        output: how to pick: a position, a key or attribute, or a callable. None takes a bare tensor or
            ``logits``.

    Returns:
        The tensor (N, K).

    Raises:
        ModelError: naming what came back and the option to set.

    Example:
        >>> extract_logits({"logits": torch.zeros(2, 3)}).shape
        torch.Size([2, 3])
    """
    picked = _logits_in(returned) if output is None else _pick(returned, output)
    if isinstance(picked, np.ndarray):
        picked = torch.from_numpy(np.ascontiguousarray(picked))
    if not isinstance(picked, torch.Tensor):
        which = "" if output is None else f", of which output={output!r} picks {_describe(picked)}"
        raise ModelError(
            f"The model returned {_describe(returned)}{which}; expected a tensor (N, classes), or a mapping or "
            "object with 'logits'. Pass output= a position, a key or a callable that picks the class scores, or a "
            "model that returns these alone."
        )
    if picked.is_complex() or picked.is_sparse:
        raise ModelError(
            f"The model's class scores are {picked.dtype}, {picked.layout}; expected real numbers, dense"
        )
    if picked.ndim != 2 or picked.shape[1] < 2:
        raise ModelError(
            f"The model's class scores have shape {tuple(picked.shape)}; expected (N, classes) with at least two "
            f"classes. Pass output= a callable that brings them to that form{scores_hint(tuple(picked.shape))}"
        )
    return picked


def _logits_in(returned: Any) -> Any:
    if isinstance(returned, (torch.Tensor, np.ndarray)):
        return returned
    if isinstance(returned, Mapping) and "logits" in returned:
        return returned["logits"]
    return getattr(returned, "logits", None)


def _pick(returned: Any, output: Output) -> Any:
    try:
        if callable(output):
            return output(returned)
        if isinstance(output, str) and not isinstance(returned, Mapping):
            return getattr(returned, output)
        return returned[output]
    except (LookupError, AttributeError, TypeError) as error:
        raise ModelError(
            f"output={output!r} finds nothing in what the model returned: {_describe(returned)} ({error})"
        ) from error


def _describe(returned: Any) -> str:
    if isinstance(returned, (torch.Tensor, np.ndarray)):
        return f"{'a tensor' if isinstance(returned, torch.Tensor) else 'an array'} {tuple(returned.shape)}"
    if isinstance(returned, Mapping):
        return f"a {type(returned).__name__} with keys {sorted(map(str, returned))}"
    if isinstance(returned, (tuple, list)):
        more = ", ..." if len(returned) > 4 else ""
        return f"a {type(returned).__name__} of {len(returned)}: {', '.join(map(_describe, returned[:4]))}{more}"
    return f"an object of type {type(returned).__name__}"
