"""Converts exported rows to the objects that trainers expect.

Every function imports its trainer only when it is called. Rows are what `read_rows` yields, or `json.loads` of a line.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]

JSON_COLUMNS = frozenset(
    {
        "metadata",
        "metrics",
        "extra_fields",
        "overrides",
        "group_overrides",
        "generation_params",
        "images",
        "env",
        "task",
        "group",
        "errors",
        "traces",
    }
)
"""Columns that Parquet holds as JSON text, because their shape is not fixed."""


def read_rows(path: str | Path) -> Iterator[dict[str, Any]]:
    """Reads the rows of an exported file, in the same form for every kind of file. Parquet requires pyarrow."""
    path = Path(path)
    if path.suffix != ".parquet":
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)
        return
    import pyarrow.parquet

    for batch in pyarrow.parquet.ParquetFile(path).iter_batches():
        for row in batch.to_pylist():
            yield {name: json.loads(value) if _is_json(name, value) else value for name, value in row.items()}


def _is_json(name: str, value: Any) -> bool:
    return name in JSON_COLUMNS and isinstance(value, str)


def tinker_datum(row: Row) -> Any:
    """A `tinker.Datum` for its policy-gradient losses. The mask is omitted, as tinker's service expects: advantages are 0 where
    it would be 0."""
    import numpy
    from tinker.types import Datum, ModelInput

    inputs = {
        "target_tokens": numpy.asarray(row["target_tokens"], dtype=numpy.int64),
        "advantages": numpy.asarray(row["advantages"], dtype=numpy.float32),
    }
    if row["logprobs"] is not None:
        inputs["logprobs"] = numpy.asarray(row["logprobs"], dtype=numpy.float32)
    return Datum(model_input=ModelInput.from_ints(list(row["model_input"])), loss_fn_inputs=inputs)


def routed_experts(row: Row, path: str | Path | None = None) -> Any:
    """The experts of all tokens of a row except the last, as an int32 array of (tokens - 1, layers, experts of a token):
    slime's `rollout_routed_experts` and verl's `AgentLoopOutput.routed_experts`. `path`: the file that contains the row; a row
    that came over HTTP needs none. None if the run recorded no experts."""
    import numpy

    place = (row.get("metadata") or row.get("extra_fields") or {}).get("routed_experts")
    if place is None:
        return None
    shape = tuple(place["shape"])
    count = int(numpy.prod(shape))
    found, source = _numbers(place, path, numpy.dtype(place["dtype"]).newbyteorder("<"), count)
    if found.size != count:
        raise ValueError(f"Cannot read the routed experts of a row: {source} has {found.size} of {count} numbers.")
    return found.reshape(shape).astype(numpy.int32)


def _numbers(place: dict[str, Any], path: str | Path | None, dtype: Any, count: int) -> tuple[Any, str]:
    """At most `count` numbers of a row, from the row itself or from the file that it names, and their source in words."""
    import numpy

    if "base64" in place:
        data = base64.b64decode(place["base64"], validate=True)
        if len(data) != count * numpy.dtype(dtype).itemsize:
            raise ValueError(f"Cannot read the bytes of a row: it has {len(data)}, for {count} numbers.")
        return numpy.frombuffer(data, dtype=dtype), "the row"
    if path is None:
        raise ValueError("Cannot read the bytes of a row: they are in a file; pass the path of the file that contains the row.")
    file = Path(path).parent / place["file"]
    found = numpy.fromfile(file, dtype=dtype, count=count, offset=place["offset"])
    return found, f"{file} at {place['offset']}"


def sampling_mask(row: Row, path: str | Path | None = None) -> tuple[Any, Any] | None:
    """The ids from which each token of a slime or verl row's response was sampled, as int64 offsets (response tokens + 1) and int32
    ids: those of token `t` are `ids[offsets[t] : offsets[t + 1]]`, the form of slime's `RolloutSamplingMask`. A token that was not
    sampled has only itself. `path`: the file that contains the row; a row that came over HTTP needs none. None if the run
    recorded no kept ids; the row's `truncated` then says which distribution its logprobs are of. Raises `ValueError` if the
    bytes do not fit the row."""
    import numpy

    facts = row.get("metadata") or row.get("extra_fields") or {}
    place = facts.get("sampling_mask")
    if place is None:
        return None
    tokens = row["tokens"] if "tokens" in row else [*row["prompt_ids"], *row["response_ids"]]
    start = len(tokens) - (row["response_length"] if "response_length" in row else len(row["response_ids"]))
    count = place["tokens"] + place["ids"]
    found, source = _numbers(place, path, "<u4", count)
    sampled = [at for turn in facts["turn_digests"] for at in range(turn["start"], turn["end"])]
    if found.size != count or len(sampled) != place["tokens"]:
        raise ValueError(
            f"Cannot read the kept ids of a row: {source} has {found.size} of {count} numbers, for {place['tokens']} of "
            f"{len(sampled)} sampled tokens; pass the file that was exported with the row."
        )
    lists, at = {}, 0
    for position in sampled:
        size = int(found[at]) if at < count else count
        lists[position], at = found[at + 1 : at + 1 + size], at + 1 + size
        if at > count or tokens[position] not in lists[position]:
            raise ValueError(
                f"Cannot read the kept ids of a row: those of token {position} in {source} do not contain it; pass the file that "
                "was exported with the row."
            )
    rows = [lists.get(position, numpy.asarray(tokens[position : position + 1])) for position in range(start, len(tokens))]
    offsets = numpy.cumsum([0, *(len(one) for one in rows)], dtype=numpy.int64)
    return offsets, numpy.concatenate([numpy.zeros(0), *rows]).astype(numpy.int32)


def verl_token_scores(row: Row) -> list[float]:
    """`token_level_scores` (`rm_scores`) of a verl row, aligned with `response_ids`: the reward of each turn of the branch, at
    its last token. Without turn rewards: `reward_score` at the last token, as in verl."""
    scores = [0.0] * len(row["response_ids"])
    turns = row["extra_fields"].get("turn_rewards")
    if turns is None:
        if row["reward_score"] is not None and scores:
            scores[-1] = float(row["reward_score"])
        return scores
    start = len(row["prompt_ids"])
    for turn in turns:
        scores[max(0, turn["end"] - 1 - start)] += float(turn["reward"] or 0.0)
    return scores


def trl_rollout(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """The return value of a `rollout_func` of TRL's GRPO trainer for these rows: one list per column."""
    columns: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
    if columns and all(value is None for value in columns["logprobs"]):
        columns["logprobs"] = None  # type: ignore[assignment]
    return columns


def trl_reward(completions: list[Any], reward: list[float], **_: Any) -> list[float]:
    """A reward function for `trl_rollout`: the rewards that the episodes earned."""
    return reward
