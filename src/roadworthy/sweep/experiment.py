"""The experiment file: every choice of a sweep by name, checked before anything is trained, and without torch.

A file holds what differs from the defaults; :func:`dump` writes all of it. Relative paths in a file start at the
file's own folder, so that an experiment means the same wherever it is called from; a dump has absolute paths.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)

from roadworthy.errors import InputError
from roadworthy.sweep.checks import check_names
from roadworthy.sweep.paths import (
    absolute_imputers,
    absolute_maps,
    absolute_paths,
    absolute_recipe,
    absolute_source,
    absolute_weights,
)
from roadworthy.sweep.settings_file import override, parse_assignments, told
from roadworthy.sweep.values import as_bytes, as_fills, as_methods, as_normalize, as_settings, as_shares, as_size
from roadworthy.types import Reduction, Sign, Unit
from roadworthy.yaml_files import read_yaml, to_yaml

__all__ = [
    "DataSpec",
    "Experiment",
    "MapsSpec",
    "ModelSpec",
    "SavedMaps",
    "changed_keys",
    "check_names",
    "dump",
    "fingerprint",
    "load_experiment",
    "smoke",
]

RECIPES = {"digits-cnn": "digits", "small-cnn": "fast-cifar", "resnet18-cifar": "fast-cifar"}
"""The recipe of a model that names none."""
METHODS = ("grad", "ixg", "ig", "ig-sg", "ig-sq", "gb", "random", "sobel")
MEMORY = 2 * 1024**3
SHORTHANDS = {"data": "source", "model": "name", "recipe": "base", "maps.settings": "base"}
"""What may be written as a single text, and the key that the text is for."""
_SMOKE_SHARES = (0.3, 0.7)
_SMOKE_MAPS = {"ig_steps": 4, "samples": 2, "shap_samples": 4, "lime_samples": 20, "kernel_shap_samples": 20}

Positive: TypeAlias = Annotated[int, Field(ge=1)]
Text: TypeAlias = Annotated[str, Field(min_length=1)]
Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]


class _Spec(BaseModel):
    # strict: no text for a number, no True for 1; what may be lenient says so itself
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class DataSpec(_Spec):
    """The data of a sweep.

    Attributes:
        source: as :func:`roadworthy.load_data` takes it; a path in it becomes absolute.
        size: bring images to (height, width), one number for a square; None leaves them.
        channels: 1, 3 or 4; None takes what the images have.
        seed: of the split of sources that have none, and of the samples drawn below.
        test_share: share of the test split where a source has none, in (0, 1).
        train: so many training samples, drawn; None takes all.
        test: so many test samples, drawn; None takes all.
        per_class: at most so many samples of each class in either split, drawn; None takes all.
    """

    source: Annotated[Text, BeforeValidator(absolute_source)] = "digits"
    size: Annotated[int | tuple[int, int] | None, BeforeValidator(as_size)] = None
    channels: Literal[1, 3, 4] | None = None
    seed: int = 0
    test_share: Share = 0.2
    train: Positive | None = None
    test: Positive | None = None
    per_class: Positive | None = None


class ModelSpec(_Spec):
    """The network of a sweep.

    Attributes:
        name: as :func:`roadworthy.load_model` takes it, by name.
        weights: of the model that the maps explain: a file (made absolute) or the name of a published set. None: the
            first unmodified training of the sweep is explained. Retrained networks always start fresh.
        normalize: ``"auto"``, ``"imagenet"``, None, or (mean, std) per channel.
    """

    name: Text = "digits-cnn"
    weights: Annotated[str | None, BeforeValidator(absolute_weights)] = None
    normalize: Annotated[
        Literal["auto", "imagenet"] | tuple[tuple[float, ...], tuple[float, ...]] | None,
        BeforeValidator(as_normalize),
    ] = "auto"


class SavedMaps(_Spec):
    """Maps of a method that are in files already.

    Attributes:
        train: maps of the training split: ``.npy``, ``.npz``, ``.zarr``, ``tfrecord:PATTERN`` or what else
            :func:`open_maps` reads.
        test: maps of the test split.
    """

    train: Annotated[Text, BeforeValidator(absolute_maps)]
    test: Annotated[Text, BeforeValidator(absolute_maps)]


class MapsSpec(_Spec):
    """How attribution maps are made.

    Attributes:
        settings: a named set of parameters, or a mapping of parameters on top of the set called ``base``.
        target: the class that is explained, ``"predicted"`` or ``"label"``.
        max_batch: images in one pass through the model.
    """

    settings: Annotated[str | dict[str, Any], BeforeValidator(as_settings)] = "road"
    target: Literal["predicted", "label"] = "predicted"
    max_batch: Positive = 256


def _kind_of_method(value: Any) -> str:
    return "~saved" if isinstance(value, (Mapping, SavedMaps)) else "~name"


Source: TypeAlias = Annotated[
    Annotated[Text, Tag("~name")] | Annotated[SavedMaps, Tag("~saved")], Discriminator(_kind_of_method)
]


def _short(value: Any, key: str) -> Any:
    return {key: value} if isinstance(value, str) else value


class Experiment(_Spec):
    """A sweep: what is trained, on what, and how it is compared. None means the strategy's own value.

    Attributes:
        data: the data; a text stands for its source.
        model: the network; a text stands for its name.
        recipe: how it is trained: a name, a ``.yaml`` file (made absolute), or a mapping of changes to the recipe
            called ``base``. By default the one that fits the model.
        strategy: a preset that retrains: ``roar``, ``kar``, ``roar-2019``.
        methods: name -> attribution method, or files of maps (a ``tfrecord:PATTERN`` alone holds those of both
            splits); a list of methods names each by itself.
        order: which units go first: the most relevant, the least relevant, or both in turn.
        fractions: shares removed, in (0, 1]; 0 is always evaluated.
        imputers: what fills removed units; each is a result of its own. A network trained for it is given with its
            file (made absolute): ``gain:FILE``.
        noise: sd of noisy-linear's noise, in pixel units.
        unit: ``"pixel"`` or ``"channel"``.
        sign: how signed values are ranked.
        reduction: how the channels of a map are reduced.
        random_masks: of the random treatment: ``"fixed"`` per image with an exact count, ``"redrawn"`` every epoch,
            or ``"bernoulli"``, redrawn with the count right on average only.
        repeats: independent trainings of each kind.
        seed: of every random draw; repeat r derives its own from it.
        maps: how the maps are made; a text stands for its settings.
        select: ``"last"`` epoch, or the best on a ``"validation"`` split of the training samples; never on the test.
        validation_share: share of the training samples set aside for ``select="validation"``, in (0, 1).
        compare_road: also score the base model without retraining, for comparison.
        audit: whether masks of the training samples give their class away: ``"quick"``, ``"thorough"`` or ``"off"``.
        snapshots: keep the weights every so many epochs for ``roadworthy eval``; 0 keeps none.
        keep_weights: keep the final weights of every training.
        memory: bytes of samples held in memory at a time, for each training.
        max_batch: images in one pass where nothing is trained.
        processes_per_trial: processes that share one training.

    Example:
        >>> experiment = Experiment.of(data="digits", model="digits-cnn", methods=["ig", "random"])
        >>> experiment.recipe, experiment.data.source, dict(experiment.methods)
        ('digits', 'digits', {'ig': 'ig', 'random': 'random'})
    """

    data: Annotated[DataSpec, BeforeValidator(lambda value: _short(value, "source"))] = DataSpec()
    model: Annotated[ModelSpec, BeforeValidator(lambda value: _short(value, "name"))] = ModelSpec()
    recipe: Annotated[str | dict[str, Any], BeforeValidator(as_settings), BeforeValidator(absolute_recipe)]
    strategy: Text = "roar"
    methods: Annotated[dict[Text, Source], BeforeValidator(as_methods), Field(min_length=1)] = {
        name: name for name in METHODS
    }
    order: Literal["morf", "lerf", "both"] | None = None
    fractions: Annotated[tuple[float, ...] | None, BeforeValidator(as_shares)] = None
    imputers: Annotated[tuple[str, ...] | None, BeforeValidator(as_fills), BeforeValidator(absolute_imputers)] = None
    noise: Annotated[float, Field(ge=0)] | None = None
    unit: Unit | None = None
    sign: Sign | None = None
    reduction: Reduction | None = None
    random_masks: Literal["fixed", "redrawn", "bernoulli"] | None = None
    repeats: Positive = 3
    seed: int = 0
    maps: Annotated[MapsSpec, BeforeValidator(lambda value: _short(value, "settings"))] = MapsSpec()
    select: Literal["last", "validation"] = "last"
    validation_share: Share = 0.1
    compare_road: bool = True
    # YAML reads a bare off as false
    audit: Annotated[
        Literal["quick", "thorough", "off"], BeforeValidator(lambda value: "off" if value is False else value)
    ] = "quick"
    snapshots: Annotated[int, Field(ge=0)] = 0
    keep_weights: bool = False
    memory: Annotated[int, BeforeValidator(as_bytes), Field(ge=1)] = MEMORY
    max_batch: Positive = 256
    processes_per_trial: Positive = 1

    @model_validator(mode="before")
    @classmethod
    def _with_recipe(cls, content: Any) -> Any:
        """Put the recipe that fits the model where none is named."""
        if not isinstance(content, Mapping):
            return content
        given = content.get("recipe")
        if isinstance(given, str) or (isinstance(given, Mapping) and "base" in given):
            return content
        model = content.get("model", ModelSpec())
        name = model.get("name", ModelSpec().name) if isinstance(model, Mapping) else getattr(model, "name", model)
        base = RECIPES.get(name) if isinstance(name, str) else "digits"  # a model without a name is refused anyway
        if given is None and base is not None:
            return {**content, "recipe": base}
        if isinstance(given, Mapping) and base is not None:
            return {**content, "recipe": {"base": base, **given}}
        return content

    @model_validator(mode="after")
    def _random_is_random(self) -> Self:
        if self.methods.get("random", "random") != "random":
            raise ValueError("methods: 'random' stands for random masks; give other maps another name")
        return self

    @classmethod
    def of(cls, **fields: Any) -> Experiment:
        """Make an experiment from the fields given, with shorthands as in a file.

        Raises:
            InputError: one line that names each wrong key, its value and what was expected.
        """
        return _validated(fields, "experiment")


def _validated(content: Mapping[str, Any], where: str) -> Experiment:
    try:
        return Experiment.model_validate(content)
    except ValidationError as error:
        hint = ""
        if any(fault["loc"] == ("recipe",) and fault["type"] == "missing" for fault in error.errors()):
            hint = f". A recipe comes by itself with {', '.join(RECIPES)} only; for other models name one"
        raise InputError(f"{where}: {told(error, Experiment)}{hint}") from error


def load_experiment(path: str | Path | None = None, overrides: Mapping[str, Any] | Iterable[str] = ()) -> Experiment:
    """Read an experiment file and change it.

    Args:
        path: a YAML file; None starts from the defaults. Relative paths in it start at the file's folder.
        overrides: dotted keys to values, or ``key=value`` texts with YAML values; they win over the file. Relative
            paths in them start at the current folder.

    Returns:
        The experiment, complete but for the strategy's own values (None).

    Raises:
        InputError: one line that names each wrong key, its value and what was expected.

    Example:
        >>> load_experiment(None, ["data.per_class=2", "methods=[ig, random]"]).data.per_class
        2
    """
    content: dict[str, Any] = {}
    if path is not None:
        file = Path(path).expanduser()
        content = absolute_paths(read_yaml(file), file.absolute().parent)
    changes = dict(overrides) if isinstance(overrides, Mapping) else parse_assignments(overrides)
    where = "experiment" if path is None else str(path)
    return _validated(override(content, changes, SHORTHANDS), where)


def dump(experiment: Experiment) -> str:
    """Write an experiment as YAML with every default written out; :func:`load_experiment` gives it back.

    Example:
        >>> print(dump(load_experiment())[:53])
        data: {source: digits, size: null, channels: null, se
    """
    return to_yaml(experiment.model_dump(mode="json"))


def fingerprint(experiment: Experiment) -> str:
    """Hash an experiment as it was asked for; a sweep's folder notes it.

    Example:
        >>> fingerprint(load_experiment()) == fingerprint(Experiment.of()) != fingerprint(Experiment.of(seed=1))
        True
    """
    return hashlib.blake2b(dump(experiment).encode(), digest_size=8).hexdigest()


def smoke(experiment: Experiment) -> Experiment:
    """Return the smallest experiment that goes the same way: two images a class, one epoch, one repeat, two shares.

    All methods and fills stay; methods of many passes take few, so the maps are rough and the numbers mean nothing.

    Example:
        >>> small = smoke(load_experiment())
        >>> small.data.per_class, small.repeats, small.fractions, small.recipe
        (2, 1, (0.3, 0.7), {'base': 'digits', 'epochs': 1, 'warmup_epochs': 0})
    """
    recipe = {"base": experiment.recipe} if isinstance(experiment.recipe, str) else experiment.recipe
    settings = experiment.maps.settings
    base = {"base": settings} if isinstance(settings, str) else settings
    shares = experiment.fractions or _SMOKE_SHARES
    changes = {
        "data": experiment.data.model_copy(update={"per_class": 2, "train": None, "test": None}),
        "recipe": {**recipe, "epochs": 1, "warmup_epochs": 0},
        "repeats": 1,
        "fractions": tuple(sorted({shares[0], shares[-1]})),
        "maps": experiment.maps.model_copy(update={"settings": {**base, **_SMOKE_MAPS}}),
        "snapshots": min(experiment.snapshots, 1),
    }
    return experiment.model_copy(update=changes)


def changed_keys(old: Experiment, new: Experiment) -> list[str]:
    """Return the dotted keys in which two experiments differ, in the order of the file.

    Example:
        >>> changed_keys(load_experiment(), load_experiment(None, {"data.train": 100, "seed": 1}))
        ['data.train', 'seed']
    """
    return _differences(old.model_dump(mode="json"), new.model_dump(mode="json"), "")


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str) -> list[str]:
    found: list[str] = []
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping) and prefix == "" and key != "recipe":
            found += _differences(before, after, f"{key}.")
        elif before != after or (key in old) != (key in new):
            found.append(prefix + key)
    return found
