"""Hashes of models and callables by what they compute, so that what was made with one is not taken for another's.

A model counts with its structure, its state, its plain settings and the code of its own ``forward``; a function with
its bytecode, constants, defaults, and what it reaches through its closure and the globals it names. All of this is
best effort: a file that a function reads, say, is not seen, nor what a hook does.
"""

from __future__ import annotations

import functools
import hashlib
import re
import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from roadworthy.records import Split

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_PART = 256  # samples that are hashed at a time
_DEPTH = 20  # objects within objects; deeper ones count by their type


def model_fingerprint(model: Any) -> str:
    """Hash a model: what it is made of and its state.

    Args:
        model: a module, or a callable; a bound method or a partial of a module counts with the module's state.

    Returns:
        The class (or where the callable is defined) and 16 hexadecimal digits.

    Example:
        >>> import torch
        >>> narrow, wide = torch.nn.MaxPool2d(2), torch.nn.MaxPool2d(3)
        >>> model_fingerprint(narrow) == model_fingerprint(torch.nn.MaxPool2d(2)) != model_fingerprint(wide)
        True
    """
    if not _is_module(model):
        return f"callable:{callable_fingerprint(model)}"
    digest = _Digest()
    digest.module(model)
    return f"{type(model).__name__}:{digest.text()}"


def stated_model(model: Any) -> str:
    """Return the fingerprint of a model for a result to state, or its class where no hash can be taken of it.

    Example:
        >>> import torch
        >>> stated_model(torch.nn.Identity()).partition(":")[0]
        'Identity'
    """
    try:
        return model_fingerprint(model)
    except Exception:  # whatever a strange object raises: the result of hours must not fail for its name
        return type(model).__name__


def callable_fingerprint(function: Any) -> str:
    """Hash a callable by what it computes: code, constants, defaults, closure, and the object it is bound to.

    Args:
        function: a function, method, partial, class, or object with ``__call__``.

    Returns:
        Module, qualified name and 16 hexadecimal digits. Two lambdas of one line differ if their code does.

    Example:
        >>> def scaled(factor):
        ...     return lambda images: factor * images
        >>> callable_fingerprint(scaled(1)) == callable_fingerprint(scaled(1)) != callable_fingerprint(scaled(2))
        True
    """
    digest = _Digest()
    digest.value(function)
    named = function
    while isinstance(named, functools.partial):
        named = named.func
    name = getattr(named, "__qualname__", type(named).__qualname__)
    return f"{getattr(named, '__module__', None) or type(named).__module__}:{name}:{digest.text()}"


def array_hash(array: Any) -> str:
    """Hash values, shape and type of an array, to 16 hexadecimal digits; one on disk is read in parts.

    Example:
        >>> array_hash(np.zeros((2, 3))) == array_hash(np.zeros((2, 3))) != array_hash(np.zeros((3, 2)))
        True
    """
    digest = hashlib.blake2b(f"{tuple(array.shape)} {array.dtype}".encode(), digest_size=8)
    for start in range(0, len(array), _PART):
        digest.update(np.ascontiguousarray(array[start : start + _PART]).tobytes())
    return digest.hexdigest()


