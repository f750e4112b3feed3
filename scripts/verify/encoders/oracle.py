"""Builds prompts with the servers' own modules: reads one JSON request per line, and writes one JSON answer per line.

    python oracle.py <folder of the unpacked modules>
    python oracle.py unpack <wheel> <folder> <path in the wheel>...

The modules import only types and a tokenizer from the server; inert stand-ins replace both.

Requests: {"encoder": name, "messages": [...], "tools": [...] | null, "variables": {...}}.
Answers: {"text": prompt}, or {"refused": class of the exception}.
"""

import copy
import json
import logging
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


class Generic:
    """A base class with parameters."""

    def __class_getitem__(cls, item):
        return cls


class TextTokenizer:
    """Returns texts in place of ids."""

    def encode_text(self, text):
        return [text]

    def encode_special(self, token):
        return token


class Tokenizer:
    """A tokenizer without a vocabulary: prompts are compared as text."""

    def get_added_vocab(self):
        return {}


def enter(folder):
    for name in ("vllm", "vllm.tokenizers", "sglang", "sglang.srt", "sglang.srt.parser", "sglang.srt.entrypoints", "sglang.srt.entrypoints.openai"):
        stand_in(name, folder)
    stand_in("transformers", TokenizersBackend=Tokenizer)
    stand_in("vllm.renderers", folder)
    inert = {name: object for name in ("ConversationMessage", "parse_chat_messages", "parse_chat_messages_async")}
    stand_in("vllm.renderers.chat_utils", ChatCompletionMessageParam=dict, **inert)
    stand_in("vllm.renderers.base", BaseRenderer=Generic)
    stand_in("vllm.renderers.inputs", DictPrompt=dict)
    stand_in("vllm.renderers.inputs.preprocess", parse_dec_only_prompt=None)
    stand_in("vllm.renderers.params", ChatParams=types.SimpleNamespace)
    stand_in("vllm.config", VllmConfig=object)
    stand_in("vllm.utils")
    stand_in("vllm.utils.async_utils", make_async=None)
    stand_in("vllm.logger", init_logger=logging.getLogger)
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


def inkling(messages, tools, variables):
    from vllm.renderers.inkling import InklingRenderer

    renderer = InklingRenderer.__new__(InklingRenderer)
    renderer._inkling_tokenizer = TextTokenizer()
    params = types.SimpleNamespace(chat_template_kwargs={**variables, "tools": tools})
    return "".join(renderer._render(messages, params))


def glm53(messages, tools, variables):
    from sglang.srt.parser.glm53_chat_template import render_glm53

    return render_glm53(messages, tools=tools, add_generation_prompt=True, **variables)


ENCODERS = {"deepseek-v3.2": deepseek_v32, "deepseek-v4": deepseek_v4, "deepseek-v4.1": deepseek_v41, "inkling": inkling, "glm-5.3": glm53}


def answer(request):
    try:
        return {"text": ENCODERS[request["encoder"]](request["messages"], request["tools"], request["variables"])}
    except ImportError:
        raise
    except Exception as error:
        return {"refused": type(error).__name__}


if __name__ == "__main__":
    if sys.argv[1] == "unpack":
        unpack(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        enter(sys.argv[1])
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line))), flush=True)
