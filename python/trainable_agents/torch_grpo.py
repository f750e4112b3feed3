"""GRPO in plain torch and transformers: takes a producer's batches, makes one AdamW step per batch, and returns the weights to
the engine.

`python -m trainable_agents.torch_grpo --model models/bookshop-1m --engine http://127.0.0.1:30000 --to weights`, next to
`trainable-agents engine --weight-version 0` and `trainable-agents serve --engine sglang`. For a model that fits one process;
larger ones are for slime, verl or TRL. A group is one packed sequence: the common beginning of its episodes is computed once,
which is most of the work on a CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM  # type: ignore[import-not-found]

from .client import Client
from .connection import PATIENCE
from .engine import load_weights
from .torch_masks import kept_logprobs, packed

__all__ = ["group_advantages", "group_loss", "train"]

Row = dict[str, Any]

LOOK_SECONDS = 15.0
"""Seconds between checks of the producer while waiting for a batch."""
SILENT_BATCHES = 8
"""Number of consecutive batches without a learning signal after which the training ends."""


@dataclass(frozen=True)
class GroupLoss:
    loss: torch.Tensor
    """Summed over the trained tokens of the group."""
    tokens: int
    drift: float
    """Largest difference between the model's logprob and the recorded one."""
    kl: float
    """KL(sampler || model) in nats, estimated at each trained token and summed."""


def group_advantages(rows: Sequence[Row]) -> list[float]:
    """One advantage per row: the reward of its episode minus the group's mean, divided by the group's standard deviation. An
    episode counts once, however many rows it has; rows without a reward must be removed beforehand."""
    rewards = {row["metadata"]["episode_id"]: float(row["reward"]) for row in rows}
    mean, spread = statistics.fmean(rewards.values()), statistics.pstdev(rewards.values())
    return [(float(row["reward"]) - mean) / (spread + 1e-6) for row in rows]


def group_loss(
    model: Any,
    rows: Sequence[Row],
    advantages: Sequence[float],
    *,
    temperature: float = 1.0,
    clip: float = 0.2,
    masks: Sequence[tuple[Any, Any]] | None = None,
) -> GroupLoss:
    """The clipped loss of PPO over the tokens of slime rows whose mask is 1, each with its recorded logprob.

    `masks`: the kept ids of each row (`formats.sampling_mask`); the model's logprobs are then over them, as the recorded ones
    are. Default: over the whole vocabulary.
    """
    prefix = _common_prefix([row["tokens"] for row in rows])
    # The last common token predicts the first one that differs, so it belongs to the prefix; each row keeps at least one token.
    prefix = min(prefix, *(len(row["tokens"]) - row["response_length"] for row in rows))
    tokens, positions, owner = list(rows[0]["tokens"][:prefix]), list(range(prefix)), [-1] * prefix
    at, targets, old, weights = [], [], [], []
    kept: list[Any] = []
    for number, (row, advantage) in enumerate(zip(rows, advantages, strict=True)):
        begin, first = len(tokens), len(row["tokens"]) - row["response_length"]
        tokens += row["tokens"][prefix:]
        positions += range(prefix, len(row["tokens"]))
        owner += [number] * (len(row["tokens"]) - prefix)
        for place, mask in enumerate(row["loss_mask"]):
            if mask:
                index = first + place
                at.append(prefix - 1 if index == prefix else begin + index - prefix - 1)
                targets.append(row["tokens"][index])
                old.append(row["rollout_log_probs"][place])
                weights.append(advantage)
                if masks is not None:
                    offsets, ids = masks[number]
                    kept.append(ids[offsets[place] : offsets[place + 1]])
    owners = torch.tensor(owner)
    # A token attends to the common beginning and to earlier tokens of its own row.
    sees = torch.tril((owners[:, None] == owners[None, :]) | (owners[None, :] == -1))
    # [1, 1, tokens, tokens], added to the attention's scores.
    bias = torch.zeros(sees.shape).masked_fill(~sees, torch.finfo(torch.float32).min)[None, None]
    hidden = model.model(
        input_ids=torch.tensor([tokens]), attention_mask=bias, position_ids=torch.tensor([positions]), use_cache=False
    ).last_hidden_state[0, at]
    logits = model.lm_head(hidden).float()
    if masks is None:
        new = torch.log_softmax(logits / temperature, -1).gather(-1, torch.tensor(targets)[:, None])[:, 0]
    else:
        new = kept_logprobs(logits, torch.tensor(targets), *packed(kept), temperature=temperature)
    difference = new - torch.tensor(old)
    ratio, weight = difference.exp(), torch.tensor(weights)
    loss = -torch.minimum(ratio * weight, ratio.clamp(1 - clip, 1 + clip) * weight).sum()
    apart = difference.detach()
    return GroupLoss(loss, len(at), float(apart.abs().max()), float((apart.expm1() - apart).sum()))


