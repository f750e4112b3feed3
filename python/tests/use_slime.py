"""Puts slime where `import slime` finds it: the stand-in, or the checkout that SLIME_REPO names. Its dependencies (torch, ray,
its tokenizers) are replaced by empty modules, because none of our tests compute with them.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from pathlib import Path
from typing import Any

SLIME_REPO = os.environ.get("SLIME_REPO") or None

_ABSENT = ("torch", "ray", "sglang", "sglang_router", "transformers", "tqdm", "pybase64", "numpy")
_LEARNING_ABSENT = ("sglang", "sglang_router", "megatron", "pybase64")
_LEARNING_EMPTIED = ("slime.backends.sglang_utils", "slime.rollout.rm_hub")
"""Modules that are also replaced when slime computes: torch and ray are installed then."""
_EMPTIED = ("slime.backends", "slime.rollout.rm_hub", "slime.utils.processing_utils", "slime.utils.data")


class _Anything:
    """An object on which every operation is a no-op."""

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __getattr__(self, name: str) -> Any:
        return _Anything

    @classmethod
    def choice(cls, values: list[Any]) -> Any:
        return values[0]


class _Empty(types.ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _Alone(types.ModuleType):
    """Megatron's process groups for a single process, which is the first and last of each."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda **_: 1 if "world_size" in name else 0 if "rank" in name else True if name.startswith("is_") else None


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, *names: str) -> None:
        self._names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not any(name == one or name.startswith(f"{one}.") for one in self._names):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Empty(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


def use_slime() -> None:
    if "slime" in sys.modules:
        return
    if SLIME_REPO is None:
        sys.path.insert(0, str(Path(__file__).parent / "stand_in"))
        return
    # Installed packages are used; the others would take gigabytes. Other tests in the process keep their imported modules.
    finder = _Finder(*_ABSENT, *_EMPTIED)
    sys.meta_path.insert(0, finder)
    sys.path.insert(0, SLIME_REPO)
    before = set(sys.modules)
    try:
        import slime.rollout.sglang_rollout  # noqa: F401
        import slime.utils.misc  # noqa: F401
    finally:
        sys.meta_path.remove(finder)
        for name in set(sys.modules) - before:
            if name.split(".")[0] in _ABSENT:
                del sys.modules[name]


def use_learning_slime() -> None:
    """The checkout with its conversion and its loss; modules that serve tokens or distribute work over GPUs are empty."""
    assert SLIME_REPO is not None
    sys.meta_path.insert(0, _Finder(*_LEARNING_ABSENT, *_LEARNING_EMPTIED))
    sys.path.insert(0, SLIME_REPO)
    import megatron.core  # type: ignore[import-not-found]

    megatron.core.mpu = sys.modules["megatron.core.mpu"] = _Alone("megatron.core.mpu")
    # Its __init__ patches megatron, which is not installed.
    package = types.ModuleType("slime.backends.megatron_utils")
    package.__path__ = [str(Path(SLIME_REPO) / "slime" / "backends" / "megatron_utils")]
    sys.modules[package.__name__] = package
