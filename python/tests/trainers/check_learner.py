"""Compares the project's own learner with plain torch on the same rows: the same steps from the same weights, and equal
learning.

`train` makes LEARNER_STEPS steps and writes the rows of each (scripts/verify/trained-rows.mjs); torch makes those steps from
them, with autograd and its own AdamW. Then each of the first 420 validation tasks is run by the first weights and by both trained
ones, at temperature 1 and greedily.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

sys.path.insert(0, str(Path(__file__).parent.parent))

from held_out import interval, passed  # noqa: E402
from rollout_service import ROOT  # noqa: E402
from trainable_agents.torch_grpo import group_advantages, group_loss  # noqa: E402

MODEL = ROOT / "models" / "bookshop-1m"
STEPS = int(os.environ.get("LEARNER_STEPS") or 2)
TASKS = 420 if STEPS > 2 else 42
LEARNING_RATE, WARM_UP = 3e-4, 5


def load(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def torch_steps(model: Any, steps: list[list[list[dict[str, Any]]]]) -> float:
    """Returns the largest difference between a recorded logprob and torch's."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    drift = 0.0
    for number, groups in enumerate(steps):
        optimizer.param_groups[0]["lr"] = LEARNING_RATE * min(1, (number + 1) / WARM_UP)
        graded = [[row for row in rows if row["reward"] is not None] for rows in groups]
        tokens = sum(sum(row["loss_mask"]) for rows in graded for row in rows)
        largest = 0.0
        for rows in graded:
            part = group_loss(model, rows, group_advantages(rows))
            (part.loss / tokens).backward()
            largest = max(largest, part.drift)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        drift = max(drift, largest)
        print(f"step {number + 1}  groups {len(graded)}  trained tokens {tokens}  largest difference {largest:.1e}", flush=True)
    return drift


class Learner(unittest.TestCase):
    def test_same_rows_same_steps(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        folder = Path(temporary.name)
        began = time.monotonic()
        script = ROOT / "scripts" / "verify" / "trained-rows.mjs"
        made = subprocess.run(
            ["node", str(script), str(MODEL), str(folder), str(STEPS)], check=True, stdout=subprocess.PIPE, text=True
        )
        ours, theirs = Path(made.stdout.strip().splitlines()[-1]), folder / "torch"
        steps = [json.loads(line) for line in (folder / "steps.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertEqual(len(steps), STEPS)
        model, before = load(MODEL), load(MODEL)
        torched = time.monotonic()
        drift = torch_steps(model, steps)
        done = time.monotonic()
        model.save_pretrained(theirs)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(ours / name, theirs / name)

        first, own = before.state_dict(), load(ours).state_dict()
        both = [(own[name] - first[name], weights - first[name]) for name, weights in model.state_dict().items()]
        moved = torch.cat([one.flatten() for one, _ in both]), torch.cat([one.flatten() for _, one in both])
        alike = float(torch.nn.functional.cosine_similarity(*moved, dim=0))
        print(
            f"learner: {STEPS} steps of {sum(map(len, steps))} groups, {torched - began:.0f} s with their episodes; torch "
            f"{torch.__version__} on the same rows {done - torched:.0f} s; logprobs within {drift:.1e}; cosine of the changes {alike:.4f}"
        )
        # AdamW divides by noise if a gradient is almost zero: a few weights differ because of rounding, and no more than that.
        self.assertGreater(alike, 0.99)
        for how, temperature in (("at temperature 1", 1), ("greedily", 0)):
            was, mine, others = (
                passed(weights, folder / f"{name}-{temperature}", temperature, TASKS)
                for name, weights in (("before", MODEL), ("ours", ours), ("torch", theirs))
            )
            gains = [interval([mine[task] - was[task] for task in was]), interval([others[task] - was[task] for task in was])]
            apart = interval([others[task] - mine[task] for task in was])
            rates = " ".join(f"{100 * sum(one.values()) / len(one):.1f} %" for one in (was, mine, others))
            said = ", ".join(f"{name} {mean:+.1f} ({low:.1f} to {high:.1f})" for name, (mean, low, high) in zip(("ours", "torch", "torch less ours"), (*gains, apart), strict=True))
            print(f"{TASKS} tasks {how}: {rates}; points: {said}", flush=True)
            self.assertLessEqual(apart[1], 0)
            self.assertGreaterEqual(apart[2], 0)


if __name__ == "__main__":
    unittest.main()
