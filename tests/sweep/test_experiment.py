"""The experiment file: what is accepted, what is refused and with which words, and that a dump comes back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.sweep.checks import completed
from roadworthy.sweep.experiment import Experiment, changed_keys, check_names, dump, load_experiment, smoke
from roadworthy.sweep.plan import plan
from roadworthy.sweep.subject import open_data
from roadworthy.yaml_files import parse_yaml


def write(folder: Path, text: str, name: str = "experiment.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf8")
    return path


def test_a_short_file_is_completed(tmp_path: Path) -> None:
    path = write(tmp_path, "data: digits\nmodel: digits-cnn\nmethods: [ig, random]\nfractions: [.5, 0.1, .5, 0]\n")
    found = load_experiment(path)
    assert found.data.source == "digits"
    assert found.recipe == "digits"
    assert dict(found.methods) == {"ig": "ig", "random": "random"}
    assert found.fractions == (0.1, 0.5)
    assert (found.order, found.imputers, found.strategy, found.repeats) == (None, None, "roar", 3)


def test_an_empty_file_is_all_defaults(tmp_path: Path) -> None:
    assert load_experiment(write(tmp_path, "")) == load_experiment() == Experiment.of()


@pytest.mark.parametrize(
    ("model", "recipe"),
    [("digits-cnn", "digits"), ("small-cnn", "fast-cifar"), ("resnet18-cifar", "fast-cifar")],
)
def test_each_own_network_has_its_recipe(model: str, recipe: str) -> None:
    assert Experiment.of(model=model).recipe == recipe
    assert Experiment.of(model={"name": model}, recipe={"epochs": 3}).recipe == {"base": recipe, "epochs": 3}
    assert Experiment.of(model=model, recipe={"base": "imagenet"}).recipe == {"base": "imagenet"}
    assert Experiment.of(model=model, recipe="food101").recipe == "food101"


def test_other_models_must_name_a_recipe() -> None:
    for recipe in ({}, {"recipe": {"epochs": 3}}):
        content: dict[str, Any] = {"model": "torchvision:resnet50", **recipe}
        if recipe:
            assert Experiment.of(**content).recipe == {"epochs": 3}  # may be whole: its fields are judged later
        else:
            with pytest.raises(InputError, match="recipe: missing.*digits-cnn, small-cnn, resnet18-cifar only"):
                Experiment.of(**content)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("fractions: [10, 30]", r"fractions: got \[10, 30\], .*percentages: divide by 100"),
        ("fractions: [0.5, -1]", r"fractions: got .*expected shares between 0 and 1$"),
        ("fractions: [0]", "at least one share above 0"),
        ("fractions: [true]", r"shares removed such as"),
        ("fraction: [0.1]", "fraction: unknown key. Did you mean 'fractions'. Known: data, model"),
        ("data: {sorce: digits}", "data.sorce: unknown key. Did you mean 'source'. Known: source, size"),
        (
            "methods: {a: {train: x, tst: y}}",
            "methods.a.test: missing.*methods.a.tst: unknown key. Did you mean 'test'",
        ),
        ("methods: {a: 3}", "methods.a: got 3, expected text"),
        ("methods: [ig, ig]", "'ig' is there twice"),
        ("methods: []", "methods: got .*expected a list of names"),
        ("methods: {random: ig}", "'random' stands for random masks"),
        ("order: lerff", "order: got 'lerff', expected 'morf', 'lerf' or 'both'"),
        ("repeats: 0", "repeats: got 0, expected greater than or equal to 1"),
        ("repeats: '3'", "repeats: got '3', expected a whole number"),
        ("repeats: true", "repeats: got True, expected a whole number"),
        ("repeats: 010", "repeats: got '010', expected a whole number"),
        ("repeats:", "repeats: got None, expected a whole number"),
        ("noise: -1", "noise: got -1, expected greater than or equal to 0"),
        ("noise: .nan", "noise: got nan"),
        ("compare_road: 1", "compare_road: got 1, expected true or false"),
        ("data: {size: a}", r"data.size: got 'a', expected a positive whole number or a pair \[height, width\]"),
        ("data: {size: [1, 2, 3]}", "data.size: got"),
        ("data: {size: [0, 3]}", "data.size: got"),
        ("data: {channels: 2}", "data.channels: got 2, expected 1, 3 or 4"),
        ("data: {test_share: 1}", "data.test_share: got 1, expected less than 1"),
        ("data: ''", "data.source: got '', expected text that is not empty"),
        ("memory: 2 apples", "memory: got '2 apples', expected a number of bytes, or text such as 2GB"),
        ("memory: 0", "memory: got 0"),
        ("model: [a]", r"model: got \['a'\], expected keys and values"),
        ("model: {normalize: [0.5, 0.2]}", "model.normalize: got .*a pair .mean, std. of lists"),
        ("maps: {target: lable}", "maps.target: got 'lable', expected 'predicted' or 'label'"),
        ("random_masks: often", "random_masks: got 'often'"),
        ("select: best", "select: got 'best', expected 'last' or 'validation'"),
    ],
)
def test_a_fault_is_told_in_one_line(tmp_path: Path, line: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        load_experiment(write(tmp_path, line))
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "experiment.yaml") in str(caught.value)


def test_many_faults_are_counted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a: unknown key.*b: unknown key.*c: unknown key.*; and 2 more"):
        load_experiment(write(tmp_path, "a: 1\nb: 1\nc: 1\nd: 1\ne: 1\n"))


def test_a_file_is_read_strictly(tmp_path: Path) -> None:
    for text, words in (
        ("seed: 1\nseed: 2\n", "line 2, column 1: the key 'seed' is there twice"),
        ("- a\n", "got a list"),
    ):
        with pytest.raises(InputError, match=words):
            load_experiment(write(tmp_path, text))


def test_overrides_win_and_reach_into_shorthands(tmp_path: Path) -> None:
    path = write(tmp_path, "data: planted\nmaps: {settings: roar}\nrepeats: 7\nrecipe: digits\n")
    changes = ["repeats=2", "data.size=16", "maps.settings.ig_steps=5", "recipe.learning_rate=1e-2", "order=lerf"]
    found = load_experiment(path, changes)
    assert (found.repeats, found.order) == (2, "lerf")
    assert (found.data.source, found.data.size) == ("planted", 16)
    assert found.maps.settings == {"base": "roar", "ig_steps": 5}
    assert found.recipe == {"base": "digits", "learning_rate": 0.01}
    assert load_experiment(path, {"repeats": 2, "data": "digits"}).data == load_experiment().data


def test_overrides_that_cannot_be_read() -> None:
    with pytest.raises(InputError, match="got 'x', expected key=value"):
        load_experiment(None, ["x"])
    with pytest.raises(InputError, match="value of 'a'"):
        load_experiment(None, ["a=["])
    with pytest.raises(InputError, match="repeats is 3, which has no keys"):
        load_experiment(None, {"repeats": 3, "repeats.x": 1})
    with pytest.raises(InputError, match="data.size.x: data.size is 3"):
        load_experiment(None, {"data.size": 3, "data.size.x": 1})


def test_paths_start_at_the_file_and_those_of_overrides_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    path = write(
        tmp_path / "deep",
        "data: parquet:../cifar\nmodel: {weights: w.safetensors}\n"
        "methods: {ig: ig, mine: {train: a.npy, test: $HOME/b.npy}}\n",
    )
    found = load_experiment(path)
    assert found.data.source == f"parquet:{tmp_path}/cifar"
    assert found.model.weights == f"{tmp_path}/deep/w.safetensors"
    mine = found.methods["mine"]
    assert not isinstance(mine, str)
    assert (mine.train, mine.test) == (f"{tmp_path}/deep/a.npy", f"{tmp_path}/deep/$HOME/b.npy")
    records = load_experiment(
        write(
            tmp_path / "deep",
            "methods: {a: 'tfrecord:IG/*', b: {train: 'tfrecord:../IG/t*', test: b.npy}}\n",
            "r.yaml",
        )
    )
    both = f"tfrecord:{tmp_path}/deep/IG/*"
    assert {name: method.model_dump() for name, method in records.methods.items()} == {
        "a": {"train": both, "test": both},
        "b": {"train": f"tfrecord:{tmp_path}/IG/t*", "test": f"{tmp_path}/deep/b.npy"},
    }
    assert load_experiment(write(here, dump(records))) == records
    changed = load_experiment(path, ["data.source=folder:photos", "model.weights=DEFAULT"])
    assert changed.data.source == f"folder:{here}/photos"
    assert changed.model.weights == "DEFAULT"
    again = load_experiment(write(here, dump(found)))
    assert again == found, "a dump means the same from anywhere"


def test_a_dump_holds_every_key_and_comes_back() -> None:
    experiment = Experiment.of(
        data={"source": "digits", "size": (8, 9)},
        model={"name": "small-cnn", "normalize": [[0.5], [0.25]]},
        methods={"ig": "ig", "mine": {"train": "a.npy", "test": "b.npy"}, "no": "grad", "1e-3": "gb"},
        memory="512MiB",
        noise=1e-9,
    )
    text = dump(experiment)
    content = parse_yaml(text, "dump")
    assert list(content) == list(Experiment.model_fields)
    assert content["memory"] == 512 * 2**20
    assert Experiment.of(**content) == experiment
    assert dump(Experiment.of(**content)) == text


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    methods=st.dictionaries(names.filter(lambda name: name != "random"), names, min_size=1, max_size=4),
    seed=st.integers(-(2**40), 2**40),
    fractions=st.none() | st.lists(st.floats(0.001, 1), min_size=1, max_size=4),
    noise=st.none() | st.floats(0, 1e3),
    recipe=st.dictionaries(names, st.integers() | st.booleans() | names | st.floats(-1e9, 1e9), min_size=1),
)
def test_any_experiment_survives_its_dump(
    methods: dict[str, str], seed: int, fractions: Any, noise: Any, recipe: Any
) -> None:
    experiment = Experiment.of(methods=methods, seed=seed, fractions=fractions, noise=noise, recipe=recipe)
    assert Experiment.of(**parse_yaml(dump(experiment), "dump")) == experiment


def test_an_experiment_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Experiment.of().repeats = 5  # type: ignore[misc]


def test_smoke_keeps_the_way_and_shrinks_the_work() -> None:
    whole = Experiment.of(
        fractions=[0.1, 0.5, 0.9],
        recipe={"base": "imagenet", "learning_rate": 0.2},
        repeats=5,
        imputers=["mean", "zero"],
        maps={"settings": "roar-code"},
        snapshots=4,
        data={"source": "digits", "train": 500},
    )
    small = smoke(whole)
    assert small.recipe == {"base": "imagenet", "learning_rate": 0.2, "epochs": 1, "warmup_epochs": 0}
    assert small.fractions == (0.1, 0.9)
    assert (small.repeats, small.snapshots, small.data.per_class, small.data.train) == (1, 1, 2, None)
    assert small.maps.settings["base"] == "roar-code"  # type: ignore[index]
    assert (small.methods, small.imputers) == (whole.methods, whole.imputers)
    assert smoke(small) == small
    check_names(small.model_copy(update={"model": Experiment.of().model}))


def test_what_changed_is_named() -> None:
    old = Experiment.of()
    assert changed_keys(old, old) == []
    new = Experiment.of(data={"source": "digits", "size": 16}, methods=["ig", "lrp"], seed=4, recipe={"epochs": 2})
    keys = changed_keys(Experiment.of(methods=["ig", "gb"]), new)
    assert keys == ["data.size", "recipe", "methods.gb", "methods.lrp", "seed"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods": ["gradcm"]}, "Did you mean 'gradcam'"),
        ({"methods": {"mine": {"train": "no.npy", "test": "no.npy"}}}, "no.npy"),
        ({"imputers": ["meen"]}, "Did you mean 'mean'"),
        ({"strategy": "roa"}, "Did you mean 'roa[rd]'"),
        ({"strategy": "road"}, "trains nothing.*roadworthy road --strategy road"),
        ({"recipe": "digitz"}, "Did you mean 'digits'"),
        ({"data": "digitz"}, "Did you mean 'digits'"),
        ({"model": "smal-cnn", "recipe": "digits"}, "Did you mean 'small-cnn'"),
        ({"maps": "rood"}, "Did you mean 'road'"),
        ({"maps": {"settings": {"base": "road", "ig_step": 3}}}, "Did you mean 'ig_steps'"),
        ({"maps": {"settings": {"ig_steps": 0}}}, "ig_steps is 0"),
    ],
)
def test_names_are_checked_before_anything_is_trained(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        check_names(Experiment.of(**changes))


def test_good_names_pass() -> None:
    check_names(Experiment.of(methods={"mine": "ig", "inverse:mine": "inverse:mine", "random": "random"}))


def test_reading_an_experiment_needs_no_torch() -> None:
    code = (
        "import sys; from roadworthy.sweep.experiment import *; smoke(load_experiment(None, ['seed=1'])); "
        "sys.exit('torch' in sys.modules or 'ray' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.yaml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_files_are_experiments(path: Path) -> None:
    found = load_experiment(path)
    check_names(found)
    assert "random" in found.methods
    assert smoke(found).repeats == 1


def test_recipes_of_ones_own_are_files_beside_the_experiment(tmp_path: Path) -> None:
    write(tmp_path, "base: digits\nepochs: 3\n", "mine.yaml")
    for line in ("recipe: mine.yaml", "recipe: {base: mine.yaml, batch_size: 32}"):
        found = load_experiment(write(tmp_path, line))
        check_names(found)
        whole = completed(found)
        assert isinstance(whole.recipe, dict)
        assert whole.recipe["epochs"] == 3
        assert str(tmp_path / "mine.yaml") in dump(found)


def test_a_completed_experiment_says_all_and_plans_the_same_work() -> None:
    asked = Experiment.of(
        data={"source": "digits", "per_class": 3}, methods=["grad", "random"], strategy="roar-2019", fractions=[0.5],
        recipe={"base": "digits", "batch_size": 16}, maps={"settings": {"base": "roar", "samples": 3}},
    )  # fmt: skip
    whole = completed(asked)
    assert all(value is not None for name, value in whole if name not in ("data", "model"))
    assert (whole.order, whole.unit, whole.sign, whole.random_masks) == ("morf", "channel", "squared", "bernoulli")
    assert whole.imputers == ("mean",)
    assert whole.maps.settings["samples"] == 3  # type: ignore[index]
    assert completed(Experiment.of(**parse_yaml(dump(whole), "dump"))) == whole == completed(whole)
    data = open_data(asked.data.model_dump(mode="json"))
    assert [job.key for job in plan(asked, data).jobs] == [job.key for job in plan(whole, data).jobs]


def test_a_bare_off_in_yaml_is_off(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("audit: off\n")
    assert load_experiment(tmp_path / "plain.yaml").audit == "off"
    assert load_experiment().audit == "quick"
    with pytest.raises(InputError, match="audit: got 'never'"):
        load_experiment(None, {"audit": "never"})
