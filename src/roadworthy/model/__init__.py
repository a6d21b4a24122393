"""From a name, module or callable to a classifier that takes images in pixel units; and the loop that trains."""

from __future__ import annotations

# each family registers itself where it is imported
from roadworthy.model import (  # noqa: F401
    factory,
    resnet_cifar,
    small_cnn,
    timm_models,
    torchvision_models,
    transformers_models,
)
from roadworthy.model.base import models
from roadworthy.model.distributed import fit_distributed
from roadworthy.model.fit import fit
from roadworthy.model.fresh import reset, untrained
from roadworthy.model.history import History
from roadworthy.model.load import load_model
from roadworthy.model.normalized import Normalized, PixelNormalize
from roadworthy.model.predict import Predictions, accuracy, predict
from roadworthy.model.recipe import Recipe, Timetable
from roadworthy.model.recipe_files import load_recipe, recipes
from roadworthy.model.weights import load_weights, read_weights, save_weights

__all__ = [
    "History",
    "Normalized",
    "PixelNormalize",
    "Predictions",
    "Recipe",
    "Timetable",
    "accuracy",
    "fit",
    "fit_distributed",
    "load_model",
    "load_recipe",
    "load_weights",
    "models",
    "predict",
    "read_weights",
    "recipes",
    "reset",
    "save_weights",
    "untrained",
]
