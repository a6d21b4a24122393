"""What sources of encoded images share, whatever they keep them in."""

from __future__ import annotations

from typing import Protocol

from roadworthy.data.decode import header_channels
from roadworthy.errors import DataError
from roadworthy.records import Source

_HEADERS_READ = 256


class EncodedSource(Source, Protocol):
    """A source that has its images as the bytes of image files."""

    def encoded(self, index: int) -> bytes:
        """Return the encoded bytes of one image.

        Raises:
            DataError: there are none.
        """
        ...


def common_channels(source: EncodedSource) -> int | None:
    """Return 3 when any of the first headers has colour; None leaves each image as it is."""
    for index in range(min(_HEADERS_READ, len(source.labels))):
        try:
            if header_channels(source.encoded(index)) == 3:
                return 3
        except DataError:  # named when the sample is read
            continue
    return None
