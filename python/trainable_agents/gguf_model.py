"""Reads a model from a GGUF file of llama.cpp, as torch weights with its tokenizer, and writes adapters as GGUF. Requires the
packages gguf and torch.

`python -m trainable_agents.gguf_model adapter <peft folder> <base.gguf> <out.gguf>` writes a file that `llama.cpp --lora`,
Ollama's `ADAPTER` and our engine load. Weights are dequantized when they are read; nothing is cached on disk.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import torch

from .errors import ConfigurationError

__all__ = ["GgufModel", "load_weights", "write_adapter", "write_tokenizer"]

_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_ARCHITECTURES = ("qwen2",)
"""Architectures whose tensors have these names and no rearranged rows."""
_SPLITS = {
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
"""Patterns that split text before byte-pair encoding, by `tokenizer.ggml.pre`; facts of the published tokenizers."""
_NORMAL, _CONTROL, _USER_DEFINED = 1, 3, 4


def _open(path: Path) -> Any:
    from gguf import GGUFReader

    try:
        return GGUFReader(path)
    except Exception as error:
        raise ConfigurationError(f"Cannot read {path}: {error}; use a complete GGUF file.") from error


class GgufModel:
    """One file. Reading its metadata takes seconds, so all users of the file share one object."""

    def __init__(self, path: Path) -> None:
        self.path, self.reader = path, _open(path)
        self.architecture = str(self.get("general.architecture"))
        if self.architecture not in _ARCHITECTURES:
            raise ConfigurationError(
                f'Cannot train {path}: its architecture is "{self.architecture}", and {", ".join(_ARCHITECTURES)} can be read from a GGUF file; '
                "pass the model's folder with --model instead."
            )

    def get(self, key: str, default: Any = ...) -> Any:
        field = self.reader.fields.get(key)
        if field is not None:
            return field.contents()
        if default is ...:
            raise ConfigurationError(
                f"Cannot read {self.path}: its metadata has no {key}; use a complete GGUF file of a language model."
            )
        return default

    def count(self, key: str) -> int:
        """Length of a list, which is not decoded."""
        field = self.reader.fields.get(key)
        return 0 if field is None else len(field.data)

    def own(self, key: str, default: Any = ...) -> Any:
        return self.get(f"{self.architecture}.{key}", default)


def load_weights(facts: GgufModel, dtype: torch.dtype = torch.float32) -> Any:
    """The causal language model of a file, for transformers, its weights dequantized to `dtype`."""
    from gguf.quants import dequantize
    from transformers import Qwen2Config, Qwen2ForCausalLM  # type: ignore[import-not-found]

    path = facts.path
    tensors = {tensor.name: tensor for tensor in facts.reader.tensors}
    config = Qwen2Config(
        hidden_size=facts.own("embedding_length"),
        intermediate_size=facts.own("feed_forward_length"),
        num_hidden_layers=facts.own("block_count"),
        num_attention_heads=facts.own("attention.head_count"),
        num_key_value_heads=facts.own("attention.head_count_kv"),
        rope_theta=facts.own("rope.freq_base", 10_000.0),
        rms_norm_eps=facts.own("attention.layer_norm_rms_epsilon"),
        max_position_embeddings=facts.own("context_length"),
        vocab_size=facts.count("tokenizer.ggml.tokens"),
        tie_word_embeddings="output.weight" not in tensors,
        eos_token_id=facts.get("tokenizer.ggml.eos_token_id", None),
        bos_token_id=None,
        pad_token_id=None,
    )
    weights = {}
    for name, tensor in tensors.items():
        try:
            values = dequantize(tensor.data, tensor.tensor_type)
        except (NotImplementedError, KeyError) as error:
            raise ConfigurationError(
                f"Cannot read {path}: {name} is quantized as {tensor.tensor_type.name}, which is not known; use another file."
            ) from error
        weights[_torch_name(name, path)] = torch.from_numpy(numpy.array(values)).to(dtype)
    with torch.device("meta"):
        model = Qwen2ForCausalLM(config).to(dtype)
    # The buffers of the position embedding are computed, not stored.
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    try:
        outcome = model.load_state_dict(weights, strict=False, assign=True)
    except RuntimeError as error:
        raise ConfigurationError(
            f"Cannot read {path}: {str(error).splitlines()[-1].strip()}; use a complete GGUF file."
        ) from error
    missing = [name for name in outcome.missing_keys if not (name == "lm_head.weight" and config.tie_word_embeddings)]
    if missing or outcome.unexpected_keys:
        raise ConfigurationError(
            f"Cannot read {path}: tensors are missing or unknown: {', '.join([*missing, *outcome.unexpected_keys][:5])}."
        )
    model.tie_weights()
    return model.eval()


def _torch_name(name: str, path: Path) -> str:
    parts = name.split(".")
    if len(parts) == 2 and parts[0] in _WHOLE:
        return f"{_WHOLE[parts[0]]}.{parts[1]}"
    if len(parts) == 4 and parts[0] == "blk" and parts[2] in _LAYER:
        return f"model.layers.{parts[1]}.{_LAYER[parts[2]]}.{parts[3]}"
    raise ConfigurationError(
        f'Cannot read {path}: it has a tensor "{name}", which this architecture does not have; pass the folder of the model with --model.'
    )


def write_tokenizer(facts: GgufModel, folder: Path) -> None:
    """Writes tokenizer.json, tokenizer_config.json (with the chat template), config.json and generation_config.json of a GGUF file."""
    path = facts.path
    kind, cut = facts.get("tokenizer.ggml.model"), facts.get("tokenizer.ggml.pre", "default")
    if kind != "gpt2" or cut not in _SPLITS:
        raise ConfigurationError(
            f'Cannot read the tokenizer of {path}: its model is "{kind}" and its split "{cut}"; byte-level BPE with the split '
            f"{', '.join(_SPLITS)} can be read. Give the model's folder with --model."
        )
    tokens, types = facts.get("tokenizer.ggml.tokens"), facts.get("tokenizer.ggml.token_type")
    added = [
        {
            "id": number,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": kind == _CONTROL,
        }
        for number, (text, kind) in enumerate(zip(tokens, types, strict=True))
        if kind in (_CONTROL, _USER_DEFINED)
    ]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": _SPLITS[cut]}, "behavior": "Isolated", "invert": False}
    bpe = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": "",
        "end_of_word_suffix": "",
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {text: number for number, (text, kind) in enumerate(zip(tokens, types, strict=True)) if kind == _NORMAL},
        "merges": facts.get("tokenizer.ggml.merges"),
    }
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "post_processor": level,
        "decoder": level,
        "model": bpe,
    }
    end = facts.get("tokenizer.ggml.eos_token_id")
    padding = facts.get("tokenizer.ggml.padding_token_id", None)
    settings = {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_bos_token": bool(facts.get("tokenizer.ggml.add_bos_token", False)),
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "bos_token": None,
        "eos_token": tokens[end],
        "pad_token": None if padding is None else tokens[padding],
        "unk_token": None,
        "model_max_length": facts.own("context_length"),
        "chat_template": facts.get("tokenizer.chat_template"),
    }
    config = {
        "model_type": facts.architecture,
        "vocab_size": len(tokens),
        "max_position_embeddings": facts.own("context_length"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    generation = {"eos_token_id": sorted({end, *([] if padding is None else [padding])})}
    files = {"tokenizer": tokenizer, "tokenizer_config": settings, "config": config, "generation_config": generation}
    for name, content in files.items():
        (folder / f"{name}.json").write_text(
            json.dumps(content, ensure_ascii=False, indent=None if name == "tokenizer" else 1), encoding="utf-8"
        )


def write_adapter(folder: Path, out: Path, *, architecture: str, name: str = "adapter") -> None:
    """The adapter that peft wrote into `folder` as a GGUF file, in 32 bits."""
    from gguf import GGUFWriter
    from peft.utils import load_peft_weights  # type: ignore[import-not-found]

    if architecture not in _ARCHITECTURES:
        raise ConfigurationError(
            f'Cannot write {out}: the model is a "{architecture}", and {", ".join(_ARCHITECTURES)} adapters can be written; use the peft folder.'
        )
    settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    writer = GGUFWriter(out, architecture)
    writer.add_type("adapter")
    writer.add_name(name)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(settings["lora_alpha"]))
    for tensor, values in _adapter_tensors(load_peft_weights(str(folder), device="cpu")):
        writer.add_tensor(tensor, values.to(torch.float32).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _adapter_tensors(weights: dict[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor]]:
    back = {theirs: ours for ours, theirs in _LAYER.items()}
    for name, values in sorted(weights.items()):
        parts = name.removeprefix("base_model.model.").split(".")
        side = {"lora_A": "lora_a", "lora_B": "lora_b"}.get(parts[-2])
        module = ".".join(parts[3:-2])
        if parts[:2] != ["model", "layers"] or side is None or module not in back:
            raise ConfigurationError(
                f'Cannot write the adapter: it has a tensor "{name}", which llama.cpp does not know; use the peft folder.'
            )
        yield f"blk.{parts[2]}.{back[module]}.weight.{side}", values


def main(argv: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if argv is None else argv)
    if len(given) != 4 or given[0] != "adapter":
        sys.stderr.write("usage: python -m trainable_agents.gguf_model adapter <peft folder> <base.gguf> <out.gguf>\n")
        return 2
    try:
        write_adapter(Path(given[1]), Path(given[3]), architecture=GgufModel(Path(given[2])).architecture)
    except ConfigurationError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
