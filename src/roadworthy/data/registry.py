"""The table of sources; each file of this folder registers its own under the name a specification starts with."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from roadworthy.data.options import Options
from roadworthy.records import Data
from roadworthy.registry import Registry

Loader: TypeAlias = Callable[[str, Options], Data]
"""Takes what stands behind the colon of the specification ('' if nothing does) and the options."""

sources: Registry[Loader] = Registry("data source")
