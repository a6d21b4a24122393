"""``roadworthy demo``: the whole way on real digits, without a download."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roadworthy.cli.attribute import load_subject
from roadworthy.cli.console import print_json, say
from roadworthy.cli.options import DeviceOption, JsonOption, SeedOption, out_option, parse_methods
from roadworthy.cli.road import as_record, run_road, show

METHODS = "grad,ixg,ig,ig-sg,ig-sq,ig-var,gb,gradcam,deeplift,occlusion,random,sobel,center"


def demo(
    seed: SeedOption = 0,
    device: DeviceOption = None,
    folder: Annotated[Path, out_option("roadworthy-demo")] = Path("roadworthy-demo"),
    as_json: JsonOption = False,
) -> None:
    """Train a small network on handwritten digits, rank attribution methods on it, and write the report."""
    import torch

    from roadworthy.evaluation import default_strategy

    torch.set_num_threads(1)  # a network for 8x8 images is too small to share out: threads would wait for each other
    say("Training a small network on scikit-learn's digits (first use only), then comparing methods by removal.")
    subject = load_subject(
        "digits", "digits-cnn", None, "auto", n=None, size=None, channels=None, seed=seed, device=device
    )
    shared = {"target": "predicted", "settings": "road", "seed": seed, "max_batch": 1024}
    result, written = run_road(subject, parse_methods(METHODS), folder, shared, {"strategy": default_strategy()})
    if as_json:
        print_json(as_record(result, written))
    else:
        show(result, written)