def train(
    model: Any,
    *,
    service: str | None = None,
    engine: str,
    folder: Path,
    groups: int = 12,
    episodes: int = 8,
    learning_rate: float = 4e-4,
    max_staleness: int = 0,
    minutes: float = 12,
    steps: int | None = None,
    split: str | None = None,
    version: int = 0,
    source: Path | None = None,
    say: Any = print,
) -> int:
    """Trains until `minutes` or `steps` are used up, or groups no longer have a learning signal; prints the reason and returns
    the last version. `model` has the engine's weights, named `version` there. Checkpoints are written to `folder`, which the
    engine can read, with the tokenizer of the model folder `source`. The time limit also ends a wait for groups."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=0.0)
    training = uuid.uuid4().hex
    deadline = time.monotonic() + 60 * minutes

    async def begin() -> str:
        async with Client(service, patience=PATIENCE) as client:
            producer = await client.start_producer(
                episodes,
                groups,
                split=split,
                max_staleness=max_staleness,
                filters=["zero-signal"],
                weight_version=version,
                training=training,
                sampling_params={"temperature": 1.0},
            )
            return producer["id"]

    async def take(number: int, waits: _Waits) -> list[list[Row]] | None:
        """`None` if there is a reason to stop, which is in `waits`."""
        async with Client(service, patience=PATIENCE) as client:
            taking = asyncio.ensure_future(client.take(producer, number))
            try:
                while not (await asyncio.wait({taking}, timeout=min(LOOK_SECONDS, max(0.1, deadline - time.monotonic()))))[0]:
                    state = await client.producer(producer)
                    if waits.look(int(state["dropped"].get("zero-signal", 0)), time.monotonic() > deadline, say):
                        return None
                batch = await taking
                waits.newest = int((await client.producer(producer))["dropped"].get("zero-signal", 0))
            finally:
                taking.cancel()
        return [[row for row in group["rows"] if row["reward"] is not None] for group in batch["groups"]]

    async def end() -> None:
        async with Client(service, patience=PATIENCE) as client:
            await client.cancel_producer(producer)

    producer = asyncio.run(begin())
    number = 0
    waits = _Waits(most_silent=SILENT_BATCHES * groups)
    try:
        while time.monotonic() < deadline and (steps is None or number < steps):
            started = time.monotonic()
            batch = asyncio.run(take(number, waits))
            if batch is None:
                break
            if not batch:
                waits.reason = "the service has no further groups"
                break
            played = time.monotonic()
            tokens = sum(sum(row["loss_mask"]) for rows in batch for row in rows)
            drift, kl, compared = 0.0, 0.0, 0
            for rows in batch:
                if len(rows) > 1:
                    part = group_loss(model, rows, group_advantages(rows))
                    (part.loss / tokens).backward()
                    drift, kl, compared = max(drift, part.drift), kl + part.kl, compared + part.tokens
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            number, version = number + 1, version + 1
            checkpoint = folder / str(version)
            load_weights(
                checkpoint,
                version,
                engine=engine,
                service=service,
                save=model.save_pretrained,
                training=training,
                mismatch={"mean_kl": kl / compared, "largest": drift} if compared else None,
            )
            for name in () if source is None else ("tokenizer.json", "tokenizer_config.json"):
                shutil.copy(source / name, checkpoint / name)
            rewards = [row["reward"] for rows in batch for row in rows]
            silent = waits.taken(statistics.fmean(rewards) if rewards else 0.0)
            say(
                f"step {number}  groups {len(batch)}  without signal {silent}  trained tokens {tokens}  mean reward {statistics.fmean(rewards):.3f}  "
                f"largest difference of a logprob {drift:.1e}  seconds {played - started:.1f} to wait, "
                f"{time.monotonic() - played:.1f} to learn"
            )
        else:
            waits.reason = "the steps are made" if number == steps else f"the {minutes:g} minutes are over"
        say(f"stopped at version {version}: {waits.reason}")
    finally:
        asyncio.run(end())
    return version


@dataclass
class _Waits:
    """Progress while waiting for a batch: groups that were dropped because all their rewards were equal."""

    most_silent: int
    dropped: int = 0
    said: int = 0
    """Number of dropped groups at the last batch, and when they were last reported."""
    last_reward: float | None = None
    reason: str = ""
    newest: int = 0

    def look(self, dropped: int, is_late: bool, say: Any) -> bool:
        """True if the wait must end."""
        self.newest, silent = dropped, dropped - self.dropped
        if is_late:
            self.reason = f"the minutes are over, {silent} groups without signal after the last batch"
            return True
        if silent >= self.most_silent:
            self.reason = f"{silent} groups in a row had no signal: {self._guess()}"
            return True
        if silent > self.said:
            self.said = silent
            say(f"waiting: {silent} groups without signal so far")
        return False

    def taken(self, mean_reward: float) -> int:
        """Called when a batch is taken. Returns the number of groups without a learning signal before it, as far as they were
        observed."""
        silent, self.dropped, self.said, self.last_reward = self.newest - self.dropped, self.newest, 0, mean_reward
        return silent

    def _guess(self) -> str:
        if self.last_reward is None:
            return "no episode earns more than another; begin with easier tasks, or with a model that sometimes passes"
        return f"the episodes of a task all earn the same, and the last batch earned {self.last_reward:.2f} on average"


def _common_prefix(sequences: Sequence[Sequence[int]]) -> int:
    shortest = min(len(one) for one in sequences)
    return next((at for at in range(shortest) if len({one[at] for one in sequences}) > 1), shortest)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m trainable_agents.torch_grpo", description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="the checkpoint that the engine serves")
    parser.add_argument("--engine", required=True, help="address of the engine")
    parser.add_argument("--url", default=None, help="address of the service; default: TRAINABLE_AGENTS_URL, or its usual port")
    parser.add_argument("--to", type=Path, required=True, help="folder for the checkpoints, which the engine sees")
    parser.add_argument("--minutes", type=float, default=12)
    parser.add_argument("--steps", type=int, default=None, help="at most so many; default: as many as fit")
    parser.add_argument("--groups", type=int, default=12, help="of a batch")
    parser.add_argument("--episodes", type=int, default=8, help="of a group")
    parser.add_argument("--learning-rate", type=float, default=4e-4)
    parser.add_argument("--max-staleness", type=int, default=0)
    parser.add_argument("--split", default=None, help="default: the service's own")
    given = parser.parse_args(argv)
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32)
    version = train(
        model,
        service=given.url,
        engine=given.engine,
        folder=given.to,
        groups=given.groups,
        episodes=given.episodes,
        learning_rate=given.learning_rate,
        max_staleness=given.max_staleness,
        minutes=given.minutes,
        steps=given.steps,
        split=given.split,
        source=given.model,
        say=lambda line: print(line, flush=True),
    )
    print(given.to / str(version))
    return 0


if __name__ == "__main__":
    sys.exit(main())
