"""Grad-CAM (Selvaraju et al. 2017), alone and multiplied with guided backpropagation.

Equals captum's LayerGradCam with bilinear upsampling. The layer hands a clone of its output on, so that a ReLU that
works in place on it cannot change what Grad-CAM looks at. Signed by default (``Settings.gradcam_relu``); guided
Grad-CAM takes the positive part, as defined.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from roadworthy.attribution.base import Block, Family, Job, methods
from roadworthy.attribution.guided import Guide
from roadworthy.errors import AttributionError, unknown_name
from roadworthy.hints import wrapper_hint

_REASON = "it looks at the feature maps of a two-dimensional convolution; use 'ig' or 'gradient-shap'"


def gradcam(job: Job, members: Collection[str]) -> Block:
    """Compute ``gradcam``, (n, H, W); the layer looked at is noted."""
    name, layer = _find_layer(job, "gradcam")
    positive = job.settings.gradcam_relu
    maps = torch.cat([_cam(job, layer, name, *part, positive=positive)[:, 0] for part in _chunks(job)])
    return Block({"gradcam": maps}, notes={"gradcam": {"layer": name, "relu": job.settings.gradcam_relu}})


def guided_gradcam(job: Job, members: Collection[str]) -> Block:
    """Compute ``guided-gradcam``, (n, C, H, W): positive Grad-CAM times guided backpropagation."""
    name, layer = _find_layer(job, "guided-gradcam")
    guide, maps = Guide(job.model), []
    for images, targets in _chunks(job):
        cam = _cam(job, layer, name, images, targets, positive=True)
        maps.append(cam * guide(job, images, targets))
    return Block({"guided-gradcam": torch.cat(maps)}, notes={"guided-gradcam": {"layer": name, **guide.notes()}})


def _chunks(job: Job) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    size = job.classifier.max_batch
    for begin in range(0, len(job.images), size):
        yield job.images[begin : begin + size], job.targets[begin : begin + size]


def _cam(
    job: Job, layer: nn.Module, name: str, images: torch.Tensor, targets: torch.Tensor, *, positive: bool
) -> torch.Tensor:
    """Return Grad-CAM (b, 1, H, W) at the images' size, all of it or the positive part (taken before upsampling)."""
    with torch.enable_grad(), _recorded(layer) as outputs:
        logits = job.classifier.forward(images.detach().requires_grad_())
        if len(outputs) != 1:
            raise AttributionError(
                f"gradcam: layer {name!r} runs {len(outputs)} times in one pass, so its map is not defined; "
                f"name one that runs once with settings=Settings(gradcam_layer=...){wrapper_hint(job.model)}"
            )
        if not isinstance(outputs[0], torch.Tensor) or outputs[0].ndim != 4:
            raise AttributionError(
                f"gradcam: layer {name!r} gives {_shape(outputs[0])}, not feature maps (N, C, H, W); name another one"
            )
        total = logits.gather(1, targets.to(logits.device)[:, None]).sum()
        (gradient,) = torch.autograd.grad(total, outputs[0], allow_unused=True)
    if gradient is None:
        raise AttributionError(f"gradcam: the target's logit does not depend on layer {name!r}; name another one")
    activation = outputs[0].detach()
    cam = (gradient.mean(dim=(2, 3), keepdim=True) * activation).sum(dim=1, keepdim=True).float()
    if positive:
        cam = cam.clamp(min=0)
    return F.interpolate(cam, size=tuple(images.shape[2:]), mode="bilinear", align_corners=False)


def _shape(output: Any) -> str:
    return f"a tensor {tuple(output.shape)}" if isinstance(output, torch.Tensor) else f"a {type(output).__name__}"


@contextmanager
def _recorded(layer: nn.Module) -> Iterator[list[Any]]:
    """Keep what a layer returns, while the model goes on with a clone."""
    outputs: list[Any] = []

    def keep(module: nn.Module, inputs: Any, output: Any) -> Any:
        if not isinstance(output, torch.Tensor):
            outputs.append(output)
            return output
        kept = output if output.requires_grad else output.requires_grad_()
        outputs.append(kept)
        return kept.clone()

    handle = layer.register_forward_hook(keep)
    try:
        yield outputs
    finally:
        handle.remove()


def _find_layer(job: Job, method: str) -> tuple[str, nn.Module]:
    """Return the layer that the settings name, or the last convolution that runs in a forward pass."""
    if not isinstance(job.model, nn.Module):
        raise AttributionError(
            f"{method!r} looks inside a torch.nn.Module; the model is a {type(job.model).__name__}. "
            "Use 'occlusion' or 'ig' instead."
        )
    layers = dict(job.model.named_modules())
    wanted = job.settings.gradcam_layer
    if wanted is not None:
        if wanted not in layers:
            raise unknown_name("layer", wanted, [name for name in layers if name])
        return wanted, layers[wanted]
    if "gradcam_layer" not in job.cache:
        job.cache["gradcam_layer"] = _last_convolution(job, layers, method)
    name: str = job.cache["gradcam_layer"]
    return name, layers[name]


def _last_convolution(job: Job, layers: dict[str, nn.Module], method: str) -> str:
    ran: list[str] = []
    handles = [
        layer.register_forward_hook(lambda module, inputs, output, name=name: ran.append(name))
        for name, layer in layers.items()
        if isinstance(layer, nn.Conv2d)
    ]
    try:
        with torch.no_grad():
            job.classifier.forward(job.images[:1])
    finally:
        for handle in handles:
            handle.remove()
    if not ran:
        kinds = sorted({type(layer).__name__ for layer in layers.values() if not list(layer.children())})
        raise AttributionError(
            f"{method!r}: no two-dimensional convolution ran in the model; its layers: {', '.join(kinds) or 'none'}. "
            "Name a layer with feature maps with settings=Settings(gradcam_layer=...), or use 'ig' or 'occlusion'."
        )
    last = layers[ran[-1]]
    if len(set(ran)) == 1 and isinstance(last, nn.Conv2d) and _cuts_patches(last):
        raise AttributionError(
            f"{method!r}: the only convolution, {ran[-1]!r}, cuts the images into patches, as in a vision "
            "transformer: its maps show the patches, not what the network makes of them. Use 'ig', 'gradient-shap' "
            "or 'occlusion', or name a layer that gives maps (N, C, H, W) with settings=Settings(gradcam_layer=...)."
        )
    return ran[-1]


def _cuts_patches(layer: nn.Conv2d) -> bool:
    return layer.kernel_size == layer.stride and max(layer.kernel_size) > 1


methods.add(
    "gradcam",
    Family("gradcam", gradcam, frozenset(("images",)), _REASON, lambda settings, members: 2),
    "Grad-CAM at the last convolution, signed",
)
methods.add(
    "guided-gradcam",
    Family("guided-gradcam", guided_gradcam, frozenset(("images",)), _REASON, lambda settings, members: 4),
    "positive Grad-CAM x guided backpropagation",
)
