"""One evaluation, block of samples after block of samples."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
import torch

from roadworthy.errors import AttributionError, InputError, RoadworthyError, listed
from roadworthy.evaluation.audit.collect import AuditSamples, Part
from roadworthy.evaluation.audit.leakage import SAMPLES, audit_leakage
from roadworthy.evaluation.audit.patches import Patches
from roadworthy.evaluation.blocks import BlockScores, BlockStore, joined
from roadworthy.evaluation.checks import check_logits, check_memory
from roadworthy.evaluation.degrade import Copies, Filler, block_values, degraded, nonfinite_samples
from roadworthy.evaluation.intact import Examiner, Seen
from roadworthy.evaluation.maps import MapSources
from roadworthy.evaluation.readout import read_out
from roadworthy.evaluation.result import READOUTS, Result, Scores
from roadworthy.evaluation.sheet import SheetMaker, SheetPart, as_sheet
from roadworthy.evaluation.strategy import Strategy
from roadworthy.fingerprints import callable_fingerprint, model_fingerprint, stated_model
from roadworthy.forward import Classifier
from roadworthy.imputation import FunctionImputer, Imputer
from roadworthy.provenance import ids_hash, provenance
from roadworthy.records import Batch, Split
from roadworthy.removal import constant_maps, smoothness, tied_share, units_removed
from roadworthy.types import Progress

Audit: TypeAlias = Literal["quick", "thorough", "off"]
_KINDS = {"top1": np.uint8, "top5": np.uint8, "probability": np.float32, "logit": np.float32}


class Prepared(NamedTuple):
    """A block ready to be degraded: samples, reduced maps, ids left out, completeness gaps, hash of all ids."""

    seen: Seen
    values: dict[str, np.ndarray]
    dropped: list[str]
    gaps: dict[str, np.ndarray]
    whole: str


def _same(prepared: Prepared) -> Prepared:
    return prepared


def _audit_part(make: Callable[[], Prepared]) -> Part:
    seen, values, *_ = make()
    return Part(seen.batch.images, seen.targets.numpy(), values, seen.batch.ids)


@dataclass
class Run:
    """Everything one evaluation needs; :meth:`result` does it."""

    strategy: Strategy
    imputers: list[Imputer]
    judges: dict[str, Classifier]
    examiner: Examiner
    maps: MapSources
    seed: int
    repeats: int
    mean: torch.Tensor | None
    drop_nonfinite: bool
    sheet: SheetMaker
    progress: Progress | None
    classes: list[str]
    recorded: dict[str, Any]
    audit: Audit = "quick"
    patches: Patches | None = None
    units: int = 0

    def result(self, checkpoint: str | Path | None = None) -> Result:
        """Score all blocks and put the result together."""
        self.examiner.preflight()
        store = BlockStore(checkpoint, self._key() if checkpoint is not None else {})
        blocks: list[BlockScores] = []
        audited = AuditSamples(SAMPLES.get(self.audit, 0), self.examiner.stream.length, self.seed)
        start = 0
        for index, batch in enumerate(self.examiner.stream.blocks()):
            self._note_shape(batch)
            kept_as = self._kept_as(batch, start) if store.folder else []
            block = store.read(index, kept_as)
            prepared = functools.partial(self._prepared, batch, start)
            if block is None:
                said = set(self.examiner.notes)
                ready = prepared()
                prepared = functools.partial(_same, ready)
                block = self._score(ready, start)
                block.notes = {key: text for key, text in self.examiner.notes.items() if key not in said}
                store.write(index, kept_as, block)
            else:
                self._take_back(block)
            if self.audit != "off":
                audited.take(batch.ids, batch.images, functools.partial(_audit_part, prepared), kept_as)
            blocks.append(block)
            start += len(batch.ids)
        if not blocks:
            raise InputError("images: no sample could be read")
        if not any(block.ids for block in blocks):
            raise AttributionError(f"every sample has a map that is not finite for some method ({start} dropped)")
        return self._finish(joined(blocks), self._audited(audited, store))

    def _audited(self, samples: AuditSamples, store: BlockStore) -> dict[str, Any]:
        """Audit some of the samples for leakage; a run that goes on finds what it found before."""
        if self.audit == "off":
            return {}
        effort = self.audit

        def made() -> dict[str, Any]:
            part = samples.gathered()
            if part is None:
                return {}
            found = audit_leakage(
                part.images,
                part.classes,
                part.values,
                strategy=self.strategy,
                imputers=self.imputers,
                mean=self.mean,
                class_count=self.examiner.classes,
                seed=self.seed,
                ids=part.ids,
                target=self.examiner.target if isinstance(self.examiner.target, str) else "given",
                effort=effort,
            )
            return {"leakage": found} | self._by_patches(part)

        # the hash of the training samples is worth its reading only where something is kept
        kept_as = [*samples.kept_as, self.patches.key() if self.patches and store.folder else ""]
        return store.kept(f"audit-{self.audit}", kept_as, made)

    def _by_patches(self, part: Part) -> dict[str, Any]:
        """Take the second view; it is an extra, so where it cannot be had the result stands without it."""
        if self.patches is None:
            return {}
        try:
            return self.patches.scores(part, self.strategy.reduction)
        except RoadworthyError as error:
            self.examiner.notes.add("idsds", f"IDSDS, the second view, was left out: {error}")
            return {}

    def _kept_as(self, batch: Batch, start: int) -> list[str]:
        return [*batch.ids, self.examiner.digest(batch, start), self.maps.digest(batch, start)]

    def _take_back(self, block: BlockScores) -> None:
        self.examiner.classes = block.classes
        for about, message in block.notes.items():
            self.examiner.notes.add(about, message)
        if self.progress is not None:
            self.progress(self._copies(len(block.ids)))

    @property
    def _cells(self) -> int:
        """Length of the repeat axis: the repeats of every view, judge by judge and fill by fill."""
        return len(self.judges) * len(self.imputers) * self.repeats

    def _cell(self, judge: int, fill: int, repeat: int) -> int:
        return (judge * len(self.imputers) + fill) * self.repeats + repeat

    def _copies(self, n: int) -> int:
        return n * len(self.maps.names) * len(self.strategy.orders) * len(self.strategy.fractions) * self._cells

    def _prepared(self, batch: Batch, start: int) -> Prepared:
        """Look at a block and make or cut its maps."""
        for imputer in self.imputers:
            imputer.check(tuple(batch.images.shape), self.strategy.unit)
        seen = self.examiner.look(batch, start)
        other = self.maps.other_targets(seen.targets, batch, start)
        if other:
            message = f"saved maps explain another class than the one whose probability is recorded, for {other} of"
            self.examiner.notes.add(
                "targets", f"{message} {len(batch.ids)} samples of a block; pass the same target="
            )
        maps = self.maps.block(seen.batch, seen.targets, seen.logits, start)
        gaps = self.maps.take_gaps()
        values = block_values(maps, seen.batch, self.strategy)
        bad, by_method = nonfinite_samples(values)
        dropped = [sample for sample, is_bad in zip(batch.ids, bad, strict=True) if is_bad]
        if dropped:
            self._refuse_nonfinite(batch, by_method)
            values = {name: array[~bad] for name, array in values.items()}
            seen = seen.rows(~bad)
        return Prepared(seen, values, dropped, gaps, ids_hash(batch.ids))

    def _score(self, prepared: Prepared, start: int) -> BlockScores:
        seen, values = prepared.seen, prepared.values
        block = self._empty_block(seen, values)
        block.dropped, block.gaps = prepared.dropped, prepared.gaps
        if seen.batch.ids:
            shape = (len(self.strategy.orders), len(self.strategy.all_fractions))
            part = self.sheet.begin(seen.batch, values, start, shape)
            self._fill_block(block, seen, values, part, prepared.whole)
        return block

    def _fill_block(
        self, block: BlockScores, seen: Seen, values: dict[str, np.ndarray], part: SheetPart | None, whole: str
    ) -> None:
        """Score the intact images and every degraded copy into ``block``."""
        self._score_intact(block, seen)
        if part is not None:
            part.answer_intact(block.predicted)
        for fill, imputer in enumerate(self.imputers):
            queue: list[Copies] = []
            for copies in degraded(
                seen.batch,
                values,
                self.strategy,
                Filler(imputer, self.mean, self.seed, self.examiner.classifier.device),
                block=whole,
                repeats=self.repeats,
            ):
                queue.append(copies)
                if len(queue) * len(block.ids) >= self.examiner.classifier.max_batch:
                    self._flush(queue, fill, block, part)
            self._flush(queue, fill, block, part)
        if part is not None:
            block.sheet = part.arrays

    def _score_intact(self, block: BlockScores, seen: Seen) -> None:
        for judge, (name, classifier) in enumerate(self.judges.items()):
            own = seen.logits
            if classifier is not self.examiner.classifier:
                own = classifier.logits(seen.batch.images)
                check_logits(own, block.ids, f"intact samples asked of the {name} model")
                if own.shape[1] != seen.logits.shape[1]:
                    raise InputError(
                        f"judge: it has {own.shape[1]} classes and the model {seen.logits.shape[1]}; pass a copy of "
                        "the model"
                    )
            cells = slice(self._cell(judge, 0, 0), self._cell(judge + 1, 0, 0))
            for readout, array in read_out(own, block.labels, block.targets).items():
                block.scores[readout][:, :, 0, cells] = array

    def _flush(self, queue: list[Copies], fill: int, block: BlockScores, part: SheetPart | None) -> None:
        if not queue:
            return
        images = queue[0].images if len(queue) == 1 else torch.cat([copies.images for copies in queue])
        for judge, classifier in enumerate(self.judges.values()):
            logits = classifier.logits(images).split(len(block.ids))
            for own, copies in zip(logits, queue, strict=True):
                self._take(own, copies, self._cell(judge, fill, copies.repeat), block)
                if part is not None and judge == fill == 0:
                    part.take(copies, own.argmax(dim=1).numpy())
        if self.progress is not None:
            self.progress(len(images) * len(self.judges))
        queue.clear()

    def _take(self, logits: torch.Tensor, copies: Copies, cell: int, block: BlockScores) -> None:
        name, order = self.maps.names[copies.method], self.strategy.orders[copies.order]
        share = self.strategy.all_fractions[copies.fraction]
        check_logits(logits, block.ids, f"copies with {share:.0%} removed by {name} ({order})")
        place = (copies.method, copies.order, copies.fraction, cell)
        for readout, array in read_out(logits, block.labels, block.targets).items():
            block.scores[readout][place] = array

    def _empty_block(self, seen: Seen, values: dict[str, np.ndarray]) -> BlockScores:
        n = len(seen.batch.ids)
        shape = (len(values), len(self.strategy.orders), len(self.strategy.all_fractions), self._cells, n)
        found = {
            key: np.stack([function(array) if n else np.zeros(0) for array in values.values()])
            for key, function in (
                ("tied", tied_share),
                ("constant", constant_maps),
                ("smoothness", smoothness),
            )
        }
        return BlockScores(
            ids=seen.batch.ids,
            scores={readout: np.zeros(shape, dtype=_KINDS[readout]) for readout in READOUTS},
            labels=seen.batch.labels.numpy(),
            targets=seen.targets.numpy(),
            predicted=seen.predicted.numpy(),
            tied=found["tied"],
            constant=found["constant"].astype(bool),
            smoothness=found["smoothness"],
            classes=self.examiner.classes,
        )

    def _refuse_nonfinite(self, batch: Batch, by_method: dict[str, np.ndarray]) -> None:
        if self.drop_nonfinite:
            return
        lines = [
            f"{name}: {listed([sample for sample, is_bad in zip(batch.ids, rows, strict=True) if is_bad])}"
            for name, rows in by_method.items()
            if rows.any()
        ]
        raise AttributionError(
            f"maps with NaN or infinite values, samples by method: {'; '.join(lines)}. "
            "Mend the maps, or pass nonfinite='drop' to leave these samples out for all methods"
        )

    def _note_shape(self, batch: Batch) -> None:
        shape = tuple(batch.images.shape[1:])
        copies = self._copies(len(batch.ids)) // (len(self.judges) * len(self.imputers))
        check_memory(shape, min(self.examiner.classifier.max_batch, copies))
        self.units = int(np.prod(shape[1:] if self.strategy.unit == "pixel" and len(shape) > 1 else shape))

    def _finish(self, whole: BlockScores, audit: dict[str, Any]) -> Result:
        self.examiner.judge(whole.labels, whole.predicted)
        self._note_what_is_missing(whole)
        return Result(
            methods=list(self.maps.names),
            orders=list(self.strategy.orders),
            fractions=list(self.strategy.all_fractions),
            removed=[units_removed(self.units, fraction) for fraction in self.strategy.all_fractions],
            repeats=self._cells,
            ids=whole.ids,
            scores=Scores(**whole.scores, labels=whole.labels, targets=whole.targets, predicted=whole.predicted),
            classes=self.classes,
            method_info=self._method_info(whole),
            settings=self._settings(),
            provenance={
                **provenance(ids=whole.ids, seed=self.seed, device=str(self.examiner.classifier.device)),
                "model": stated_model(self.examiner.classifier.model),
            },
            warnings=list(self.examiner.notes.values()),
            sheet=as_sheet(whole.sheet),
            audit=audit,
        )

    def _note_what_is_missing(self, whole: BlockScores) -> None:
        notes, stream = self.examiner.notes, self.examiner.stream
        if whole.dropped:
            message = f"{len(whole.dropped)} samples were left out: maps with NaN or infinite values"
            notes.add("dropped", f"{message} ({listed(whole.dropped, 5)})")
        for name, row in zip(self.maps.names, whole.constant, strict=True):
            if row.any():
                message = f"{name}: {int(row.sum())} of {len(whole.ids)} maps are constant, removed in random order"
                notes.add(f"constant/{name}", message)
        missing = stream.length - len(whole.ids) - len(whole.dropped)
        if missing > 0 and isinstance(stream.images, Split):
            notes.add("broken", f"{missing} of {stream.length} samples could not be read and are left out")
        nothing = [fraction for fraction in self.strategy.fractions if units_removed(self.units, fraction) == 0]
        if nothing:
            notes.add("nothing", f"shares {nothing} remove none of {self.units} units: they repeat the intact point")

    def _method_info(self, whole: BlockScores) -> pd.DataFrame:
        frame = pd.DataFrame({"method": self.maps.names})
        frame["tied_share"] = whole.tied.mean(axis=1)
        frame["constant_maps"] = whole.constant.sum(axis=1)
        known = ~np.isnan(whole.smoothness)
        frame["smoothness"] = [
            float(row[has].mean()) if has.any() else None for row, has in zip(whole.smoothness, known, strict=True)
        ]
        gaps = [whole.gaps.get(name) for name in self.maps.names]
        frame["completeness_gap"] = [None if gap is None else float(gap.mean()) for gap in gaps]
        return frame

    def _settings(self) -> dict[str, Any]:
        examiner = self.examiner
        found = self.strategy.settings()
        found["target"] = examiner.target if isinstance(examiner.target, str) else "given"
        found["noise"] = max(imputer.noise for imputer in self.imputers)
        about = [imputer.settings() for imputer in self.imputers]
        found["imputer_settings"] = about[0] if len(about) == 1 else about
        found["views"] = [
            {"judge": judge, "imputer": imputer.name} for judge in self.judges for imputer in self.imputers
        ]
        found["labels"] = "given" if examiner.labelled else "model"
        found["classes"] = examiner.classes
        found["max_batch"] = examiner.classifier.max_batch
        for name, stats in (("normalize", examiner.classifier.normalize), ("normalized", examiner.normalized)):
            found[name] = None if stats is None else [torch.as_tensor(part).flatten().tolist() for part in stats]
        return found | self.recorded

    def _key(self) -> dict[str, Any]:
        """Return what the scores of every block depend on, beside its own samples and maps."""
        classifier, output = self.examiner.classifier, self.examiner.classifier.output
        left_out = ("max_batch", "classes", "labels")
        settings = {key: value for key, value in self._settings().items() if key not in left_out}
        return settings | {
            "seed": self.seed,
            "repeats": self.repeats,
            "methods": self.maps.identity(),
            "model": model_fingerprint(classifier.model),
            "judges": {name: model_fingerprint(judge.model) for name, judge in self.judges.items()},
            "output": callable_fingerprint(output) if callable(output) else output,
            "layout": classifier.layout,
            "nonfinite": "drop" if self.drop_nonfinite else "raise",
            "sheet": self.sheet.count,
            "fill": [
                callable_fingerprint(imputer.function) if isinstance(imputer, FunctionImputer) else ""
                for imputer in self.imputers
            ],
        }
