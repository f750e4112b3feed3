"""Serves a causal language model over SGLang's `/generate`, and trains an adapter of it: `python -m trainable_agents.torch_server`.

One process holds a single copy of the weights for sampling and learning. `trainable-agents train --gguf` starts it; for
`trainable-agents rollout --engine sglang --url ...` it is an SGLang server. Streaming, stop strings and constrained decoding
are refused. It listens on this machine only, and has no authorization.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .errors import ConfigurationError
from .torch_learner import Learner
from .torch_protocol import TorchServer

__all__ = ["main"]


def needed_bytes(
    model: Any, *, rank: int, rows: int, context: int, most_tokens: int, cache_bytes: int, saves_memory: bool
) -> int:
    """Estimated memory of training and sampling in addition to the program: weights, adapter, keys and values, activations."""
    config, size = model.config, model.dtype.itemsize
    weights = sum(one.numel() * one.element_size() for one in model.parameters())
    linear = [one for one in model.model.modules() if isinstance(one, torch.nn.Linear)]
    # Value, gradient and two moments, each of 4 bytes.
    adapter = 16 * rank * sum(one.in_features + one.out_features for one in linear)
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rows_bytes = 2 * config.num_hidden_layers * config.num_key_value_heads * head * size * rows * context
    layer = most_tokens * (12 * config.hidden_size + 4 * config.intermediate_size) * size
    activations = (
        (config.num_hidden_layers * most_tokens * config.hidden_size * size + layer)
        if saves_memory
        else config.num_hidden_layers * layer
    )
    logits = 4 * 4 * 128 * config.vocab_size
    return int(weights + adapter + rows_bytes + cache_bytes + activations + logits)


def free_bytes(device: torch.device) -> int | None:
    """`None` if it is not known."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def return_freed_memory() -> None:
    """Makes glibc return freed blocks of 2 MB and more to the system at once. In its heap, activations of passes of different lengths leave
    holes: with 0.5B parameters a step of 24 episodes peaked at 15.5 GB instead of 9, and the next at 18. Other C libraries are left alone.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mmap_threshold = -3
    mallopt(mmap_threshold, 2 * 2**20)


def load_model(folder: Path, dtype: torch.dtype) -> Any:
    from transformers import AutoModelForCausalLM  # type: ignore[import-not-found]

    try:
        return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, local_files_only=True).eval()
    except (OSError, ValueError, KeyError) as error:
        raise ConfigurationError(
            f"Cannot load the model in {folder}: {error}; use a model folder with its weights, or a GGUF file."
        ) from error


def end_tokens(model: Any) -> list[int]:
    given = getattr(model.generation_config, "eos_token_id", None)
    given = model.config.eos_token_id if given is None else given
    return [] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m trainable_agents.torch_server", description=__doc__)
    parser.add_argument("--model", type=Path, help="folder of a model of transformers")
    parser.add_argument("--gguf", type=Path, help="file of llama.cpp, instead of --model")
    parser.add_argument("--write-tokenizer", type=Path, help="folder for the tokenizer of --gguf")
    parser.add_argument("--adapter", type=Path, help="checkpoint to continue from")
    parser.add_argument("--port", type=int, default=0, help="default: a free one, which is printed")
    parser.add_argument("--context", type=int, default=4096, help="tokens of prompt and reply together; default: 4096")
    parser.add_argument("--rows", type=int, default=32, help="calls computed at once; default: 32")
    parser.add_argument("--cache-mb", type=int, default=1024, help="for beginnings that calls share; default: 1024")
    parser.add_argument("--rank", type=int, default=16, help="of the adapter; default: 16")
    parser.add_argument("--pass-tokens", type=int, default=2048, help="of one forward pass of the learner; default: 2048")
    parser.add_argument("--threads", type=int, help="default: torch's own choice")
    parser.add_argument("--device", help="default: cuda where there is one, else cpu")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], help="default: float32 on the CPU, else bfloat16")
    parser.add_argument("--seed", type=int, default=0, help="of the adapter's first values and of calls without a seed")
    parser.add_argument("--weight-version", default="default")
    parser.add_argument("--with-parent", action="store_true", help="ends when its standard input closes")
    given = parser.parse_args(argv)
    if (given.model is None) == (given.gguf is None):
        parser.error("pass --model or --gguf")
    try:
        return _serve(given)
    except (ConfigurationError, MemoryError) as error:
        sys.stderr.write(f"{error or 'Cannot train: the memory is full; use a smaller model or context.'}\n")
        return 2


def _serve(given: argparse.Namespace) -> int:
    return_freed_memory()
    if given.threads is not None:
        torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    device = torch.device(given.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    dtype = getattr(torch, given.dtype or ("float32" if device.type == "cpu" else "bfloat16"))
    # peft calls functions of transformers under their former names.
    warnings.simplefilter("ignore", FutureWarning)
    free = free_bytes(device)
    file: Any = None
    if given.gguf is None:
        model = load_model(given.model, dtype).to(device)
    else:
        from . import gguf_model

        file = gguf_model.GgufModel(given.gguf)
        model = gguf_model.load_weights(file, dtype).to(device)
    context = min(given.context, getattr(model.config, "max_position_embeddings", given.context))
    bounds = {
        "rank": given.rank,
        "rows": given.rows,
        "context": context,
        "most_tokens": given.pass_tokens,
        "cache_bytes": given.cache_mb * 2**20,
    }
    quick = needed_bytes(model, saves_memory=False, **bounds)
    needed = needed_bytes(model, saves_memory=True, **bounds)
    if free is not None and needed > free:
        raise ConfigurationError(
            f"Cannot train this model here: it needs about {needed / 2**30:.1f} GiB of memory, {free / 2**30:.1f} are free; "
            "use a smaller model, --context, --rows or --pass-tokens."
        )
    if file is not None and given.write_tokenizer is not None:
        gguf_model.write_tokenizer(file, given.write_tokenizer)
    saves_memory = free is None or quick > free / 2
    learner = Learner(model, rank=given.rank, most_tokens=given.pass_tokens, saves_memory=saves_memory, seed=given.seed)
    if given.adapter is not None:
        learner.load(given.adapter)
    server = TorchServer(
        learner,
        path=str(given.gguf or given.model),
        context=context,
        rows=given.rows,
        cache_bytes=given.cache_mb * 2**20,
        version=given.weight_version,
        architecture=None if file is None else file.architecture,
        ends=end_tokens(model),
    )
    port = server.listen(given.port)
    facts = {
        "port": port,
        "parameters": sum(one.numel() for one in model.parameters()) - learner.trained_parameters,
        "trained_parameters": learner.trained_parameters,
        "needed_bytes": needed if saves_memory else quick,
        "free_bytes": free,
        "saves_memory": saves_memory,
        "context": context,
        "device": str(device),
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(facts), flush=True)
    try:
        if given.with_parent:
            sys.stdin.buffer.read()
        else:
            threading.Event().wait()
    except KeyboardInterrupt:
        pass
    # Computing threads are not awaited.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
