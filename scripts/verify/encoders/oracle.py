"""Builds prompts with the servers' own modules: reads one JSON request per line, and writes one JSON answer per line.

    python oracle.py <folder of the unpacked modules>
    python oracle.py unpack <wheel> <folder> <path in the wheel>...

The modules import only types and a tokenizer from the server; inert stand-ins replace both.

Requests: {"encoder": name, "messages": [...], "tools": [...] | null, "variables": {...}}.
Answers: {"text": prompt}, or {"refused": class of the exception}.
"""

import copy
import json
import os
import sys
import types
import zipfile


def unpack(wheel, folder, paths):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if any(name == path or (path.endswith("/") and name.startswith(path)) for path in paths):
                archive.extract(name, folder)


def stand_in(name, folder=None, **members):
    module = types.ModuleType(name)
    module.__path__ = [] if folder is None else [os.path.join(folder, *name.split("."))]
    for key, value in members.items():
        setattr(module, key, value)
    sys.modules[name] = module


class Tokenizer:
    """A tokenizer without a vocabulary: prompts are compared as text."""

    def get_added_vocab(self):
        return {}


def enter(folder):
    for name in ("vllm", "vllm.tokenizers", "sglang", "sglang.srt", "sglang.srt.entrypoints", "sglang.srt.entrypoints.openai"):
        stand_in(name, folder)
    stand_in("transformers", TokenizersBackend=Tokenizer)
    stand_in("vllm.renderers")
    stand_in("vllm.renderers.chat_utils", ChatCompletionMessageParam=dict)
    stand_in("vllm.tokenizers.hf", HfTokenizer=Tokenizer, get_cached_tokenizer=lambda tokenizer: tokenizer)
    stand_in("vllm.tokenizers.protocol", TokenizerLike=object)


def deepseek_v32(messages, tools, variables):
    """Called as by SGLang's chat endpoint: tools are written after the first system message, which always exists."""
    from sglang.srt.entrypoints.openai.encoding_dsv32 import encode_messages

    messages = copy.deepcopy(messages)
    if messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": ""})
    if tools:
        messages[0]["tools"] = tools
    variables = dict(variables)
    mode = "thinking" if variables.pop("thinking", False) else "chat"
    return encode_messages(messages, thinking_mode=mode, **variables)


def deepseek_v4(messages, tools, variables):
    from vllm.tokenizers.deepseek_v4 import get_deepseek_v4_tokenizer

    # vLLM uses the same name for the thought as its parsers.
    named = [{("reasoning" if key == "reasoning_content" else key): value for key, value in message.items()} for message in messages]
    return get_deepseek_v4_tokenizer(Tokenizer()).apply_chat_template(named, tools=tools, tokenize=False, **variables)


def deepseek_v41(messages, tools, variables):
    from vllm.tokenizers.deepseek_v41 import get_deepseek_v41_tokenizer

    return get_deepseek_v41_tokenizer(Tokenizer()).apply_chat_template(messages, tools=tools, tokenize=False, **variables)


ENCODERS = {"deepseek-v3.2": deepseek_v32, "deepseek-v4": deepseek_v4, "deepseek-v4.1": deepseek_v41}


def answer(request):
    try:
        return {"text": ENCODERS[request["encoder"]](request["messages"], request["tools"], request["variables"])}
    except Exception as error:
        return {"refused": type(error).__name__}


if __name__ == "__main__":
    if sys.argv[1] == "unpack":
        unpack(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        enter(sys.argv[1])
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), flush=True)
