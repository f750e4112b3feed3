"""Samples from a causal language model of transformers: continuous batching, and a cache of prefixes that calls share.

The training process samples from the model here, with the same weights in the same memory. The sampler holds `weights` while it
computes; the learner holds it while it computes or changes weights, so that no token is sampled in the middle of an update.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

__all__ = ["Call", "Sampler", "Sampling"]


@dataclass(frozen=True)
class Sampling:
    """Parameters of one call, under SGLang's names; they are validated when they are parsed."""

    max_new_tokens: int = 128
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    stop_token_ids: frozenset[int] = frozenset()
    sampling_seed: int | None = None


@dataclass
class Call:
    """One call. `finish` is its finish reason in SGLang's form; `None` until it has ended."""

    rid: str
    prompt: Sequence[int]
    sampling: Sampling
    adapter: str | None = None
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    cached_tokens: int = 0
    weight_version: str = ""
    finish: dict[str, Any] | None = None
    error: str | None = None
    is_aborted: bool = False
    ended: threading.Event = field(default_factory=threading.Event)
    generator: torch.Generator | None = None


class _Rows:
    """Keys and values of the calls in progress, one row each, in the form that the layers of transformers expect.

    Tokens of a row are stored at their positions, so rows of different lengths need no padding and no copying when one joins.
    """

    def __init__(self, rows: int) -> None:
        self._count = rows
        self._stored: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._rows = self._positions = torch.zeros(0, dtype=torch.long)
        self._length, self._is_whole = 0, False
        self._capacity = 0

    def select(self, rows: list[int], positions: torch.Tensor, length: int) -> None:
        """Prepares the next forward pass for these rows; `positions` are [rows, tokens], and attention covers `length`
        positions."""
        self._rows, self._positions = torch.tensor(rows, device=positions.device)[:, None], positions
        self._length, self._is_whole = length, rows == list(range(len(rows)))
        needed = int(positions.max()) + 1
        if needed > self._capacity:
            self._capacity = -(-needed // 256) * 256
            for layer, (keys, values) in self._stored.items():
                self._stored[layer] = self._grown(keys), self._grown(values)

    def update(
        self, keys: torch.Tensor, values: torch.Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if layer not in self._stored:
            self._stored[layer] = self._empty(keys), self._empty(values)
        return self._write(self._stored[layer][0], keys), self._write(self._stored[layer][1], values)

    def get_seq_length(self, *_: Any) -> int:
        return 0

    def copy(self, source: int, target: int) -> None:
        for pair in self._stored.values():
            for stored in pair:
                stored[target] = stored[source]

    def read(self, row: int, length: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return [
            (keys[row, :, :length].clone(), values[row, :, :length].clone())
            for _, (keys, values) in sorted(self._stored.items())
        ]

    def fill(self, row: int, entry: list[tuple[torch.Tensor, torch.Tensor]], length: int) -> None:
        if length > self._capacity:
            self.select([row], torch.tensor([[length - 1]], device=entry[0][0].device), length)
        for layer, (keys, values) in enumerate(entry):
            for stored, given in zip(self._stored[layer], (keys, values), strict=True):
                stored[row, :, :length] = given[:, :length]

    def _write(self, stored: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        stored[self._rows, :, self._positions] = given.transpose(1, 2)
        part = stored[: len(self._rows)] if self._is_whole else stored[self._rows[:, 0]]
        return part[:, :, : self._length]

    def _empty(self, like: torch.Tensor) -> torch.Tensor:
        # Zeros instead of uninitialized memory: a NaN at a masked position would still spoil the sum.
        return like.new_zeros(self._count, like.shape[1], self._capacity, like.shape[3])

    def _grown(self, stored: torch.Tensor) -> torch.Tensor:
        larger = self._empty(stored)
        larger[:, :, : stored.shape[2]] = stored
        return larger


class _Beginnings:
    """Keys and values of earlier calls, found by the longest common prefix; the least recently used are dropped."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._entries: dict[int, tuple[str | None, numpy.ndarray[Any, Any], list[tuple[torch.Tensor, torch.Tensor]]]] = {}
        self._bytes = 0
        self._next = 0

    def find(self, adapter: str | None, tokens: Sequence[int]) -> tuple[list[tuple[torch.Tensor, torch.Tensor]], int]:
        wanted = numpy.asarray(tokens)
        best, length = None, 0
        for number, (owner, known, _) in self._entries.items():
            common = _common(known, wanted) if owner == adapter else 0
            if common > length:
                best, length = number, common
        if best is None:
            return [], 0
        self._entries[best] = self._entries.pop(best)
        return self._entries[best][2], length

    def add(self, adapter: str | None, tokens: Sequence[int], stored: list[tuple[torch.Tensor, torch.Tensor]]) -> None:
        new = numpy.asarray(tokens)
        for number, (owner, known, _) in list(self._entries.items()):
            common = _common(known, new) if owner == adapter else -1
            if common == len(known):
                self._drop(number)
        self._entries[self._next] = (adapter, new, stored)
        self._next += 1
        self._bytes += _size(stored)
        while self._bytes > self._most:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        self._entries.clear()
        self._bytes = 0

    def _drop(self, number: int) -> None:
        self._bytes -= _size(self._entries.pop(number)[2])


def _common(known: numpy.ndarray[Any, Any], wanted: numpy.ndarray[Any, Any]) -> int:
    shorter = min(len(known), len(wanted))
    differing = numpy.flatnonzero(known[:shorter] != wanted[:shorter])
    return int(differing[0]) if len(differing) > 0 else shorter


def _size(stored: list[tuple[torch.Tensor, torch.Tensor]]) -> int:
    return sum(part.numel() * part.element_size() for pair in stored for part in pair)


class Sampler:
    """Runs calls and returns sampled tokens, on its own thread. Safe to use from any thread.

    `model` is a causal model of transformers and `wrapped` the same model with its adapters (peft), or `None`. `rows` is the
    maximum number of calls computed concurrently; others wait in order. `cache_bytes` limits the size of cached prefixes, in
    addition to the rows themselves.
    """

    def __init__(
        self, model: Any, *, wrapped: Any = None, rows: int = 32, cache_bytes: int = 2**30, version: str = "default"
    ) -> None:
        self.weights = threading.Lock()
        self.version = version
        self.computed_tokens = self.cached_tokens = self.sampled_tokens = 0
        self._model, self._wrapped = model, wrapped
        self._rows, self._most = _Rows(rows), rows
        self._beginnings = _Beginnings(cache_bytes)
        self._active: list[Call] = []
        self._pending: list[int] = []
        """One per active call: the number of its prompt tokens whose keys and values exist."""
        self._waiting: deque[Call] = deque()
        self._changed = threading.Condition()
        self._is_paused = self._is_closed = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="sampler")
        self._thread.start()

    def submit(self, call: Call) -> bool:
        """False if a call of this `rid` is in flight."""
        with self._changed:
            if any(other.rid == call.rid for other in (*self._active, *self._waiting)):
                return False
            if call.sampling.sampling_seed is not None:
                call.generator = torch.Generator(self._device).manual_seed(call.sampling.sampling_seed)
            self._waiting.append(call)
            self._changed.notify()
            return True

    def abort(self, rid: str | None) -> None:
        """Ends a call with the tokens sampled so far; all calls if `rid` is `None`. An unknown `rid` is ignored."""
        with self._changed:
            for call in (*self._active, *self._waiting):
                call.is_aborted = call.is_aborted or rid is None or call.rid == rid
            self._changed.notify()

    def pause(self, paused: bool) -> None:
        """A paused sampler keeps its calls and computes nothing; aborted ones still end."""
        with self._changed:
            self._is_paused = paused
            self._changed.notify()

    @property
    def is_paused(self) -> bool:
        return self._is_paused

    @property
    def load(self) -> tuple[int, int]:
        """Numbers of running and of waiting calls."""
        return len(self._active), len(self._waiting)

    def renew(self, version: str) -> None:
        """Drops everything that was computed with earlier weights; call it when they have changed. Hold `weights`."""
        self.version = version
        self._beginnings.clear()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    @property
    def _device(self) -> torch.device:
        return next(self._model.parameters()).device  # type: ignore[no-any-return]

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(self._has_work)
                if self._is_closed:
                    return
            with self.weights, torch.inference_mode():
                self._end_aborted()
                if self._is_paused:
                    continue
                self._admit()
                if not self._active:
                    continue
                try:
                    with self._with_adapter(self._active[0].adapter):
                        self._step()
                except Exception as error:  # One bad call must not end the sampler; all calls of the pass learn of it.
                    for call in self._active:
                        call.error = f"{type(error).__name__}: {error}"
                        self._end(call, {"type": "abort", "message": call.error, "status_code": 500})
                    self._active, self._pending = [], []

    def _has_work(self) -> bool:
        calls = (*self._active, *self._waiting)
        return self._is_closed or any(call.is_aborted for call in calls) or (bool(calls) and not self._is_paused)

    def _end_aborted(self) -> None:
        reason = {"type": "abort", "message": "Aborted", "status_code": None, "err_type": None}
        with self._changed:
            for call in [one for one in self._waiting if one.is_aborted]:
                self._waiting.remove(call)
                self._end(call, reason)
        for row in reversed([row for row, call in enumerate(self._active) if call.is_aborted]):
            self._end(self._active[row], reason)
            self._leave(row)

    def _admit(self) -> None:
        with self._changed:
            while self._waiting and len(self._active) < self._most:
                # A pass uses one adapter; calls with another adapter wait until the calls before them have ended.
                if self._active and self._waiting[0].adapter != self._active[0].adapter:
                    return
                call = self._waiting.popleft()
                call.weight_version = self.version
                self._active.append(call)
                self._pending.append(-1)

    def _step(self) -> None:
        """Computes prompts first, those with similarly short remainders together; then one token for every call."""
        while any(place < len(call.prompt) for place, call in zip(self._pending, self._active, strict=True)):
            self._compute_prompts()
        if self._active:
            self._decode()

    def _compute_prompts(self) -> None:
        """Computes the call with the shortest remainder and all whose remainder has at most twice as many tokens."""
        for row, call in enumerate(self._active):
            if self._pending[row] < len(call.prompt):
                self._look_up(row)
        remainders = {
            row: len(call.prompt) - self._pending[row]
            for row, call in enumerate(self._active)
            if self._pending[row] < len(call.prompt)
        }
        shortest = min(remainders.values())
        # A long remainder is computed once: calls that begin with it find it in the cache afterwards.
        chosen = [row for row, length in remainders.items() if length <= 2 * shortest][: 1 if shortest > 128 else None]
        width = max(remainders[row] for row in chosen)
        tokens = torch.zeros(len(chosen), width, dtype=torch.long)
        for place, row in enumerate(chosen):
            rest = list(self._active[row].prompt[self._pending[row] :])
            tokens[place, : len(rest)] = torch.tensor(rest)
        starts = [self._pending[row] for row in chosen]
        hidden = self._forward(chosen, tokens, starts)
        last = torch.tensor([remainders[row] - 1 for row in chosen], device=hidden.device)
        logits = self._model.lm_head(hidden[torch.arange(len(chosen), device=hidden.device), last]).float()
        for row in chosen:
            call = self._active[row]
            self.computed_tokens += remainders[row]
            self._pending[row] = len(call.prompt)
            self._beginnings.add(call.adapter, call.prompt, self._rows.read(row, len(call.prompt)))
        self._sample(chosen, logits)

    def _look_up(self, row: int) -> None:
        """Copies the cached prefix of this prompt, if it is longer than the one in the row."""
        call = self._active[row]
        entry, length = self._beginnings.find(call.adapter, call.prompt)
        # The last token is always computed: its logits are needed.
        length = min(length, len(call.prompt) - 1)
        if length > max(0, self._pending[row]):
            self._rows.fill(row, entry, length)
            self.cached_tokens += length - call.cached_tokens
            call.cached_tokens = length
        self._pending[row] = max(0, length, self._pending[row])

    def _decode(self) -> None:
        rows = list(range(len(self._active)))
        tokens = torch.tensor([[call.tokens[-1]] for call in self._active])
        starts = [len(call.prompt) + len(call.tokens) - 1 for call in self._active]
        hidden = self._forward(rows, tokens, starts)
        self._sample(rows, self._model.lm_head(hidden[:, -1]).float())

    def _forward(self, rows: list[int], tokens: torch.Tensor, starts: list[int]) -> torch.Tensor:
        device = self._device
        positions = torch.tensor(starts)[:, None] + torch.arange(tokens.shape[1])[None]
        length = int(positions.max()) + 1
        # [rows, 1, tokens, places]: a token attends to its row up to itself; later positions belong to another call, or are
        # padding.
        sees = (torch.arange(length)[None, None] <= positions[:, :, None])[:, None].to(device)
        positions = positions.to(device)
        self._rows.select(rows, positions, length)
        hidden: torch.Tensor = self._model.model(
            input_ids=tokens.to(device), attention_mask=sees, position_ids=positions, past_key_values=self._rows, use_cache=True
        ).last_hidden_state
        return hidden

    def _sample(self, rows: list[int], logits: torch.Tensor) -> None:
        """Appends one token to each of the rows' calls, and ends those that are complete."""
        calls = [self._active[row] for row in rows]
        for place, call in enumerate(calls):
            token, logprob = draw(logits[place], call)
            call.tokens.append(token)
            call.logprobs.append(logprob)
            self.sampled_tokens += 1
            most = call.sampling.max_new_tokens
            if len(call.tokens) >= most:
                call.finish = {"type": "length", "length": most}
            elif token in call.sampling.stop_token_ids:
                call.finish = {"type": "stop", "matched": token}
        for row in sorted((row for row, call in zip(rows, calls, strict=True) if call.finish is not None), reverse=True):
            call = self._active[row]
            # The last token was sampled but never fed to the model.
            known = [*call.prompt, *call.tokens[:-1]]
            if call.weight_version == self.version:
                self._beginnings.add(call.adapter, known, self._rows.read(row, len(known)))
            self._end(call, call.finish or {})
            self._leave(row)

    def _leave(self, row: int) -> None:
        """Rows in use are kept at the front, so that a pass over all of them reads a slice."""
        last = len(self._active) - 1
        if row != last:
            self._rows.copy(last, row)
            self._active[row], self._pending[row] = self._active[last], self._pending[last]
        self._active.pop()
        self._pending.pop()

    def _end(self, call: Call, finish: dict[str, Any]) -> None:
        call.finish = finish
        call.weight_version = self.version
        call.ended.set()

    def _with_adapter(self, name: str | None) -> AbstractContextManager[None]:
        return nullcontext() if name is None or self._wrapped is None else _Adapter(self._wrapped, name)


class _Adapter(AbstractContextManager[None]):
    """Computes with another adapter temporarily, then returns to the one that is trained."""

    def __init__(self, wrapped: Any, name: str) -> None:
        self._wrapped, self._name, self._trained = wrapped, name, wrapped.active_adapter

    def __enter__(self) -> None:
        self._wrapped.set_adapter(self._name)

    def __exit__(self, *_: Any) -> None:
        self._wrapped.set_adapter(self._trained)


def draw(logits: torch.Tensor, call: Call) -> tuple[int, float]:
    """A token, and its logprob after penalty and temperature but before truncation, as SGLang reports it. `logits`:
    [vocabulary]."""
    given = call.sampling
    if given.repetition_penalty != 1:
        seen = torch.tensor(sorted({*call.prompt, *call.tokens}), device=logits.device)
        logits = logits.clone()
        logits[seen] = torch.where(
            logits[seen] > 0, logits[seen] / given.repetition_penalty, logits[seen] * given.repetition_penalty
        )
    is_greedy = given.temperature < 1e-6
    logprobs = torch.log_softmax(logits if is_greedy else logits / given.temperature, -1)
    if is_greedy:
        token = int(logprobs.argmax())
        return token, float(logprobs[token])
    chances = logprobs.exp()
    if given.top_k > 0 or given.top_p < 1 or given.min_p > 0:
        ordered, places = chances.sort(descending=True)
        keeps = (ordered.cumsum(-1) - ordered) < given.top_p
        keeps &= ordered >= given.min_p * ordered[0]
        if given.top_k > 0:
            keeps[given.top_k :] = False
        chances = torch.zeros_like(chances).scatter(-1, places[keeps], ordered[keeps])
    # The inverse of the distribution function: `multinomial` draws a number for each token of the vocabulary, ten times slower.
    sums = chances.double().cumsum(-1)
    drawn = torch.rand(1, dtype=torch.float64, device=sums.device, generator=call.generator) * sums[-1]
    token = min(int(torch.searchsorted(sums, drawn, right=True)), len(sums) - 1)
    return token, float(logprobs[token])
