"""The whole self-test on the planted bench, small: what must fail fails, and nothing else is told apart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from roadworthy.data import load_data
from roadworthy.errors import InputError
from roadworthy.evaluation.selftest import SelfTest, run, self_test
from roadworthy.evaluation.selftest.run import Effort

ALL = {"M1", "M1 pairs", "M2", "M3a", "M3b", "M4", "M5", "M6", "M7", "M8", "M11", "M12", "M13", "M14", "M15"}


@pytest.mark.slow
def test_one_order_fails_the_null_pair_and_the_null_panels_and_both_orders_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(run.EFFORTS, "quick", Effort(seeds=(5,), n=48, panels=5, panel_n=48))
    found: SelfTest = self_test(["symmetric untouched", "road morf"], cache=str(tmp_path))
    ids = {name: {trial.id for trial in found.trials if trial.strategy == name} for name in found.tested}
    assert ids == {"symmetric untouched": ALL, "road morf": ALL}
    assert {"M6", "M7", "M12"} <= set(found.failed("road morf"))
    assert not {"M2", "M3a", "M3b", "M4", "M5", "M6", "M7", "M12", "M13", "M14"} & set(
        found.failed("symmetric untouched")
    )
    assert found.believed == "symmetric untouched"
    assert found.strategies == ["symmetric untouched", "road morf", "mask-only classifier"]


def test_what_cannot_be_tested_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(InputError, match=r"'kar' trains a network for each explanation.*retraining=True"):
        self_test(["road", "kar"])
    with pytest.raises(InputError, match="its tests need planted data"):
        self_test(["roar"], data=load_data("planted:n=8,test=8"), model=torch.nn.Flatten(), retraining=True)
    with pytest.raises(InputError, match="seeds: got none"):
        self_test(["road"], seeds=())
    with pytest.raises(InputError, match="effort: got 'huge'"):
        self_test(effort="huge")
    with pytest.raises(InputError, match="data and model go together"):
        self_test(data=load_data("planted:n=8,test=8"))


def test_a_callable_is_asked_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(run.EFFORTS, "quick", Effort(seeds=(0,), n=16, panels=5, panel_n=8))
    weights = torch.rand(576, 4, generator=torch.Generator().manual_seed(0))

    def model(images: torch.Tensor) -> torch.Tensor:
        return images.flatten(1) @ weights

    data = load_data("planted:n=8,test=16")
    with pytest.raises(InputError, match="need a torch.nn.Module to fine-tune"):
        self_test(["symmetric", "idsds"], data=data, model=model, bases=["occlusion"])
    found = self_test(["mean", "idsds", "symmetric"], data=data, model=model, bases=["occlusion"])
    assert found.tested == ["mean"]
    assert found.notes[0] == "not tested, since a callable cannot be fine-tuned: idsds, symmetric"
