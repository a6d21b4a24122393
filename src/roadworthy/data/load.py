"""``load_data``: the one way from a specification to a data set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

# each of these registers itself
from roadworthy.data import digits, fashion_mnist, folder, hdf5, parquet, planted, tfrecord, torchvision  # noqa: F401
from roadworthy.data.options import Options, parse_channels, parse_share, parse_size
from roadworthy.data.registry import sources
from roadworthy.errors import InputError, unknown_name
from roadworthy.records import Data
from roadworthy.rng import resolve_seed
from roadworthy.types import Seed


def load_data(
    spec: str,
    *,
    size: int | Sequence[int] | None = None,
    channels: int | None = None,
    seed: Seed = 0,
    test_share: float = 0.2,
) -> Data:
    """Open a data set; images are read and decoded when they are asked for.

    Images are float32 (C, H, W) in [0, 1], upright by their EXIF tag, the first frame of animations. Transparent
    images are laid on white unless ``channels=4``. Where grey and colour mix, all become RGB; whether they do
    is found from a sample of the files.

    Args:
        spec: ``NAME`` or ``NAME:ARGUMENT``; the names are in :data:`roadworthy.data.sources`:
            ``digits``, ``folder:PATH``, ``parquet:PATH``, ``tfrecord:GLOB``, ``hdf5:PATH``,
            ``torchvision:NAME``, ``fashion-mnist[:PATH]``,
            ``planted[:n=2400,test=300,size=24,seed=0]``, ``planted-colour[:...]``.
        size: bring images to (height, width), an integer standing for a square: scaled (antialiased) until they
            cover it, then cropped to the centre.
        channels: 1 (grey), 3 (RGB) or 4 (RGB and alpha); None takes what the images have.
        seed: decides the split of sources that have none, and planted images.
        test_share: share of each class that becomes the test split where a source has none, in (0, 1). A file
            goes by a hash of its id, so it stays on its side when others are added.

    Returns:
        The data set: ``.train`` and ``.test`` (splits), ``.classes``, ``.mean``, ``.std``; planted data also
        ``.relevant``.

    Raises:
        InputError: an unknown source, or an option that cannot be used.
        DataError: nothing usable is there; the message says what was expected.

    Example:
        >>> data = load_data("digits")
        >>> data.train.shape, len(data.train), len(data.test), data.classes[:3]
        ((1, 8, 8), 1438, 359, ('0', '1', '2'))
    """
    if not isinstance(spec, str):
        path = f", here 'folder:{spec}'" if isinstance(spec, Path) else ""
        raise InputError(
            f"data: got {type(spec).__name__}, expected a specification such as 'digits' or 'folder:PATH'{path}"
        )
    name, _, argument = spec.partition(":")
    if spec and name not in sources:
        _refuse_path(spec)
        raise unknown_name("data source", name, sources, _elsewhere(name))
    options = Options(
        spec=spec,
        size=parse_size(size),
        channels=parse_channels(channels),
        seed=resolve_seed(seed),
        test_share=parse_share(test_share),
    )
    return sources[name](argument, options)


def _refuse_path(spec: str) -> None:
    """Refuse a path that does not say what lies there, whether anything does or not."""
    path = Path(spec).expanduser()
    if path.exists():
        kind = "folder" if path.is_dir() else "hdf5"
        raise InputError(
            f"data: {spec!r} is a path; say what lies there: '{kind}:{spec}', 'parquet:{spec}' or 'tfrecord:{spec}'"
        )
    if re.match(r"[.~]?[/\\]|\.\.|[A-Za-z]:\\", spec):
        raise InputError(
            f"data: {spec!r} looks like a path, but nothing lies there; correct it, and say what it is: "
            "'folder:PATH', 'parquet:PATH', 'tfrecord:GLOB' or 'hdf5:PATH'"
        )


def _elsewhere(name: str) -> str | None:
    """Return how a data set of torchvision is written that was named alone."""
    plain = re.sub(r"[^a-z0-9]", "", name.lower())
    return next((f"torchvision:{known}" for known in torchvision.known() if known.lower() == plain), None)
