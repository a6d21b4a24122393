"""One evaluation, block of samples after block of samples."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from roadworthy.errors import AttributionError, InputError, RoadworthyWarning
from roadworthy.evaluation.blocks import BlockScores, BlockStore, joined
from roadworthy.evaluation.checks import check_labels, check_logits, intact_verdict, range_warning
from roadworthy.evaluation.degrade import Copies, block_values, degraded, nonfinite_samples
from roadworthy.evaluation.inputs import UNLABELLED, Stream
from roadworthy.evaluation.maps import MapSources
from roadworthy.evaluation.readout import read_out
from roadworthy.evaluation.result import READOUTS, Result, Scores
from roadworthy.evaluation.sheet import SheetMaker, SheetPart, as_sheet
from roadworthy.evaluation.strategy import Strategy
from roadworthy.forward import Classifier, as_stats, target_classes
from roadworthy.imputation import Imputer
from roadworthy.provenance import model_fingerprint, provenance
from roadworthy.records import Batch
from roadworthy.removal import constant_maps, tied_share, units_removed
from roadworthy.types import Normalize, Progress

EARLY_CHECK = 256  # samples after which the intact accuracy is judged for the first time


@dataclass
class Run:
    """Everything one evaluation needs; :meth:`result` does it."""

    strategy: Strategy
    imputer: Imputer
    classifier: Classifier
    stream: Stream
    maps: MapSources
    target: str | Sequence[int] | torch.Tensor
    seed: int
    repeats: int
    mean: torch.Tensor | None
    normalized: Normalize | None
    drop_nonfinite: bool
    stop_at_chance: bool
    sheet: SheetMaker
    progress: Progress | None
    classes: list[str]
    recorded: dict[str, Any]
    warnings: list[str] = field(default_factory=list)
    class_count: int = 0
    units: int = 0

    def result(self, checkpoint: str | Path | None = None) -> Result:
        """Score all blocks and put the result together."""
        store = BlockStore(checkpoint, self._key())
        blocks: list[BlockScores] = []
        start = done = 0
        judged = False
        for index, batch in enumerate(self.stream.blocks()):
            kept_as = [*batch.ids, self.maps.digest(batch, start)] if store.folder else batch.ids
            block = store.read(index, kept_as)
            if block is None:
                block = self._score(batch, start)
                store.write(index, kept_as, block)
            else:
                self._note_shape(batch)
            blocks.append(block)
            start += len(batch.ids)
            done += len(block.ids)
            if not judged and done >= EARLY_CHECK:
                self._judge(blocks)
                judged = True
        if not blocks:
            raise InputError("images: no sample could be read")
        if not any(block.ids for block in blocks):
            raise AttributionError(
                f"every sample has a map that is not finite for some method ({start} samples dropped)"
            )
        return self._finish(joined([block for block in blocks if block.ids or block.dropped]), blocks)

    def _score(self, batch: Batch, start: int) -> BlockScores:
        batch = self._in_pixel_units(batch)
        self._note_shape(batch)
        self.imputer.check(tuple(batch.images.shape), self.strategy.unit)
        logits = self.classifier.logits(batch.images)
        check_logits(logits, batch.ids, "intact samples")
        predicted = logits.argmax(dim=1)
        batch, targets = self._labelled(batch, logits, predicted, start)
        other = self.maps.other_targets(targets, batch, start)
        if other:
            message = f"saved maps explain another class than the one whose probability is recorded, for {other} of"
            self._warn_once(
                f"{message} {len(batch.ids)} samples of a block; pass the same target=", "saved maps explain"
            )
        maps = self.maps.block(self.classifier, batch, targets, start)
        values = block_values(maps, batch, self.strategy)
        bad, by_method = nonfinite_samples(values)
        dropped = [sample for sample, is_bad in zip(batch.ids, bad, strict=True) if is_bad]
        if dropped:
            self._refuse_nonfinite(batch, by_method)
            keep = torch.from_numpy(~bad)
            values = {name: array[~bad] for name, array in values.items()}
            kept_ids = [sample for sample, is_bad in zip(batch.ids, bad, strict=True) if not is_bad]
            batch = Batch(batch.images[keep], batch.labels[keep], kept_ids)
            logits, predicted, targets = logits[keep], predicted[keep], targets[keep]
        block = self._empty_block(batch, values, targets, predicted)
        block.dropped = dropped
        block.gaps = self.maps.take_gaps()
        if batch.ids:
            part = self.sheet.begin(
                batch, values, start, (len(self.strategy.orders), len(self.strategy.all_fractions))
            )
            self._fill_block(block, batch, values, logits, part)
        return block

    def _fill_block(
        self,
        block: BlockScores,
        batch: Batch,
        values: dict[str, np.ndarray],
        intact: torch.Tensor,
        part: SheetPart | None,
    ) -> None:
        """Score the intact images and every degraded copy into ``block``."""
        for readout, array in read_out(intact, block.labels, block.targets).items():
            block.scores[readout][:, :, 0] = array
        if part is not None:
            part.answer_intact(block.predicted)
        queue: list[Copies] = []
        for copies in degraded(
            batch, values, self.strategy, self.imputer, mean=self.mean, seed=self.seed, repeats=self.repeats
        ):
            queue.append(copies)
            if len(queue) * len(batch.ids) >= self.classifier.max_batch:
                self._flush(queue, block, part)
        self._flush(queue, block, part)
        if part is not None:
            block.sheet = part.arrays

    def _flush(self, queue: list[Copies], block: BlockScores, part: SheetPart | None) -> None:
        if not queue:
            return
        n = len(block.ids)
        images = queue[0].images if len(queue) == 1 else torch.cat([copies.images for copies in queue])
        logits = self.classifier.logits(images)
        for row, copies in enumerate(queue):
            own = logits[row * n : (row + 1) * n]
            name, order = self.maps.names[copies.method], self.strategy.orders[copies.order]
            share = self.strategy.all_fractions[copies.fraction]
            check_logits(own, block.ids, f"copies with {share:.0%} removed by {name} ({order})")
            place = (copies.method, copies.order, copies.fraction, copies.repeat)
            for readout, array in read_out(own, block.labels, block.targets).items():
                block.scores[readout][place] = array
            if part is not None:
                part.take(copies, own.argmax(dim=1).numpy())
        if self.progress is not None:
            self.progress(len(images))
        queue.clear()

    def _in_pixel_units(self, batch: Batch) -> Batch:
        images = batch.images
        if not images.is_floating_point():
            return batch
        if self.normalized is not None:
            mean, std = (
                part.view(1, -1, *[1] * (images.ndim - 2)) for part in as_stats(self.normalized, images.shape[1])
            )
            return batch._replace(images=images * std + mean)
        if images.ndim > 2:
            self._warn_once(range_warning(images), "images range")
        return batch

    def _labelled(
        self, batch: Batch, logits: torch.Tensor, predicted: torch.Tensor, start: int
    ) -> tuple[Batch, torch.Tensor]:
        self.class_count = logits.shape[1]
        labels: torch.Tensor | None = batch.labels
        if bool((batch.labels == UNLABELLED).any()):
            self._warn_once("no labels were given: top-1 and top-5 are agreement with the model's own intact answers")
            labels, batch = None, batch._replace(labels=predicted)
        else:
            check_labels(batch.labels, logits.shape[1])
        target = self.target
        if not isinstance(target, str):
            target = torch.as_tensor(target).flatten()
            if len(target) < self.stream.length:
                raise InputError(
                    f"target: {len(target)} classes for {self.stream.length} samples; give one per sample"
                )
            target = target[torch.from_numpy(self.stream.positions(batch.ids, start))]
        targets = target_classes(target, predicted=predicted, labels=labels)
        check_labels(targets, logits.shape[1])
        return batch, targets

    def _empty_block(
        self, batch: Batch, values: dict[str, np.ndarray], targets: torch.Tensor, predicted: torch.Tensor
    ) -> BlockScores:
        n = len(batch.ids)
        shape = (len(values), len(self.strategy.orders), len(self.strategy.all_fractions), self.repeats, n)
        kinds = {"top1": np.uint8, "top5": np.uint8, "probability": np.float32, "logit": np.float32}
        stats = {"tied": tied_share, "constant": constant_maps}
        found = {
            key: np.stack([function(array) if n else np.zeros(0) for array in values.values()])
            for key, function in stats.items()
        }
        return BlockScores(
            ids=batch.ids,
            scores={readout: np.zeros(shape, dtype=kinds[readout]) for readout in READOUTS},
            labels=batch.labels.numpy(),
            targets=targets.numpy(),
            predicted=predicted.numpy(),
            tied=found["tied"],
            constant=found["constant"].astype(bool),
        )

    def _refuse_nonfinite(self, batch: Batch, by_method: dict[str, np.ndarray]) -> None:
        if self.drop_nonfinite:
            return
        lines = []
        for name, rows in by_method.items():
            if rows.any():
                named = [sample for sample, is_bad in zip(batch.ids, rows, strict=True) if is_bad]
                lines.append(f"{name}: {len(named)} ({', '.join(named[:10])}{' ...' if len(named) > 10 else ''})")
        raise AttributionError(
            f"maps with NaN or infinite values, samples by method: {'; '.join(lines)}. "
            "Mend the maps, or pass nonfinite='drop' to leave these samples out for all methods"
        )

    def _note_shape(self, batch: Batch) -> None:
        shape = tuple(batch.images.shape[1:])
        if self.strategy.unit == "pixel" and len(shape) > 1:
            shape = shape[1:]
        self.units = int(np.prod(shape))

    def _judge(self, blocks: list[BlockScores]) -> str:
        labels = np.concatenate([block.labels for block in blocks])
        predicted = np.concatenate([block.predicted for block in blocks])
        classes = self.class_count or int(max(labels.max(), predicted.max())) + 1
        message, stop = intact_verdict(labels, predicted, classes)
        if stop and self.stop_at_chance:
            raise InputError(message)
        return message

    def _warn_once(self, message: str, start: str | None = None) -> None:
        if message and not any(known.startswith(start or message) for known in self.warnings):
            self.warnings.append(message)
            warnings.warn(message, RoadworthyWarning, stacklevel=2)

    def _finish(self, whole: BlockScores, blocks: list[BlockScores]) -> Result:
        self._warn_once(self._judge(blocks))
        if whole.dropped:
            named = ", ".join(whole.dropped[:5])
            self._warn_once(f"{len(whole.dropped)} samples were left out: maps with NaN or infinite values ({named})")
        constants = {
            name: int(row.sum()) for name, row in zip(self.maps.names, whole.constant, strict=True) if row.any()
        }
        for name, count in constants.items():
            self._warn_once(f"{name}: {count} of {len(whole.ids)} maps are constant, removed in random order")
        missing = self.stream.length - len(whole.ids) - len(whole.dropped)
        if missing > 0:
            self._warn_once(f"{missing} of {self.stream.length} samples could not be read and are left out")
        return Result(
            methods=list(self.maps.names),
            orders=list(self.strategy.orders),
            fractions=list(self.strategy.all_fractions),
            removed=[units_removed(self.units, fraction) for fraction in self.strategy.all_fractions],
            repeats=self.repeats,
            ids=whole.ids,
            scores=Scores(**whole.scores, labels=whole.labels, targets=whole.targets, predicted=whole.predicted),
            classes=self.classes,
            method_info=self._method_info(whole),
            settings=self._settings(),
            provenance=provenance(ids=whole.ids, seed=self.seed, device=str(self.classifier.device)),
            warnings=self.warnings,
            sheet=as_sheet(whole.sheet),
        )

    def _method_info(self, whole: BlockScores) -> pd.DataFrame:
        frame = pd.DataFrame({"method": self.maps.names})
        frame["tied_share"] = whole.tied.mean(axis=1)
        frame["constant_maps"] = whole.constant.sum(axis=1)
        gaps = [whole.gaps.get(name) for name in self.maps.names]
        frame["completeness_gap"] = [None if gap is None else float(gap.mean()) for gap in gaps]
        return frame

    def _settings(self) -> dict[str, Any]:
        found = self.strategy.settings() | {"target": self.target if isinstance(self.target, str) else "given"}
        found["noise"] = self.imputer.noise
        found["imputer_settings"] = self.imputer.settings()
        found["classes"] = self.class_count
        found["max_batch"] = self.classifier.max_batch
        for name, stats in (("normalize", self.classifier.normalize), ("normalized", self.normalized)):
            found[name] = None if stats is None else [torch.as_tensor(part).flatten().tolist() for part in stats]
        return found | self.recorded

    def _key(self) -> dict[str, Any]:
        settings = {key: value for key, value in self._settings().items() if key not in ("max_batch", "classes")}
        return (
            settings
            | {"seed": self.seed, "repeats": self.repeats, "methods": self.maps.names}
            | {"model": model_fingerprint(self.classifier.model)}
        )
