"""Proof that a row still holds what was sampled: each turn of it is hashed again and compared with its digest.

A digest covers the tokens that a turn was shown and sampled, their logprobs as 32-bit floats, the weight versions, the ids of the
engine's calls, and the digest of the turn before; docs/exporting.md states the bytes. Rows of slime, verl, tinker and TRL hold all
of them. Nothing is asked of the run: `trainable-agents verify-rows` compares rows with its folder.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .errors import RowChanged

__all__ = ["check_row", "check_rows", "check_slime_sample"]


def check_rows(rows: Iterable[Mapping[str, Any]]) -> int:
    """`check_row` for each; returns how many there were."""
    count = 0
    for row in rows:
        check_row(row)
        count += 1
    return count


def check_row(row: Mapping[str, Any]) -> None:
    """Raises `RowChanged`, with episode, turn and token, for a row of slime, verl, tinker or TRL (as `read_rows` yields it, or as
    the service answers) that does not hold what its digests cover, for a row without digests, and for what is no such row."""
    try:
        _check_row(row)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise RowChanged(f"Cannot train on a row: its fields are not those of its format ({error!r:.200}); discard the row.") from error


def _check_row(row: Mapping[str, Any]) -> None:
    facts = row.get("extra_fields") or row.get("metadata") or {}
    # Of verl's loop, which puts the facts of the row under one name.
    facts = facts.get("trainable_agents", facts)
    if "response_mask" in row:
        _check(facts, *_split(row, "prompt_ids", "response_ids", "response_mask", "response_logprobs"))
    elif "env_mask" in row:
        _check(facts, *_split(row, "prompt_ids", "completion_ids", "env_mask", "logprobs"))
    elif "target_tokens" in row:
        logprobs = row["logprobs"]
        tokens = [*row["model_input"][:1], *row["target_tokens"]]
        if list(row["model_input"]) != tokens[:-1]:
            raise RowChanged(f"{_name(facts)}: model_input and target_tokens are of different tokens; discard the row.")
        _check(facts, tokens, [0, *row["mask"]], None if logprobs is None else [0.0, *logprobs])
    elif "loss_mask" in row:
        _check(facts, *_slime(row["tokens"], row["loss_mask"], row["rollout_log_probs"]))
    else:
        raise RowChanged(f"{_name(facts)}: it is no row of slime, verl, tinker or TRL; use trainable-agents verify-rows for others.")


def check_slime_sample(sample: Any) -> None:
    """`check_row` for a sample of slime that `trainable_agents.slime` filled, for example right before its loss."""
    _check(sample.metadata or {}, *_slime(sample.tokens, sample.loss_mask or [], sample.rollout_log_probs))


_Aligned = tuple[Sequence[int], Sequence[float], "Sequence[float] | None"]


def _split(row: Mapping[str, Any], prompt: str, response: str, mask: str, logprobs: str) -> _Aligned:
    before = len(row[prompt])
    known = row[logprobs]
    return (
        [*row[prompt], *row[response]],
        [*[0] * before, *row[mask]],
        None if known is None else [*[0.0] * before, *known],
    )


def _slime(tokens: Sequence[int], mask: Sequence[int], logprobs: Sequence[float] | None) -> _Aligned:
    before = len(tokens) - len(mask)
    return tokens, [*[0] * before, *mask], None if logprobs is None else [*[0.0] * before, *logprobs]


def _check(
    facts: Mapping[str, Any], tokens: Sequence[int], mask: Sequence[float], logprobs: Sequence[float] | None
) -> None:
    digests = facts.get("turn_digests")
    if not digests:
        raise RowChanged(f"{_name(facts)}: it has no turn_digests; export it again, or do not ask for the check.")
    if len(mask) != len(tokens) or (logprobs is not None and len(logprobs) != len(tokens)):
        raise RowChanged(f"{_name(facts)}: its lists are not aligned with its {len(tokens)} tokens; discard the row.")
    end, parent, before = 0, None, None
    for entry in digests:
        shown = end
        turn, start, end = entry["turn"], entry["start"], entry["end"]
        if not shown <= start <= end <= len(tokens):
            raise RowChanged(f"{_name(facts)}, turn {turn}: its places are not in the row; discard the row.")
        trained = next((place for place in range(shown, start) if mask[place] != 0), None)
        if trained is not None:
            raise RowChanged(
                f"{_name(facts)}, turn {turn}, token {trained}: it is in the loss, and the policy did not sample it; discard the row."
            )
        previous = entry["previous"] if "previous" in entry else before
        counts = [start - shown, end - start, 0 if logprobs is None else end - start]
        head = [previous, facts.get("episode_id"), turn, parent, entry["request_ids"], entry["weights"], counts]
        hashed = hashlib.sha256(_json(head))
        hashed.update(_ids(tokens[shown:end], facts, turn))
        if logprobs is not None:
            # Writers of JSON may lose the sign of -0.0, so that digests are those of 0.0.
            hashed.update(_little("f", [one + 0.0 for one in logprobs[start:end]]))
        if hashed.hexdigest() != entry["digest"]:
            raise RowChanged(
                f"{_name(facts)}, turn {turn}, tokens {shown} to {end - 1}: they, their logprobs or their versions are not those that "
                "were sampled; discard the row, and look for what changed it between the service and here."
            )
        parent, before = turn, entry["digest"]
    if end != len(tokens):
        raise RowChanged(f"{_name(facts)}: {len(tokens) - end} tokens follow its last turn; discard the row.")


def _name(facts: Mapping[str, Any]) -> str:
    return f"Cannot train on a row of episode {facts.get('episode_id')}, branch {facts.get('branch')}"


def _json(value: Any) -> bytes:
    """The text that JavaScript writes, and a line feed. It escapes halves of characters, which UTF-8 cannot hold."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text).encode() + b"\n"


def _ids(ids: Sequence[int], facts: Mapping[str, Any], turn: int) -> bytes:
    try:
        whole = [int(one) for one in ids]
        if any(one != other for one, other in zip(whole, ids)):
            raise ValueError("a fraction")
        return _little("I", whole)
    except (OverflowError, TypeError, ValueError) as error:
        raise RowChanged(f"{_name(facts)}, turn {turn}: it holds what is no token id; discard the row.") from error


def _little(kind: str, values: Iterable[float]) -> bytes:
    packed = array(kind, values)
    if sys.byteorder == "big":
        packed.byteswap()
    return packed.tobytes()
