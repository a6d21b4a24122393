"""Perturbations: small disturbances of the input or of the model under which a prediction should stand."""

from roadworthy.labelfree.perturbation.base import (
    Facts,
    InputPerturbation,
    ModelPerturbation,
    Perturbation,
    knobs,
    perturbations,
    resolve,
)
from roadworthy.labelfree.perturbation.colour_jitter import ColourJitter
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.dropout import Dropout
from roadworthy.labelfree.perturbation.ensemble import Ensemble
from roadworthy.labelfree.perturbation.frequency_noise import FrequencyNoise
from roadworthy.labelfree.perturbation.function import Function
from roadworthy.labelfree.perturbation.gaussian import Gaussian
from roadworthy.labelfree.perturbation.hidden_noise import HiddenNoise
from roadworthy.labelfree.perturbation.occlusion import Occlusion
from roadworthy.labelfree.perturbation.rotation import Rotation
from roadworthy.labelfree.perturbation.slice import Slice
from roadworthy.labelfree.perturbation.time_warp import TimeWarp
from roadworthy.labelfree.perturbation.translation import Translation
from roadworthy.labelfree.perturbation.word_deletion import WordDeletion
from roadworthy.labelfree.perturbation.word_neighbours import WordNeighbours
from roadworthy.labelfree.perturbation.word_shuffle import WordShuffle
from roadworthy.labelfree.perturbation.word_swap import WordSwap

__all__ = [
    "ColourJitter",
    "Draws",
    "Dropout",
    "Ensemble",
    "Facts",
    "FrequencyNoise",
    "Function",
    "Gaussian",
    "HiddenNoise",
    "InputPerturbation",
    "ModelPerturbation",
    "Occlusion",
    "Perturbation",
    "Rotation",
    "Slice",
    "TimeWarp",
    "Translation",
    "WordDeletion",
    "WordNeighbours",
    "WordShuffle",
    "WordSwap",
    "knobs",
    "perturbations",
    "resolve",
]
