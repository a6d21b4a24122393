"""Retraining, on data whose truth is known: what the oracle removes is gone for good."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import AttributionError, InputError, ModelError
from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.retrain import Retrainer, score, training_seed
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import Degrader, MapRows, Treatment
from roadworthy.imputation import resolve_imputer
from roadworthy.model import Recipe, untrained
from roadworthy.records import Data, Split
from roadworthy.statistics import above_chance

RECIPE = Recipe(epochs=8, learning_rate=0.1, batch_size=32, schedule="one-cycle", warmup_epochs=2)
SHARE = 0.1  # of an image; the pattern that says the class has 1/16


@pytest.fixture(scope="module")
def planted() -> Data:
    return rw.load_data("planted:n=600,test=200")


def truth(data: Data) -> dict[str, np.ndarray]:
    return {"train": data.train.source.relevant().astype(float), "test": np.asarray(data.relevant).astype(float)}  # type: ignore[attr-defined]


def test_without_the_oracles_pixels_a_new_model_is_at_chance_and_without_the_inverses_it_is_not(
    planted: Data,
) -> None:
    oracle = truth(planted)
    pairs = {"oracle": (oracle["train"], oracle["test"]), "inverse": (-oracle["train"], -oracle["test"])}
    model = untrained("small-cnn", planted, seed=0)
    result = rw.evaluate(
        model,
        planted.test,
        None,
        {**pairs, "random": "random"},
        strategy="roar",
        fractions=(SHARE,),
        train=planted.train,
        recipe=RECIPE,
        intact_check="warn",
    )
    hits = dict(zip(result.methods, result.scores.top1[:, 0, 1, 0].mean(axis=-1), strict=True))
    intact = result.intact_accuracy
    assert intact > 0.8
    assert not above_chance(round(hits["oracle"] * 200), 200, 4)
    assert hits["inverse"] > intact - 0.1
    assert hits["oracle"] < hits["random"] <= intact + 0.1
    assert result.ranking()["method"].tolist()[0] == "oracle"
    assert result.settings["training"] == "retrain"
    # p = 0 is trained once for all
    assert (result.cost["fraction"] == 0).sum() == 1
    assert len(result.cost) == 1 + 3


def digits() -> Data:
    data = rw.load_data("digits")
    return Data("digits", data.train.subset(range(200)), data.test.subset(range(60)), data.classes)


def degrader(repeat: int = 0) -> Degrader:
    strategy = Strategy.of("roar")
    return Degrader(strategy, Filler(resolve_imputer("mean"), torch.tensor([0.3]), 0, torch.device("cpu")), repeat)


def retrainer(data: Data, **changes: object) -> Retrainer:
    recipe = Recipe(epochs=2, learning_rate=0.05, batch_size=32)
    return Retrainer(
        lambda seed: untrained("digits-cnn", data, seed=seed),
        data.train,
        data.test,
        recipe,
        seed=0,
        **changes,  # type: ignore[arg-type]
    )


def weights(model: torch.nn.Module) -> torch.Tensor:
    return torch.cat([value.double().flatten() for value in model.state_dict().values()])


def test_repeats_differ_and_within_one_all_treatments_start_alike() -> None:
    data = digits()
    seen: list[int] = []

    def build(seed: int) -> torch.nn.Module:
        seen.append(seed)
        return untrained("digits-cnn", data, seed=seed)

    one = Retrainer(build, data.train, data.test, Recipe(epochs=1, learning_rate=0.05), seed=3)
    for treatment in (Treatment(), Treatment.of("random", "morf", 0.5)):
        for repeat in (0, 1):
            one.run(treatment, degrader(repeat))
    assert seen == [training_seed(3, 0), training_seed(3, 1)] * 2
    assert seen[0] != seen[1]


def test_the_same_training_twice_is_bit_equal_and_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    data, treatment = digits(), Treatment.of("random", "morf", 0.5)
    first, model = retrainer(data).run(treatment, degrader())
    again, same = retrainer(data).run(treatment, degrader(), checkpoint=tmp_path / "c.pt")
    resumed, third = retrainer(data).run(treatment, degrader(), checkpoint=tmp_path / "c.pt")
    assert torch.equal(weights(model), weights(same))
    assert torch.equal(weights(model), weights(third))
    assert resumed.history.resumed == 2
    assert (first.probability == again.probability).all()
    assert first.loss == resumed.loss
    assert first.images == 400
    assert first.seconds[1] >= first.seconds[0] > 0


def test_the_whole_test_split_is_scored_by_an_independent_count() -> None:
    data = digits()
    trained, model = retrainer(data).run(Treatment(), degrader())
    with torch.no_grad():
        logits = model.eval()(data.test.images).double()
    labels = data.test.labels
    assert trained.ids == data.test.ids
    assert len(trained.ids) == 60  # no remainder is dropped
    torch.testing.assert_close(
        torch.nn.functional.cross_entropy(logits, labels).item(), trained.loss, rtol=1e-5, atol=0
    )
    assert trained.top1.mean() == (logits.argmax(1) == labels).double().mean().item()
    top5 = (logits.topk(5).indices == labels[:, None]).any(1)
    assert (trained.top5 == top5.numpy()).all()
    probability = logits.softmax(1)[torch.arange(60), labels]
    np.testing.assert_allclose(trained.probability, probability.numpy(), atol=1e-5)


def test_the_epoch_is_chosen_on_held_out_training_samples_never_on_the_test() -> None:
    data = digits()

    class Watched(Split):
        reads = 0

        def batches(self, size: int = 256):  # type: ignore[no-untyped-def]
            Watched.reads += 1
            return super().batches(size)

    test = Watched(data.test.source, "test", data.test.indices)
    one = retrainer(Data("d", data.train, test, data.classes), validation_share=0.25)
    trained, _ = one.run(Treatment.of("random", "morf", 0.3), degrader())
    assert Watched.reads == 1  # scored once, after the choice
    assert trained.images == 2 * (200 - len(held_out(data)))
    assert trained.history.validation  # an accuracy for every epoch


def held_out(data: Data) -> list[int]:
    counts = np.bincount(data.train.labels.numpy())
    return [row for count in counts for row in range(round(0.25 * int(count)))]


def test_labels_without_a_class_are_refused() -> None:
    data = digits()
    with pytest.raises(InputError, match="but the model has 3 classes"):
        score(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3)), data.test)


def test_what_a_retraining_needs_is_asked_for_by_name() -> None:
    data = digits()
    model = untrained("digits-cnn", data, seed=0)
    with pytest.raises(InputError, match=r"train: a strategy that retrains needs train= .*recipe="):
        rw.evaluate(model, data.test, None, ["grad"], strategy="roar")
    with pytest.raises(InputError, match="recipe: a strategy that retrains"):
        rw.evaluate(model, data.test, None, ["grad"], strategy="roar", train=data.train)
    with pytest.raises(InputError, match="nonfinite: got 'drop'"):
        rw.evaluate(
            model, data.test, None, ["grad"], strategy="roar", train=data.train, recipe=RECIPE, nonfinite="drop"
        )
    maps = np.zeros((60, 8, 8))
    with pytest.raises(InputError, match=r"'mine' is a ndarray; .* a pair \(training maps, test maps\)"):
        rw.evaluate(model, data.test, None, {"mine": maps}, strategy="kar", train=data.train, recipe=RECIPE)
    with pytest.raises(AttributionError, match="mine: 60 maps for 200 samples"):
        rw.evaluate(
            model, data.test, None, {"mine": (maps, maps)}, strategy="kar", train=data.train, recipe=RECIPE,
            intact_check="warn",
        )  # fmt: skip


def test_images_in_memory_and_a_build_function_work_as_splits_do() -> None:
    data = digits()
    made: list[torch.nn.Module] = []

    def build() -> torch.nn.Module:
        made.append(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10)))
        return made[-1]

    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    before = weights(model).clone()
    state = torch.get_rng_state()
    result = rw.evaluate(
        model, data.test.images, data.test.labels, ["grad"], strategy="roar", order="both", fractions=(0.5,),
        train=(data.train.images, data.train.labels), build=build, repeats=2, intact_check="warn",
        recipe=Recipe(epochs=1, learning_rate=0.1, batch_size=32), normalize=((0.3,), (0.37,)),
    )  # fmt: skip
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(before, weights(model))
    assert len(made) == 2 * (1 + 2)
    assert result.scores.top1.shape == (1, 2, 2, 2, 60)
    table = result.over_repeats()
    assert set(table.columns) >= {"method", "order", "fraction", "mean", "sd", "n", "low", "high"}
    assert (table["n"] == 2).all()


def test_maps_given_for_both_splits_are_used_as_they_are() -> None:
    data = digits()
    rows = MapRows("mine", np.random.default_rng(0).normal(size=(60, 8, 8)), data.test.ids)
    treated = degrader().split(data.test, Treatment.of("mine", "morf", 0.5), rows)
    values = np.asarray(rows.array).reshape(60, -1)
    changed = (treated.images != data.test.images).flatten(1).numpy()
    most = np.argsort(-values, axis=1)[:, :32]
    for row in range(60):
        assert set(np.flatnonzero(changed[row])) <= set(most[row])


def small_roar(**changes: object) -> rw.evaluation.Result:
    data = digits()
    options: dict[str, object] = {
        "attributions": {"mine": maps_for(data)},
        "strategy": "roar",
        "fractions": (0.5,),
        "train": data.train,
        "recipe": Recipe(epochs=1, learning_rate=0.1, batch_size=32),
        "intact_check": "warn",
    }
    options |= changes
    model = options.pop("model", untrained("digits-cnn", data, seed=0))
    return rw.evaluate(model, data.test, None, options.pop("attributions"), **options)  # type: ignore[arg-type]


def maps_for(data: Data, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.normal(size=(200, 8, 8)), generator.normal(size=(60, 8, 8))


def test_a_checkpoint_is_not_taken_for_that_of_other_maps_images_or_networks(tmp_path: Path) -> None:
    data = digits()
    train, test = maps_for(data)
    first = small_roar(checkpoint=tmp_path)
    files = set(tmp_path.iterdir())
    assert (small_roar(checkpoint=tmp_path).scores.probability == first.scores.probability).all()
    assert set(tmp_path.iterdir()) == files
    flipped = (data.train.images.flip(0), data.train.labels)
    for change in (
        {"attributions": {"mine": (train[:, ::-1].copy(), test)}},
        {"train": flipped},
        {"build": lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))},
        {"imputer": lambda images, removed, generator: torch.zeros_like(images)},
        {"validation_share": 0.2},
    ):
        fresh = small_roar(**change)
        kept = small_roar(**change, checkpoint=tmp_path)
        assert (kept.scores.probability == fresh.scores.probability).all(), change


def test_a_builder_that_returns_one_network_again_is_refused() -> None:
    shared = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    with pytest.raises(ModelError, match="build: returned a network that is in use already"):
        small_roar(build=lambda: shared)
    model = untrained("digits-cnn", digits(), seed=0)
    before = weights(model).clone()
    with pytest.raises(ModelError, match="in use already"):
        small_roar(model=model, build=lambda: model)
    assert torch.equal(weights(model), before)
    with pytest.raises(ModelError, match="build: returned int, expected a torch.nn.Module"):
        small_roar(build=lambda: 3)


@pytest.mark.parametrize("share", [-0.1, 1, 2, float("nan"), "a", None, True])
def test_odd_validation_shares_are_refused(share: object) -> None:
    with pytest.raises(InputError, match="validation_share: got"):
        small_roar(validation_share=share)


@pytest.mark.parametrize("kind", ["complex", "text", "object"])
def test_maps_that_are_no_real_numbers_are_refused(kind: str) -> None:
    train, test = maps_for(digits())
    odd = {"complex": train * 1j, "text": train.astype(str), "object": train.astype(object)}[kind]
    with pytest.raises(AttributionError, match="mine: maps of type .*, expected real numbers"):
        small_roar(attributions={"mine": (odd, test)})


def test_a_model_that_cannot_be_trained_and_a_wrong_recipe_are_told_first() -> None:
    with pytest.raises(ModelError, match="model: got function; to retrain, pass a torch.nn.Module"):
        small_roar(model=lambda images: images.flatten(1)[:, :10])
    with pytest.raises(InputError, match="Did you mean 'digits'"):
        small_roar(recipe="digit", model=torch.nn.Linear(3, 3))  # the model would fail at its first image
