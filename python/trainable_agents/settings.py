"""Settings for reaching the service and making requests: from the trainer's arguments, else from environment variables.

slime's --custom-config-path adds the names of a YAML file to its arguments, so everything can also be set there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from .connection import DEFAULT_URL
from .errors import ConfigurationError


@dataclass(frozen=True)
class Settings:
    url: str
    """`trainable_agents_url`, TRAINABLE_AGENTS_URL. Default: http://127.0.0.1:8800."""
    token: str | None
    """`trainable_agents_token`, TRAINABLE_AGENTS_TOKEN."""
    split: str | None
    """`trainable_agents_split`, TRAINABLE_AGENTS_SPLIT. A sample's metadata takes precedence. Default: the service's own."""
    eval_split: str | None
    """`trainable_agents_eval_split`, TRAINABLE_AGENTS_EVAL_SPLIT. Same as above, for evaluation."""
    engine: str
    """`trainable_agents_engine`, TRAINABLE_AGENTS_ENGINE. "router": the trainer's engine, named in every request. "service":
    the engine that the service was started with. Default: router."""
    restarts: int
    """`trainable_agents_restarts`, TRAINABLE_AGENTS_RESTARTS. Number of times that an episode is run again after a transient
    failure. Default: 1."""
    branches: str
    """`trainable_agents_branches`, TRAINABLE_AGENTS_BRANCHES. Return value of `generate`. "one": a sample. "list": a list of
    the samples of the episode, for a service with --history branch. Default: one."""


def read_settings(args: Any) -> Settings:
    """Raises `ConfigurationError` for a value that cannot be used."""
    engine = _setting(args, "engine") or "router"
    if engine not in ("router", "service"):
        raise ConfigurationError(f'Cannot use TRAINABLE_AGENTS_ENGINE "{engine}": it is router or service.')
    restarts = _setting(args, "restarts") or "1"
    if not restarts.isdecimal():
        raise ConfigurationError(f'Cannot use TRAINABLE_AGENTS_RESTARTS "{restarts}": expected a whole number.')
    branches = _setting(args, "branches") or "one"
    if branches not in ("one", "list"):
        raise ConfigurationError(f'Cannot use TRAINABLE_AGENTS_BRANCHES "{branches}": it is one or list.')
    return Settings(
        url=_setting(args, "url") or DEFAULT_URL,
        token=_setting(args, "token"),
        split=_setting(args, "split"),
        eval_split=_setting(args, "eval_split"),
        engine=engine,
        restarts=int(restarts),
        branches=branches,
    )


def _setting(args: Any, name: str) -> str | None:
    value = getattr(args, f"trainable_agents_{name}", None)
    if value is None:
        value = os.environ.get(f"TRAINABLE_AGENTS_{name.upper()}")
    return None if value is None or value == "" else str(value)
