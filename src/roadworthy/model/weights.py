"""Weights on disk: safetensors in and out, ``.pt`` in without running anything that is stored in it."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from roadworthy.errors import InputError, ModelError, did_you_mean, listed
from roadworthy.files import replacing
from roadworthy.model.normalized import per_channel
from roadworthy.types import Normalize

_KEYS = ("state_dict", "model", "model_state_dict")  # what training scripts keep weights under
_ENDINGS = (".pt", ".pth", ".bin", ".ckpt", ".pth.tar", ".pt.tar")
_COUNTER = "num_batches_tracked"  # files older than it lack it; it has no part in evaluation
_SHOWN = 3


def save_weights(
    model: torch.nn.Module,
    path: str | Path,
    *,
    normalize: Normalize | None = None,
    notes: Mapping[str, Any] | None = None,
) -> Path:
    """Write the weights and buffers of a model as safetensors, with its normalisation where it has one.

    A model from :func:`load_model` is stored without its normalising layer, so the file also fits the bare
    network; ``load_model(..., weights=path)`` puts the same normalisation in front again.

    Args:
        model: the model.
        path: where to write; ends in ``.safetensors``. The file appears whole or not at all.
        normalize: ``(mean, std)`` per channel that a bare network was trained behind, to be noted with it.
        notes: more to note, as JSON types; :func:`read_weights` returns them.

    Returns:
        The path.

    Raises:
        InputError: another ending.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_weights(torch.nn.Linear(2, 3), Path(folder) / "linear.safetensors").name
        'linear.safetensors'
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise InputError(f"save_weights: got {str(path)!r}, expected a name that ends in .safetensors")
    body = model.body if hasattr(model, "pixel_mean") and isinstance(model.body, torch.nn.Module) else model
    about: dict[str, Any] = {}
    if normalize is not None:
        about = dict(zip(("pixel_mean", "pixel_std"), map(list, per_channel(normalize)), strict=True))
    elif body is not model:
        about = {"pixel_mean": list(model.pixel_mean), "pixel_std": list(model.pixel_std)}  # type: ignore[arg-type]
    write_weights(body, path, {**about, **(notes or {})})
    return path


def write_weights(model: torch.nn.Module, path: Path, about: Mapping[str, Any]) -> None:
    """Write a state dict to ``path`` in one step; ``about`` is kept as JSON in the file's header."""
    from safetensors.torch import save

    # tied weights share storage, which the format refuses: a copy each
    state = {name: value.detach().cpu().contiguous().clone() for name, value in model.state_dict().items()}
    with replacing(path) as temporary:
        temporary.write_bytes(save(state, metadata={"roadworthy": json.dumps(about)}))


