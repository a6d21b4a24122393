"""Attribution maps: gradient families with shared noise, layer and perturbation methods, controls, saved maps."""

from __future__ import annotations

from roadworthy.attribution import (  # noqa: F401  each file registers its methods
    cam,
    controls,
    deeplift,
    gradient,
    gradient_shap,
    guided,
    input_gradient,
    integrated,
    lrp,
    occlusion,
    surrogate,
)
from roadworthy.attribution.base import Block, Family, Job, methods
from roadworthy.attribution.captum_objects import CaptumMethod, captum_method
from roadworthy.attribution.explainer import Explained, Explainer
from roadworthy.attribution.front import attribute
from roadworthy.attribution.maps import Maps
from roadworthy.attribution.requests import is_method, name_of
from roadworthy.attribution.samples import Samples
from roadworthy.attribution.saved import SavedArray, SavedMaps, open_maps
from roadworthy.attribution.settings import Settings, presets
from roadworthy.attribution.shard_run import attribute_to_shards
from roadworthy.attribution.shards import open_shards, write_shards
from roadworthy.attribution.store import MapStore, attribute_to_store

__all__ = [
    "Block",
    "CaptumMethod",
    "Explained",
    "Explainer",
    "Family",
    "Job",
    "MapStore",
    "Maps",
    "Samples",
    "SavedArray",
    "SavedMaps",
    "Settings",
    "attribute",
    "attribute_to_shards",
    "attribute_to_store",
    "captum_method",
    "is_method",
    "methods",
    "name_of",
    "open_maps",
    "open_shards",
    "presets",
    "write_shards",
]
