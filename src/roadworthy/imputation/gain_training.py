"""Training of the GAIN imputer, on training images alone, by a loop that goes on where it was stopped.

Departures from the published training: the last epoch is kept (published: the one whose fills of test images have the
lowest FID), the learning rate falls by 5 when the error on removed units of held-out training images has not fallen
for ten epochs (published: by the same FID), masks are drawn anew in every epoch (published: one per image), the
share removed goes up to 0.9 (published: 0.5), and half of the masks hang together, as those of a smooth attribution
map do (published: each unit on its own).
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

from roadworthy.errors import InputError, RoadworthyWarning
from roadworthy.files import replacing
from roadworthy.fingerprints import array_hash, pixels_hash
from roadworthy.imputation.gain import Gain, GainSettings, draw
from roadworthy.imputation.gain_networks import plain_state
from roadworthy.records import Split
from roadworthy.rng import numpy_generator, resolve_seed, seeded_globals, torch_generator
from roadworthy.types import Progress, Seed

_IN_MEMORY = 2**29  # values of a split that is read once and kept; larger ones are read in every epoch
_HELD_OUT = 512  # images at most
_BETAS = (0.5, 0.999)
_PATIENCE, _FACTOR = 10, 0.2


def train_gain(
    train: Split | torch.Tensor,
    settings: GainSettings | None = None,
    *,
    seed: Seed = 0,
    device: str | torch.device | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> Gain:
    """Train a GAIN imputer on training images; labels, models and test images play no part.

    Args:
        train: the training split, or its images (N, C, H, W), floating, in pixel units; two at least.
        settings: the networks and the training; the published ones by default, which want a GPU. On two CPU cores
            ``GainSettings(size=16, epochs=10)`` takes minutes for 5,000 images of 32 x 32.
        seed: of weights, held-out images, order, masks and noise. The same seed gives the same imputer bit for bit on
            one machine's CPU, also when it was stopped in between.
        device: where to train; the CPU by default.
        checkpoint: a file that is replaced after every epoch; the same call goes on from it, and may ask for more
            epochs.
        progress: called with the number of images just done; ``epochs`` times all images in all.

    Returns:
        The imputer of the last epoch.

    Raises:
        InputError: images that cannot be used, or a checkpoint of another training or one that cannot be read.

    Source:
        Yoon et al., GAIN (ICML 2018); Rong et al. (ICML 2022), appendix B.

    Example:
        >>> images = torch.rand(8, 1, 6, 5)
        >>> gain = train_gain(images, GainSettings(size=2, blocks=1, epochs=1, batch=4))
        >>> removed = torch.zeros(8, 6, 5, dtype=torch.bool); removed[:, 2:4] = True
        >>> filled = gain.fill(images, removed)
        >>> torch.equal(filled[:, :, :2], images[:, :, :2]), filled.shape
        (True, torch.Size([8, 1, 6, 5]))
    """
    settings = settings or GainSettings()
    return _Training(_Images(train), settings, resolve_seed(seed), torch.device(device or "cpu")).run(
        None if checkpoint is None else Path(checkpoint), progress
    )


def _blobs(shape: tuple[int, ...], share: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
    """Draw masks of these shares that hang together: where smoothed noise is low."""
    fields = torch.randn(shape, generator=draws)
    widest = max(1, max(shape[2:]) // 8)
    reach = int(torch.randint(1, widest + 1, (1,), generator=draws))
    for _ in range(2):  # twice a box is nearly a bell
        fields = functional.avg_pool2d(fields, 2 * reach + 1, 1, reach, count_include_pad=False)
    places = fields.flatten(2).argsort(2).argsort(2).view(shape)
    return places < share * shape[2] * shape[3]


class _Images:
    """Training images in memory, or of a split that is read anew in every epoch."""

    def __init__(self, train: Split | torch.Tensor) -> None:
        self.split: Split | None = None
        if isinstance(train, Split):
            self.name, self.identity = train.name, pixels_hash(train, 256)
            large = len(train) * math.prod(train.shape) > _IN_MEMORY
            self.split, self.images = (train, torch.zeros(0)) if large else (None, train.images)
            self.count, self.shape = len(train), tuple(train.shape)
        elif isinstance(train, torch.Tensor):
            self.name, self.images = "images", train.detach().cpu()
            self.count, self.shape = len(train), tuple(train.shape[1:])
            self.identity = array_hash(self.images.numpy())
        else:
            raise InputError(
                f"train_gain: got {type(train).__name__}, expected a Split such as data.train, or images (N, C, H, W)"
            )
        if len(self.shape) != 3 or self.count < 2:
            raise InputError(
                f"train_gain: {self.count} samples of shape {self.shape}, expected at least two images (C, H, W); "
                "use imputer='mean' for a table, 'noisy-linear' for series"
            )
        if self.split is None and not self.images.is_floating_point():
            raise InputError(f"train_gain: got {self.images.dtype}, expected floating images in pixel units")

    def batches(self, order: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
        """Yield these images, float32, in this order."""
        if self.split is None:
            for start in range(0, len(order), size):
                yield self.images[order[start : start + size]].float()
        else:
            for batch in self.split.subset(order.numpy()).batches(size):
                yield batch.images.float()

    def centre(self) -> tuple[torch.Tensor, float]:
        """Return the mean image and the largest distance from it that pixel units allow: 1, or more if there is."""
        every = torch.arange(self.count)
        total, least, most = torch.zeros(self.shape, dtype=torch.float64), 0.0, 1.0
        for images in self.batches(every, 256):
            if not bool(images.isfinite().all()):
                raise InputError("train_gain: the training images hold NaN or infinite values")
            total += images.double().sum(0)
            least, most = min(least, float(images.min())), max(most, float(images.max()))
        return (total / self.count).float(), most - least


class _Training:
    """Both networks, their optimisers, and where the training stands."""

    def __init__(self, images: _Images, settings: GainSettings, seed: int, device: torch.device) -> None:
        self.images, self.settings, self.seed, self.device = images, settings, seed, device
        self.mean_image, self.scale = images.centre()
        channels = images.shape[0]
        with seeded_globals(seed, "gain-weights"):
            self.generator = settings.generator(channels, spectral=True).to(device)
            self.discriminator = settings.discriminator(channels).to(device)
        self.networks = {"generator": self.generator, "discriminator": self.discriminator}
        for network in self.networks.values():  # convolutions run faster so
            network.to(memory_format=torch.channels_last)
        self.optimizers = {
            name: torch.optim.Adam(network.parameters(), lr=settings.learning_rate, betas=_BETAS)
            for name, network in self.networks.items()
        }
        self.plateaus = {
            name: torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=_FACTOR, patience=_PATIENCE)
            for name, optimizer in self.optimizers.items()
        }
        order = torch.from_numpy(numpy_generator(seed, "gain-held-out").permutation(images.count))
        held = min(_HELD_OUT, round(settings.held_out * images.count))
        self.held_out, self.trained_on = order[:held].sort().values, order[held:]
        self.history: list[dict[str, float]] = []

    def run(self, checkpoint: Path | None, progress: Progress | None) -> Gain:
        """Train the epochs that are not done yet."""
        self._load(checkpoint)
        done = len(self.history)
        if done > self.settings.epochs:
            raise InputError(
                f"train_gain: {str(checkpoint)!r} has {done} epochs, {self.settings.epochs} were asked for; ask for "
                "as many, or name another file"
            )
        if progress is not None and done:
            progress(done * self.images.count)
        for epoch in range(done, self.settings.epochs):
            losses = self._epoch(epoch, progress)
            error = self._held_out_error()
            if progress is not None:
                progress(len(self.held_out))
            self.history.append({**losses, "held_out_rmse": error})
            for plateau in self.plateaus.values():
                plateau.step(losses["kept_mse"] if math.isnan(error) else error)
            self._save(checkpoint)
        return self._imputer()

    def _epoch(self, epoch: int, progress: Progress | None) -> dict[str, float]:
        for network in self.networks.values():
            network.train()
        draws = torch_generator(self.seed, "gain-epoch", epoch)
        order = self.trained_on[torch.randperm(len(self.trained_on), generator=draws)]
        sums, count = torch.zeros(3, dtype=torch.float64), 0
        for images in self.images.batches(order, self.settings.batch):
            if len(images) > 1:  # batch normalisation needs two
                sums += len(images) * self._step(images, draws)
                count += len(images)
            if progress is not None:
                progress(len(images))
        found = dict(zip(("adversarial", "kept_mse", "discriminator"), (sums / max(1, count)).tolist(), strict=True))
        if not all(map(math.isfinite, found.values())):
            raise InputError(f"train_gain: the losses of epoch {epoch + 1} are not finite; lower learning_rate")
        return found

    def _step(self, images: torch.Tensor, draws: torch.Generator) -> torch.Tensor:
        """Take a step of the discriminator and one of the generator; return their losses."""
        removed, noise, hint = (part.to(self.device) for part in self._draws(images, draws))
        centred = (images - self.mean_image).to(self.device)
        drawn = draw(self.generator, centred, removed, noise, self.scale)
        whole = torch.where(removed, drawn, centred) / self.scale
        missing = removed.expand_as(centred).float()
        told = self.discriminator(torch.cat([whole.detach(), hint], dim=1))
        loss = functional.binary_cross_entropy_with_logits(told, 1 - missing)
        self._update("discriminator", loss)
        # it has changed: ask again, and spare what only its own step needs
        self.discriminator.requires_grad_(False)
        told = self.discriminator(torch.cat([whole, hint], dim=1))
        adversarial = (missing * functional.softplus(-told)).mean()
        kept = ((1 - missing) * (drawn - centred).square()).sum() / (1 - missing).sum().clamp_min(1)
        self._update("generator", adversarial + self.settings.alpha * kept)
        self.discriminator.requires_grad_(True)
        return torch.stack([part.detach().cpu().double() for part in (adversarial, kept, loss)])

    def _update(self, name: str, loss: torch.Tensor) -> None:
        self.optimizers[name].zero_grad(set_to_none=True)
        loss.backward()
        self.optimizers[name].step()

    def _draws(self, images: torch.Tensor, draws: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Draw which units are removed, the noise in their place, and the hint."""
        shape = (len(images), self.settings.mask_planes(images.shape[1]), *images.shape[2:])
        share = self.settings.missing * torch.rand(len(images), 1, 1, 1, generator=draws)
        removed = torch.rand(shape, generator=draws) < share
        hang_together = torch.rand(len(images), 1, 1, 1, generator=draws) < self.settings.blobs
        if bool(hang_together.any()):
            removed = torch.where(hang_together, _blobs(shape, share, draws), removed)
        noise = torch.randn(shape, generator=draws)
        told = torch.rand(shape, generator=draws) < self.settings.hint
        return removed, noise, torch.where(told, (~removed).float(), 0.5)

    def _held_out_error(self) -> float:
        """Return the root mean squared error on removed units of held-out images, the same masks in every epoch."""
        self.generator.eval()
        draws = torch_generator(self.seed, "gain-held-out-masks")
        total, count = 0.0, 0.0
        with torch.no_grad():
            for images in self.images.batches(self.held_out, self.settings.batch):
                removed, noise, _ = (part.to(self.device) for part in self._draws(images, draws))
                centred = (images - self.mean_image).to(self.device)
                drawn = draw(self.generator, centred, removed, noise, self.scale)
                missing = removed.expand_as(centred).float()
                total += float((missing * (drawn - centred).square()).sum())
                count += float(missing.sum())
        return math.sqrt(total / count) if count else math.nan

    def _imputer(self) -> Gain:
        self.generator.eval()
        about = {
            "n": len(self.trained_on),
            "seed": self.seed,
            "images": self.images.identity,
            "epochs": len(self.history),
            "torch": torch.__version__,
            "device": str(self.device),
            "history": [{key: None if math.isnan(x) else x for key, x in row.items()} for row in self.history],
        }
        return Gain(
            plain_state(self.generator), self.settings, mean_image=self.mean_image, scale=self.scale, training=about
        )

    def _identity(self) -> str:
        settings = {key: value for key, value in asdict(self.settings).items() if key != "epochs"}
        return json.dumps(
            {"settings": settings, "seed": self.seed, "n": self.images.count, "images": self.images.identity}
        )

    def _parts(self) -> dict[str, Any]:
        return {**self.networks, **{f"{name} optimizer": part for name, part in self.optimizers.items()}} | {
            f"{name} plateau": part for name, part in self.plateaus.items()
        }

    def _save(self, path: Path | None) -> None:
        if path is None:
            return
        content = {"run": self._identity(), "history": self.history}
        content |= {name: part.state_dict() for name, part in self._parts().items()}
        try:
            with replacing(path) as beside, beside.open("wb") as file:
                torch.save(content, file)
                file.flush()
                os.fsync(file.fileno())
        except (OSError, RuntimeError) as error:  # torch reports a failed write by either
            warnings.warn(
                f"train_gain: {str(path)!r} could not be written ({' '.join(str(error).split())}); the training goes "
                "on without it",
                RoadworthyWarning,
                stacklevel=4,
            )

    def _load(self, path: Path | None) -> None:
        if path is None or not path.exists():
            return
        try:
            content = torch.load(path, map_location=self.device, weights_only=True)
            found = content["run"]
        except Exception as error:  # whatever a damaged or foreign file raises, the advice is the same
            raise InputError(
                f"train_gain: the checkpoint {str(path)!r} cannot be read ({type(error).__name__}); delete it to "
                "start anew"
            ) from error
        if found != self._identity():
            raise InputError(
                f"train_gain: the checkpoint {str(path)!r} is of another training (settings, seed or images differ); "
                "delete it, or name another file"
            )
        for name, part in self._parts().items():
            part.load_state_dict(content[name])
        self.history = list(content["history"])
