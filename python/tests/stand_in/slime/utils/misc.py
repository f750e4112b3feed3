"""Loads functions by path, and defines singleton classes."""

from __future__ import annotations

import importlib
from typing import Any


def load_function(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


class SingletonMeta(type):
    _instances: dict[type, Any] = {}

    def __call__(cls, *given: Any, **named: Any) -> Any:
        if cls not in SingletonMeta._instances:
            SingletonMeta._instances[cls] = super().__call__(*given, **named)
        return SingletonMeta._instances[cls]

    def clear_instances(cls) -> None:
        SingletonMeta._instances.clear()
