"""Trains an adapter (LoRA) of a causal language model: gradients of a policy loss, AdamW, checkpoints that hold the adapter only.

The caller weights the tokens (advantages, shares of the loss); this module runs the forward and backward passes. Sequences with
a common beginning are computed as one tree of tokens, so the shared part of a group is computed only once in both directions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, set_peft_model_state_dict  # type: ignore[import-not-found]
from peft.utils import load_peft_weights  # type: ignore[import-not-found]

from .errors import ConfigurationError
from .torch_masks import kept_logprobs, packed

__all__ = ["FewRowsLinear", "Learner", "LossOptions", "LossSequence"]

CORRECTED_FROM = 0.01
"""Difference of logprobs from which a token's weight is corrected. Rounding in 32 bits stays below 1e-4, in bfloat16 near 0.02."""
LARGEST_RATIO = 2.0
"""Truncation of a corrected weight: a rare token must not decide a step."""
_MOST_FEW_ROWS = 128
"""Rows of the input up to which a linear layer is computed the other way round."""
_TARGETS_AT_ONCE = 128
"""Number of targets whose logits exist at a time: with a vocabulary of 152,000 they take several times 78 MB in 32 bits."""


@dataclass(frozen=True)
class LossSequence:
    tokens: Sequence[int]
    targets: Sequence[int]
    """Positions of the tokens in the loss, ascending, never 0. The other lists are aligned with it."""
    weights: Sequence[float]
    advantages: Sequence[float]
    sampled_logprobs: Sequence[float] | None = None
    reference_logprobs: Sequence[float] | None = None
    kept: Sequence[Sequence[int]] | None = None
    """Ids from which each target was sampled; its logprobs are then over them. `None`: over the whole vocabulary."""


@dataclass(frozen=True)
class LossOptions:
    clip_low: float | None = None
    """`None` with `clip_high`: no ratio."""
    clip_high: float | None = None
    kl: float = 0.0
    entropy: float = 0.0


@dataclass(frozen=True)
class _Tree:
    """Several sequences as one tree: each shared token occurs once, however many sequences begin with it."""

    tokens: torch.Tensor
    positions: torch.Tensor
    sees: torch.Tensor
    """[tokens, tokens], true where the row's token attends to the column's."""
    members: list[tuple[int, list[int]]]
    """Index of a sequence, and for each of its targets the node whose output predicts it."""


def trees(sequences: Sequence[LossSequence], most_tokens: int) -> Iterator[_Tree]:
    """Each sequence belongs to one tree; a tree has at most `most_tokens` tokens, unless a single sequence has more."""
    # Nothing after the last target is needed, and the last target is only predicted.
    needed = [list(one.tokens[: one.targets[-1]]) if one.targets else [] for one in sequences]
    begun: list[tuple[int, list[int], list[int]]] = []
    """Index, tokens, and the nodes of those tokens."""
    size = 0
    for number in sorted(range(len(sequences)), key=lambda number: needed[number]):
        tokens = needed[number]
        if not tokens:
            continue
        common = _common(begun[-1][1], tokens) if begun else 0
        if begun and size + len(tokens) - common > most_tokens:
            yield _tree(begun, size, sequences)
            begun, size, common = [], 0, 0
        nodes = (begun[-1][2][:common] if begun else []) + list(range(size, size + len(tokens) - common))
        size += len(tokens) - common
        begun.append((number, tokens, nodes))
    if begun:
        yield _tree(begun, size, sequences)


def _tree(begun: list[tuple[int, list[int], list[int]]], size: int, sequences: Sequence[LossSequence]) -> _Tree:
    tokens, positions = torch.zeros(size, dtype=torch.long), torch.zeros(size, dtype=torch.long)
    sees = torch.zeros(size, size, dtype=torch.bool)
    filled = 0
    for _, own, nodes in begun:
        common = next((place for place, node in enumerate(nodes) if node >= filled), len(nodes))
        places = torch.tensor(nodes)
        new = places[common:]
        tokens[new], positions[new] = torch.tensor(own[common:], dtype=torch.long), torch.arange(common, len(own))
        sees[new[:, None], places[None, :]] = torch.arange(common, len(own))[:, None] >= torch.arange(len(own))[None, :]
        filled += len(new)
    members = [(number, [nodes[target - 1] for target in sequences[number].targets]) for number, _, nodes in begun]
    return _Tree(tokens, positions, sees, members)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    shorter = min(len(one), len(other))
    return next((place for place in range(shorter) if one[place] != other[place]), shorter)


