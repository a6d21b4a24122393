"""What a shell offers for a value; the names stand here because their registries take seconds to load.

A test holds every list against its registry.
"""

from __future__ import annotations

from collections.abc import Callable

DATA_SETS = (
    *("digits", "fashion-mnist", "folder:", "hdf5:", "parquet:", "planted", "planted-colour", "tfrecord:"),
    "torchvision:",
)
MODELS = ("digits-cnn", "resnet18-cifar", "small-cnn", "timm:", "torchvision:", "transformers:")
METHODS = (
    *("center", "constant", "deeplift", "gb", "gb-sg", "gb-sq", "gb-var", "grad", "grad-sg", "grad-sq", "grad-var"),
    *("gradcam", "gradient-shap", "guided-gradcam", "ig", "ig-sg", "ig-sq", "ig-var", "ixg", "ixg-sg", "ixg-sq"),
    *("ixg-var", "kernel-shap", "lime", "lrp", "occlusion", "random", "sobel"),
)
IMPUTERS = ("blur", "gain", "image-mean", "mean", "navier-stokes", "noisy-linear", "telea", "zero")
STRATEGIES = ("deletion", "f-fidelity", "insertion", "pixel-flipping", "road", "symmetric")
TRAINING_STRATEGIES = ("kar", "roar", "roar-2019")
RECIPES = (
    *("birdsnap", "cifar10", "cifar10-road", "digits", "fast-cifar", "food101", "food101-road", "imagenet", "small"),
)
PERTURBATIONS = (
    *("colour-jitter", "dropout", "ensemble", "frequency-noise", "gaussian", "hidden-noise", "occlusion", "rotation"),
    *("slice", "time-warp", "translation", "word-deletion", "word-neighbours", "word-shuffle", "word-swap"),
)
CORRUPTIONS = (
    *(
        "amplitude",
        "blur",
        "brightness",
        "contrast",
        "delay",
        "feature-noise",
        "gap",
        "missing",
        "noise",
        "occlusion",
    ),
    *("rotation", "series-noise", "shift", "smooth", "typos", "word-drop"),
)
ORDERS = ("both", "lerf", "morf")
TARGETS = ("label", "predicted")
SETTINGS = ("road", "road-code", "roar", "roar-code")
NORMALIZE = ("auto", "imagenet", "none")
DEVICES = ("cpu", "cuda", "cuda:0", "cuda:1", "mps")
AUDITS = ("off", "quick", "thorough")


def one_of(*names: str) -> Callable[[str], list[str]]:
    """Return a function that offers the names that begin as what was typed does.

    Example:
        >>> one_of("road", "roar", "kar")("ro")
        ['road', 'roar']
    """

    def offer(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return offer


def several_of(*names: str, between: str = ",") -> Callable[[str], list[str]]:
    """Return a function that offers names for the last of a list, none twice.

    Example:
        >>> several_of("grad", "gradcam", "ig")("ig,gr"), several_of("grad", "ig")("grad,g")
        (['ig,grad', 'ig,gradcam'], [])
    """

    def offer(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(between)
        taken = set(before.split(between))
        return [f"{before}{comma}{name}" for name in names if name.startswith(last) and name not in taken]

    return offer