def read_weights(path: str | Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read a state dict, and what :func:`save_weights` noted about it.

    Args:
        path: ``.safetensors``, or ``.pt``, ``.pth``, ``.pth.tar``, ``.bin``, ``.ckpt`` that holds a state dict, bare
            or under ``state_dict``, ``model`` or ``model_state_dict``, or as the only one in a checkpoint.

    Returns:
        The tensors by name, on the CPU, and the notes (empty for other files).

    Raises:
        ModelError: no such file, another format, or a file that would have to run code to be read.
    """
    path = Path(path).expanduser()
    if not path.is_file():
        raise ModelError(_no_file(path))
    _check_start(path)
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if path.name.endswith(_ENDINGS):
        return _state_dict_in(_read_pickle(path), path), {}
    raise ModelError(f"weights: {path.name!r} ends in {path.suffix!r}; expected .safetensors, .pt or .pth")


def _no_file(path: Path) -> str:
    if path.is_dir():
        inside = sorted(file.name for file in path.iterdir() if file.name.endswith((".safetensors", *_ENDINGS)))
        found = f"; in it lie {listed(inside, 5)}" if inside else ""
        return f"weights: {str(path)!r} is a folder, expected a file{found}"
    beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    return f"weights: there is no file {str(path)!r}.{did_you_mean(path.name, beside)}".removesuffix(".")


def _check_start(path: Path) -> None:
    """Refuse a file whose first bytes say that it is something else than its name says."""
    with path.open("rb") as file:
        start = file.read(40)
    fault = ""
    if not start:
        fault = "is empty (0 bytes); copy or download it anew"
    elif start.startswith(b"version https://git-lfs"):
        fault = "is a Git LFS pointer, not the weights themselves; 'git lfs pull' in its repository fetches them"
    elif start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        fault = "is a web page, so what was downloaded is not the file; download it anew"
    elif path.suffix == ".safetensors" and start.startswith(b"PK"):
        fault = "is a PyTorch file by its contents; name it .pt"
    if fault:
        raise ModelError(f"weights: {str(path)!r} {fault}")


def _read_safetensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        about = json.loads(metadata.get("roadworthy", "{}"))
    except (SafetensorError, ValueError, OSError) as error:
        raise ModelError(f"weights: {str(path)!r} is not a safetensors file that can be read: {error}") from error
    return state, about if isinstance(about, dict) else {}


def _read_pickle(path: Path) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # torch's, on what the error below says in one line
            return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"weights: {str(path)!r} is damaged or holds Python objects other than tensors, and loading those could "
            "run code: refused. Where the model is known, save its weights alone: "
            "roadworthy.model.save_weights(model, 'name.safetensors'), or torch.save(model.state_dict(), 'name.pt')"
        ) from error
    except (RuntimeError, ValueError, EOFError, OSError, KeyError) as error:
        if "TorchScript" in str(error):
            raise ModelError(
                f"weights: {str(path)!r} is a TorchScript program, expected weights; where it is trusted, "
                f"torch.save(torch.jit.load({path.name!r}).state_dict(), 'name.pt') takes them out"
            ) from error
        raise ModelError(
            f"weights: {str(path)!r} cannot be read, it may be cut short: copy or download it anew "
            f"({one_line(error)})"
        ) from error


def _state_dict_in(loaded: Any, path: Path) -> dict[str, torch.Tensor]:
    for key in _KEYS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(key), Mapping):
            loaded = loaded[key]
    inner = [value for value in loaded.values() if _is_state_dict(value)] if isinstance(loaded, Mapping) else []
    if len(inner) == 1:
        loaded = inner[0]
    if not isinstance(loaded, Mapping) or not loaded:
        raise ModelError(
            f"weights: {path.name!r} holds {type(loaded).__name__}, expected a state dict (name to tensor)"
        )
    other = [str(name) for name, value in loaded.items() if not isinstance(value, torch.Tensor)]
    if other:
        raise ModelError(
            f"weights: {path.name!r} holds no state dict: {_few(other)} are not tensors; expected a mapping of names "
            f"to tensors, bare or under {', '.join(map(repr, _KEYS))}"
        )
    return {str(name): value for name, value in loaded.items()}


def _is_state_dict(value: Any) -> bool:
    tensors = isinstance(value, Mapping) and all(isinstance(entry, torch.Tensor) for entry in value.values())
    return tensors and len(value) > 0


def load_weights(model: torch.nn.Module, path: str | Path) -> dict[str, Any]:
    """Load weights from a file into a model, in place; every name and shape must fit.

    A prefix that all names share (``module.`` of DataParallel, ``_orig_mod.`` of compile, ``model.`` of Lightning) is
    taken off where the rest then fits.

    Args:
        model: the network the weights belong to.
        path: see :func:`read_weights`.

    Returns:
        What :func:`save_weights` noted, such as ``pixel_mean``.

    Raises:
        ModelError: what does not fit, and the likely cause.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = save_weights(torch.nn.Linear(2, 3), Path(folder) / "linear.safetensors")
        ...     load_weights(torch.nn.Linear(2, 4), path)
        Traceback (most recent call last):
            ...
        roadworthy.errors.ModelError: weights: 'linear.safetensors' does not fit Linear: bias has shape (3,), the \
model (4,); weight has shape (3, 2), the model (4, 2). Likely cause: the file has 3 classes, the model 4; pass \
classes=3 (in Python), or data with a folder for each class that the network was trained on.
    """
    state, about = read_weights(path)
    own = dict(model.state_dict())
    prefix = _prefix(list(own), list(state))
    if all(name.startswith(prefix) for name in state):
        state, prefix = {name.removeprefix(prefix): value for name, value in state.items()}, ""
    missing = [name for name in own if name not in state and not name.endswith(_COUNTER)]
    unexpected = [name for name in state if name not in own]
    shapes = [name for name in own if name in state and own[name].shape != state[name].shape]
    if missing or unexpected or shapes:
        raise ModelError(
            f"weights: {Path(path).name!r} does not fit {type(model).__name__}: "
            + _mismatch(own, state, missing, unexpected, shapes, prefix)
        )
    model.load_state_dict(state, strict=False)
    return about


def _prefix(own: list[str], state: list[str]) -> str:
    """Return what stands before the model's names in the file; empty where they stand alone, or nowhere."""
    if not own or own[0] in state:
        return ""
    ends = [name.removesuffix(own[0]) for name in state if name.endswith(f".{own[0]}")]
    needed = [name for name in own if not name.endswith(_COUNTER)]
    return next((prefix for prefix in sorted(ends, key=len) if all(prefix + name in state for name in needed)), "")


def _mismatch(
    own: Mapping[str, torch.Tensor],
    state: Mapping[str, torch.Tensor],
    missing: list[str],
    unexpected: list[str],
    shapes: list[str],
    prefix: str,
) -> str:
    if prefix:
        others = [name for name in state if not name.startswith(prefix)]
        return (
            f"its names start with {prefix!r}, and beside them are {_few(others)}. Save the network's own state "
            f"dict, such as wrapper.{prefix}state_dict()"
        )
    facts = []
    if missing:
        facts.append(f"the file lacks {_few(missing)}")
    if unexpected:
        facts.append(f"the model has no {_few(unexpected)}")
    facts += [
        f"{name} has shape {tuple(state[name].shape)}, the model {tuple(own[name].shape)}"
        for name in sorted(shapes)[:_SHOWN]
    ]
    if len(shapes) > _SHOWN:
        facts.append(f"and {len(shapes) - _SHOWN} more shapes differ")
    return "; ".join(facts) + f". Likely cause: {_cause(own, state, bool(missing or unexpected), shapes)}."


def _cause(
    own: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor], names_differ: bool, shapes: list[str]
) -> str:
    if names_differ:
        return "the weights are of another architecture"
    first, last = next(iter(own)), list(own)[-2:]
    if all(name in last and own[name].shape[1:] == state[name].shape[1:] for name in shapes):
        there, here = state[shapes[0]].shape[0], own[shapes[0]].shape[0]
        return (
            f"the file has {there} classes, the model {here}; pass classes={there} (in Python), or data with a "
            "folder for each class that the network was trained on"
        )
    if shapes == [first] and own[first].ndim > 1:
        return f"the file takes {state[first].shape[1]} channels, the model {own[first].shape[1]}"
    return "the weights are of another size of this architecture"


def _few(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_SHOWN])
    return shown + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def one_line(error: BaseException) -> str:
    """Return the kind of an error and the first line of its message.

    Example:
        >>> one_line(ValueError("bad\\nworse"))
        'ValueError: bad'
    """
    return f"{type(error).__name__}: {error}".splitlines()[0]
