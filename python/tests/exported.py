"""Fixtures that the tests share: the rows that scripts/verify/export-fixtures.mjs wrote, and the samples they were made
from."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from trainable_agents.formats import read_rows

FOLDER = Path(os.environ["EXPORTED_ROWS"])
KINDS = ("jsonl", "parquet")
FORMATS = ("slime", "verl", "atropos", "verifiers", "tinker", "trl", "sft", "sft-tokens", "preferences")


def samples() -> list[dict[str, Any]]:
    """The samples, ordered by group, episode and branch."""
    return json.loads((FOLDER / "samples.json").read_text(encoding="utf-8"))


def rows(name: str, kind: str = "jsonl") -> list[dict[str, Any]]:
    return list(read_rows(FOLDER / f"{name}.{kind}"))


def path(name: str, kind: str) -> str:
    return str(FOLDER / f"{name}.{kind}")
