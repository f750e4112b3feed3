"""Logprobs over the ids that top-k, top-p or min-p kept: the distribution that the tokens were sampled from, in torch.

`trainable_agents.formats.sampling_mask` reads the kept ids of a row. A loss with these logprobs compares the trained policy with
the logprobs of the row, which are over the same ids if its `truncated` says "kept".
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["kept_logprobs", "packed"]


def packed(lists: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Offsets and ids of these lists, one for each token."""
    sizes = torch.tensor([0, *(len(one) for one in lists)])
    return sizes.cumsum(0), torch.tensor([int(one) for kept in lists for one in kept], dtype=torch.long)


def kept_logprobs(
    logits: torch.Tensor, targets: torch.Tensor, offsets: torch.Tensor, ids: torch.Tensor, *, temperature: float = 1.0
) -> torch.Tensor:
    """The logprob of each target among its kept ids, [tokens] in 32 bits; gradients reach the logits of kept ids only.

    `logits`: [tokens, vocabulary]. `targets`: [tokens]. `ids[offsets[t] : offsets[t + 1]]` are those of token `t`, the target
    among them. Memory grows with the number of kept ids, not with the vocabulary. Raises `ValueError` for kept ids that are not
    those of these targets.
    """
    count = len(targets)
    targets, offsets, ids = (one.to(logits.device, torch.long) for one in (targets, offsets, ids))
    if logits.shape[0] != count or len(offsets) != count + 1 or int(offsets[0]) != 0 or int(offsets[-1]) != len(ids):
        raise ValueError(
            f"Cannot renormalize {count} tokens: there are logits for {logits.shape[0]}, and kept ids for {len(offsets) - 1}; pass those of the same tokens."
        )
    if count == 0:
        return logits.new_zeros(0, dtype=torch.float32)
    owners = torch.repeat_interleave(torch.arange(count, device=logits.device), offsets.diff())
    has_target = torch.zeros(count, dtype=torch.bool, device=logits.device)
    has_target[owners[ids == targets[owners]]] = True
    if not bool(has_target.all()):
        missing = int((~has_target).nonzero()[0])
        raise ValueError(
            f"Cannot renormalize token {missing}: {int(targets[missing])} is not among its kept ids; pass those of its own row and position."
        )
    kept = logits[owners, ids].float() / temperature
    highest = torch.full((count,), -torch.inf, device=logits.device).scatter_reduce(0, owners, kept.detach(), "amax")
    sums = torch.zeros(count, device=logits.device).index_add(0, owners, (kept - highest[owners]).exp())
    own = logits.gather(-1, targets[:, None])[:, 0].float() / temperature
    return own - highest - sums.log()