def pixels_hash(split: Split, limit: int | None = None) -> str:
    """Hash the images of a split, to 16 hexadecimal digits.

    Args:
        split: the samples; those that cannot be read do not count.
        limit: read at most so many, spread evenly over the split, in runs where its source reads in runs.

    Example:
        >>> from roadworthy.data import load_data
        >>> data = load_data("digits")
        >>> pixels_hash(data.test) == pixels_hash(load_data("digits").test) != pixels_hash(data.test, limit=10)
        True
    """
    count = len(split)
    part = split
    if limit is not None and count > limit:
        run = max(1, min(limit, int(getattr(split.source, "run", 1))))
        starts = np.linspace(0, count - run, limit // run).round().astype(int)
        part = split.subset(np.unique(starts[:, None] + np.arange(run)))
    digest = hashlib.blake2b(digest_size=8)
    for batch in part.batches(_PART):
        digest.update(f"{tuple(batch.images.shape)}".encode())
        digest.update(np.ascontiguousarray(batch.images.numpy()).tobytes())
    return digest.hexdigest()


def _is_module(value: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module)


class _Digest:
    """A hash that takes in values of any kind; where they lie in memory does not count."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)
        self._seen: dict[
            int, tuple[int, Any]
        ] = {}  # by address: when it came, and the object, so that it stays there
        self._depth = 0

    def text(self) -> str:
        return self._hash.hexdigest()

    def note(self, *parts: object) -> None:
        """Take in texts, each with its length, so that "a", "bc" is not "ab", "c"."""
        for part in parts:
            data = part if isinstance(part, bytes) else _ADDRESS.sub("", str(part)).encode()
            self._hash.update(len(data).to_bytes(8, "little"))
            self._hash.update(data)

    def value(self, value: Any) -> None:
        """Take in anything."""
        import torch

        if isinstance(value, _PLAIN):
            self.note(type(value).__name__, repr(value))
        elif id(value) in self._seen:
            self.note("again", self._seen[id(value)][0])
        elif self._depth == _DEPTH:
            self.note("deep", type(value).__qualname__)
        else:
            self._seen[id(value)] = (len(self._seen), value)
            self._depth += 1
            if isinstance(value, torch.nn.Module):
                self.module(value)
            elif isinstance(value, (torch.Tensor, np.ndarray)):
                self.array(value)
            elif isinstance(value, types.CodeType):
                self.code(value)
            elif callable(value):
                self.function(value)
            else:
                self.container(value)
            self._depth -= 1

    def container(self, value: Any) -> None:
        self.note(type(value).__module__, type(value).__qualname__)
        if isinstance(value, Mapping):
            for key, entry in value.items():
                self.value(key)
                self.value(entry)
        elif isinstance(value, (list, tuple)):
            for entry in value:
                self.value(entry)
        elif isinstance(value, (set, frozenset)):
            self.note(*sorted(map(repr, value)))
        elif hasattr(value, "__dict__") and not isinstance(value, types.ModuleType):
            self.value(dict(vars(value)))
        else:
            self.note(repr(value))

    def array(self, value: Any) -> None:
        import torch

        if isinstance(value, np.ndarray):
            self.note(f"{value.dtype}{value.shape}", repr(value) if value.dtype.hasobject else value.tobytes())
            return
        plain = value.detach().cpu().contiguous()
        self.note(f"{plain.dtype}{tuple(plain.shape)}", plain.flatten().view(torch.uint8).numpy().tobytes())

    def module(self, module: Any) -> None:
        """Take in classes, structure, plain settings, code of one's own and state of a torch.nn.Module."""
        import torch

        self.note(repr(module))
        for name, part in module.named_modules():
            kind = type(part)
            self.note(name, kind.__module__, kind.__qualname__)
            for key, value in sorted(_own_attributes(part), key=lambda entry: entry[0]):
                self.note(key)
                self.value(value)
            if isinstance(part, torch.fx.GraphModule):
                self.note(part.code)
            else:
                for function in _own_functions(kind):
                    self.value(function)
        state = {**dict(module.named_buffers()), **module.state_dict()}
        for name, value in state.items():
            self.note(name)
            self.value(value)

    def function(self, function: Any) -> None:
        """Take in a callable and what it reaches."""
        owner = getattr(function, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.value(owner)
        function = getattr(function, "__func__", function)
        if isinstance(function, functools.partial):
            for part in (function.func, function.args, function.keywords):
                self.value(part)
        elif isinstance(function, types.FunctionType):
            self.note(function.__module__, function.__qualname__)
            cells = [_content(cell) for cell in function.__closure__ or ()]
            for reached in (function.__code__, function.__defaults__, function.__kwdefaults__, cells):
                self.value(reached)
            for name, value in _named_globals(function):
                self.note(name)
                self.value(value)
        elif hasattr(function, "__qualname__"):  # a class, a built-in, or a cache around a function
            self.note(function.__module__, function.__qualname__)
            self.value(getattr(function, "__wrapped__", None))
        else:
            self.value(getattr(type(function).__call__, "__code__", None))
            self.container(function)

    def code(self, code: types.CodeType) -> None:
        self.note(code.co_code, *code.co_names)
        for constant in code.co_consts:
            self.value(constant)


def _own_attributes(part: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a module holds beside parameters, buffers and parts; ``training`` is no part of its identity."""
    import torch

    bookkeeping = vars(torch.nn.Module()).keys()  # hooks among it: most only watch
    kinds = (*_PLAIN, list, tuple, dict, set, torch.Tensor, np.ndarray)
    for name, value in vars(part).items():
        if name not in bookkeeping and (isinstance(value, kinds) or callable(value)):
            yield name, value


def _own_functions(kind: type) -> Iterator[types.FunctionType]:
    """Yield the methods that a module's class and its bases define, those of torch left out."""
    for base in kind.__mro__:
        if base is not object and not base.__module__.startswith("torch."):
            yield from (entry for entry in vars(base).values() if isinstance(entry, types.FunctionType))


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _named_globals(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the models, arrays, plain values and functions of the same file that a function names as globals."""
    import torch

    for name in sorted(set(_names(function.__code__))):
        value = function.__globals__.get(name)
        own = isinstance(value, types.FunctionType) and value.__module__ == function.__module__
        if own or isinstance(value, (torch.nn.Module, torch.Tensor, np.ndarray, *_PLAIN[:-1], tuple, list, dict)):
            yield name, value


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