class FewRowsLinear(torch.nn.Linear):
    """A linear layer that is two to three times faster for the few rows of a decoding step on a CPU.

    MKL multiplies a weight by a narrow matrix faster than a flat matrix by a transposed weight, which is what torch asks of it:
    `npm run bench -- torch-linear` compares both.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        rows = input.numel() // self.in_features
        if rows > _MOST_FEW_ROWS or input.device.type != "cpu" or torch.is_grad_enabled():
            return super().forward(input)
        output = (self.weight @ input.reshape(rows, self.in_features).t()).t().contiguous()
        if self.bias is not None:
            output = output + self.bias
        return output.reshape(*input.shape[:-1], self.out_features)


class Learner:
    """The adapter of `model` (transformers), also used for sampling. Hold the sampler's lock while a method runs.

    `rank` is that of the adapter, on every linear layer except the output. `most_tokens` bounds one forward pass. `saves_memory`
    recomputes the activations of a layer when they are needed (gradient checkpointing): a third slower, with a fifth of the
    memory.
    """

    def __init__(
        self, model: Any, *, rank: int = 16, most_tokens: int = 2048, saves_memory: bool = True, seed: int = 0
    ) -> None:
        torch.manual_seed(seed)
        for module in model.modules():
            if type(module) is torch.nn.Linear:
                module.__class__ = FewRowsLinear
        settings = LoraConfig(r=rank, lora_alpha=2 * rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
        self.model, self.wrapped = model, get_peft_model(model, settings)
        self.wrapped.eval()
        if saves_memory:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self._most_tokens = most_tokens
        self._parameters = [one for one in self.wrapped.parameters() if one.requires_grad]
        self._optimizer = torch.optim.AdamW(self._parameters, lr=0.0, betas=(0.9, 0.95), weight_decay=0.0)
        self._has_gradients = False

    @property
    def trained_parameters(self) -> int:
        return sum(one.numel() for one in self._parameters)

    def accumulate(self, sequences: Sequence[LossSequence], options: LossOptions) -> dict[str, Any]:
        """Adds the gradients of these sequences to those of earlier calls. Sums and outcomes have the names that the TypeScript
        trainer uses; `mismatch` compares with the logprobs of sampling."""
        totals = {"loss": 0.0, "entropy": 0.0, "kl": 0.0, "clipped": 0.0, "mismatch_kl": 0.0, "compared": 0, "corrected": 0}
        outcomes = self._passes(sequences, options, totals)
        self._has_gradients = True
        compared = totals.pop("compared")
        totals["mismatch_kl"] = totals["mismatch_kl"] / compared if compared else 0.0
        return {**totals, "sequences": outcomes}

    def evaluate(self, sequences: Sequence[LossSequence], *, base: bool = False) -> list[dict[str, list[float]]]:
        """Logprobs and entropies at the targets; `base`: those of the model without its adapter."""
        with torch.inference_mode(), self.wrapped.disable_adapter() if base else nullcontext():
            return self._passes(sequences, None, {})

    def update(self, learning_rate: float, max_gradient_norm: float | None, weight_decay: float) -> float:
        """One step of AdamW. Returns the norm of the gradients before they are clipped; if it is not finite, nothing
        changes."""
        if not self._has_gradients:
            raise ConfigurationError("Cannot update: no gradients are gathered; call accumulate before.")
        self._has_gradients = False
        norm = torch.nn.utils.clip_grad_norm_(self._parameters, max_gradient_norm or float("inf"))
        if torch.isfinite(norm):
            for group in self._optimizer.param_groups:
                group["lr"], group["weight_decay"] = learning_rate, weight_decay
            self._optimizer.step()
        self._optimizer.zero_grad()
        return float(norm)

    def save(self, folder: Path) -> None:
        """Writes the adapter in peft's format, and the state of AdamW."""
        self.wrapped.save_pretrained(folder)
        torch.save(self._optimizer.state_dict(), folder / "optimizer.pt")

    def load(self, folder: Path) -> None:
        """Loads the adapter, and the optimizer if present, from a folder that `save` wrote."""
        try:
            weights = load_peft_weights(str(folder), device="cpu")
            found = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
            outcome = set_peft_model_state_dict(self.wrapped, weights)
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise ConfigurationError(
                f"Cannot load the adapter in {folder}: {error}; pass the folder of a checkpoint of this model."
            ) from error
        if outcome.unexpected_keys or found.get("r") != self.wrapped.peft_config["default"].r:
            raise ConfigurationError(
                f"Cannot load the adapter in {folder}: its rank is {found.get('r')} and it has {len(outcome.unexpected_keys)} tensors that this model "
                "lacks; use a checkpoint of the same model and rank."
            )
        state = folder / "optimizer.pt"
        if state.exists():
            self._optimizer.load_state_dict(torch.load(state, weights_only=True))

    def _passes(
        self, sequences: Sequence[LossSequence], options: LossOptions | None, totals: dict[str, Any]
    ) -> list[dict[str, list[float]]]:
        """`options` is `None` for logprobs only."""
        device = self._parameters[0].device
        outcomes: list[dict[str, list[float]]] = [{"logprobs": [], "entropies": []} for _ in sequences]
        # Gradient checkpointing requires the training mode; nothing else here depends on it.
        self.model.train(options is not None)
        try:
            for tree in trees(sequences, self._most_tokens):
                hidden = self.model.model(
                    input_ids=tree.tokens[None].to(device),
                    attention_mask=tree.sees[None, None].to(device),
                    position_ids=tree.positions[None].to(device),
                    use_cache=False,
                ).last_hidden_state[0]
                places = [(number, index, node) for number, nodes in tree.members for index, node in enumerate(nodes)]
                gathered = hidden[torch.tensor([node for _, _, node in places], device=device)]
                # Logits exist for some targets at a time: their gradients are collected here and passed into the layers once.
                cut = gathered.detach().requires_grad_(options is not None)
                for begin in range(0, len(places), _TARGETS_AT_ONCE):
                    chunk = places[begin : begin + _TARGETS_AT_ONCE]
                    part = cut[begin : begin + len(chunk)]
                    self._targets(
                        part, [(sequences[number], index, outcomes[number]) for number, index, _ in chunk], options, totals
                    )
                if options is not None:
                    gathered.backward(cut.grad)
        finally:
            self.model.eval()
        return outcomes

    def _targets(
        self,
        hidden: torch.Tensor,
        targets: list[tuple[LossSequence, int, dict[str, list[float]]]],
        options: LossOptions | None,
        totals: dict[str, Any],
    ) -> None:
        device = hidden.device

        def column(values: list[Any]) -> torch.Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)

        rows = torch.log_softmax(self.model.lm_head(hidden).float(), -1)
        ids = torch.tensor([one.tokens[one.targets[index]] for one, index, _ in targets], device=device)
        logprobs = rows.gather(-1, ids[:, None])[:, 0]
        cut = {place: one.kept[index] for place, (one, index, _) in enumerate(targets) if one.kept is not None}
        if cut:
            places = torch.tensor(list(cut), device=device)
            logprobs = logprobs.index_copy(0, places, kept_logprobs(rows[places], ids[places], *packed(list(cut.values()))))
        needs_entropy = options is not None and options.entropy != 0
        with nullcontext() if needs_entropy else torch.no_grad():
            entropies = -(rows.exp() * rows).sum(-1)
        for (_, _, outcome), logprob, entropy in zip(targets, logprobs.tolist(), entropies.tolist(), strict=True):
            outcome["logprobs"].append(logprob)
            outcome["entropies"].append(entropy)
        if options is None:
            return
        weights = column([one.weights[index] for one, index, _ in targets])
        advantages = column([one.advantages[index] for one, index, _ in targets])
        knows = column([float(one.sampled_logprobs is not None) for one, _, _ in targets]) > 0
        sampled = column([0.0 if one.sampled_logprobs is None else one.sampled_logprobs[index] for one, index, _ in targets])
        difference = torch.where(knows, logprobs.detach() - sampled, 0.0)
        totals["mismatch_kl"] += float((difference.exp() - 1 - difference).sum())
        totals["compared"] += int(knows.sum())
        if options.clip_low is None or options.clip_high is None:
            is_off = difference.abs() > CORRECTED_FROM
            totals["corrected"] += int(is_off.sum())
            correction = torch.where(is_off, difference.exp().clamp(max=LARGEST_RATIO), 1.0)
            losses = -advantages * correction * logprobs
        else:
            ratio = (logprobs - sampled).exp()
            bound = ratio.clamp(1 - options.clip_low, 1 + options.clip_high)
            losses = -torch.minimum(ratio * advantages, bound * advantages)
            totals["clipped"] += int(((bound != ratio) & (bound * advantages < ratio * advantages)).sum())
        if options.kl != 0:
            reference = column([one.reference_logprobs[index] for one, index, _ in targets])  # type: ignore[index]
            distance = (reference - logprobs) ** 2 / 2
            losses = losses + options.kl * distance
            totals["kl"] += float((weights * distance.detach()).sum())
        if needs_entropy:
            losses = losses - options.entropy * entropies
        loss = (weights * losses).sum()
        totals["loss"] += float(loss.detach())
        totals["entropy"] += float((weights * entropies.detach()).sum())
        loss.backward()
