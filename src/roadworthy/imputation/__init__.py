"""Imputation: what stands in the place of removed units."""

from roadworthy.imputation import noisy_linear as _noisy_linear  # noqa: F401  registers the default first
from roadworthy.imputation.blur import Blur
from roadworthy.imputation.function import FunctionImputer
from roadworthy.imputation.gain import Gain, GainSettings, load_gain
from roadworthy.imputation.gain_training import train_gain
from roadworthy.imputation.image_mean import ImageMean
from roadworthy.imputation.impute import impute
from roadworthy.imputation.imputer import NOISE, Imputer, add_noise, imputers, resolve_imputer
from roadworthy.imputation.mask_token import MaskToken
from roadworthy.imputation.mean import Mean
from roadworthy.imputation.noisy_linear import NoisyLinear
from roadworthy.imputation.opencv import OpenCVInpaint
from roadworthy.imputation.solution import Outcome, Solution
from roadworthy.imputation.solve import MAX_CYCLES, TOLERANCE, solve, solvers
from roadworthy.imputation.zero import Zero

__all__ = [
    "MAX_CYCLES",
    "NOISE",
    "TOLERANCE",
    "Blur",
    "FunctionImputer",
    "Gain",
    "GainSettings",
    "ImageMean",
    "Imputer",
    "MaskToken",
    "Mean",
    "NoisyLinear",
    "OpenCVInpaint",
    "Outcome",
    "Solution",
    "Zero",
    "add_noise",
    "impute",
    "imputers",
    "load_gain",
    "resolve_imputer",
    "solve",
    "solvers",
    "train_gain",
]
