"""Evaluates checkpoints on held-out tasks with the embedded engine, and computes intervals of differences."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from rollout_service import MAIN  # noqa: E402


def passed(model: Path, out: Path, temperature: int, tasks: int) -> dict[str, bool]:
    """Results of the first validation tasks by id, each run once, with the settings that `train` uses for evaluation."""
    command = ["node", str(MAIN), "eval", "--engine", "embedded", "--model", str(model), "--split", "validation"]
    limits = ["--max-new-tokens", "96", "--max-turns", "20", "--temperature", str(temperature)]
    flags = ["--tasks", f"0-{tasks - 1}", "--seed", "1", "--quiet", "--out", str(out)]
    subprocess.run([*command, *limits, *flags], check=True, stdout=subprocess.DEVNULL)
    lines = (out / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
    return {episode["task"]["id"]: episode["reward"] == 1 for episode in map(json.loads, lines)}


def interval(differences: Sequence[int]) -> tuple[float, float, float]:
    """Mean and 95 % bootstrap interval, in percentage points."""
    draw = random.Random(0)
    means = sorted(sum(draw.choices(differences, k=len(differences))) / len(differences) for _ in range(4000))
    return tuple(100 * one for one in (sum(differences) / len(differences), means[100], means[3899]))  # type: ignore[return-value]
