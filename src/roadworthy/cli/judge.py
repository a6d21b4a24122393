"""The fine-tuned judge on the command line: made once a folder, with a progress bar, and kept for the next call."""

from __future__ import annotations

import copy
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.cli.console import bar

if TYPE_CHECKING:
    import torch

    from roadworthy.cli.attribute import Subject
    from roadworthy.evaluation import Strategy


def judge_for(subject: Subject, strategy: Strategy, folder: Path, seed: int) -> torch.nn.Module | None:
    """Return the copy of the model that a strategy asks, fine-tuned on random masks; None where it asks none.

    Its weights are kept in ``judge.safetensors``, and read from there as long as nothing they follow from changes.
    """
    if "fine-tuned" not in strategy.judges:
        return None
    from roadworthy.errors import ModelError
    from roadworthy.evaluation.finetune import judge_recipe, tuned_for
    from roadworthy.forward import Classifier
    from roadworthy.model.weights import load_weights, read_weights, write_weights

    path, key = folder / "judge.safetensors", _key(subject, strategy, seed)
    try:
        if read_weights(path)[1].get("key") == key:
            judge = copy.deepcopy(subject.model)
            load_weights(judge, path)
            return judge.eval()
    except (ModelError, OSError):
        pass  # not there, or damaged: it is made anew
    train = subject.data.train
    with bar(
        "fine-tuning a copy on random masks", total=judge_recipe(len(train)).timetable(len(train)).work
    ) as progress:
        judge = tuned_for(
            strategy, Classifier(subject.model), train, seed=seed, mean=subject.data.mean, progress=progress
        )
    write_weights(judge, path, {"key": key})
    return judge


def _key(subject: Subject, strategy: Strategy, seed: int) -> str:
    from roadworthy.evaluation.finetune import GRAINS, judge_recipe
    from roadworthy.fingerprints import model_fingerprint, pixels_hash
    from roadworthy.imputation import resolve_imputer
    from roadworthy.model.feed import split_hash

    fills = [resolve_imputer(imputer, noise=strategy.noise).settings() for imputer in strategy.imputers]
    about: dict[str, Any] = {
        "strategy": strategy.settings(),
        "fills": fills,
        "grains": GRAINS,
        "samples": split_hash(subject.data.train),
        "recipe": judge_recipe(len(subject.data.train)).described(),
        "model": model_fingerprint(subject.model),
        "images": pixels_hash(subject.data.train),
        "mean": subject.data.mean,
        "seed": seed,
    }
    return hashlib.blake2b(json.dumps(about, sort_keys=True, default=str).encode(), digest_size=16).hexdigest()
