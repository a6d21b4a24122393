"""One root for every error a user can cause or meet, so that the command can print one line and exit."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable


class RoadworthyError(Exception):
    """Root of all errors that this package raises on purpose."""


class InputError(RoadworthyError, ValueError):
    """What was passed in cannot be used; the message names what came, what was expected and the way out."""


class DataError(InputError):
    """A data set or one of its samples cannot be read."""


class ModelError(InputError):
    """A model cannot be loaded, or what it returns cannot be used."""


class AttributionError(InputError):
    """An attribution cannot be computed or used."""


class SolverError(RoadworthyError, ArithmeticError):
    """A numerical method did not reach its tolerance; the message carries the outcome and the advice."""


class MissingExtraError(RoadworthyError, ImportError):
    """An optional package is needed; the message names the command that installs it."""


class RoadworthyWarning(UserWarning):
    """Something the user should know although the work goes on."""


def listed(names: Iterable[object], limit: int = 10) -> str:
    """Write names for a message, the first ``limit`` of them and how many there are.

    Example:
        >>> listed(["a", "b"]), listed(["a", "b", "c"], limit=2)
        ("'a', 'b'", "'a', 'b', ... (3 in all)")
    """
    shown = [repr(name) for name in names]
    more = f", ... ({len(shown)} in all)" if len(shown) > limit else ""
    return ", ".join(shown[:limit]) + more


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest of the known names, or an empty string.

    Example:
        >>> did_you_mean("gradcm", ["gradcam", "ig"])
        " Did you mean 'gradcam'?"
    """
    spelled = {entry.lower(): entry for entry in known}
    close = difflib.get_close_matches(name.lower(), list(spelled), n=1, cutoff=0.6)
    return f" Did you mean '{spelled[close[0]]}'?" if close else ""


def unknown_name(kind: str, name: object, known: Iterable[str], elsewhere: str | None = None) -> InputError:
    """Build the error for a name that is not registered.

    Args:
        kind: what the name stands for, in the singular (``"imputer"``).
        name: what came.
        known: the names that would have been accepted.
        elsewhere: what is meant, where the name is one that other software uses.

    Returns:
        The error, to be raised by the caller.

    Example:
        >>> str(unknown_name("imputer", "meen", ["mean", "zero"]))
        "Unknown imputer 'meen'. Did you mean 'mean'? Known: mean, zero."
    """
    names = sorted(known)
    parts = [part for part in re.split(r"[^\w.:-]+", str(name)) if part]
    if parts != [str(name)] and parts and set(parts) <= set(names):
        hint = f" Give each name by itself: {', '.join(map(repr, parts))} (for the command {','.join(parts)})."
    else:
        hint = f" Did you mean '{elsewhere}'?" if elsewhere else did_you_mean(str(name), names)
    return InputError(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(names)}.")
