"""``digits``: scikit-learn's copy of the UCI handwritten digits, 1,797 real images of 8 x 8; no download.

Source: Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998 (the test part of it).
"""

from __future__ import annotations

import numpy as np

from roadworthy.data.arrays import ArraySource
from roadworthy.data.options import Options
from roadworthy.data.registry import sources
from roadworthy.data.splits import stratified_split
from roadworthy.errors import InputError
from roadworthy.records import Data, Split
from roadworthy.rng import numpy_generator

_LEVELS = 16  # values are counts of black pixels in 4 x 4 blocks, 0 to 16


@sources.register("digits", "1,797 handwritten digits of 8 x 8 pixels, part of scikit-learn; no download")
def load_digits(argument: str, options: Options) -> Data:
    """Load the digits with a seeded split that is stratified by class.

    Raises:
        InputError: something stands behind the colon.
    """
    if argument:
        raise InputError(f"data: 'digits' takes nothing behind a colon, got {argument!r}")
    from sklearn import datasets

    bunch = datasets.load_digits()
    labels = np.asarray(bunch.target, dtype=np.int64)
    images = (bunch.images / _LEVELS).astype(np.float32)
    source = ArraySource(images, labels, [f"digits:{row}" for row in range(len(labels))], options)
    train, test = stratified_split(
        labels, test_share=options.test_share, generator=numpy_generator(options.seed, "digits-split")
    )
    classes = [str(digit) for digit in range(10)]
    return Data(options.spec, Split(source, "train", train), Split(source, "test", test), classes, seed=options.seed)
