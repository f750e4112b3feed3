"""Reads texts with vLLM's own tool and reasoning parsers: reads one JSON request per line, and writes one JSON answer per line.

    python vllm_oracle.py <folder of the unpacked wheel>

Works like oracle.py and uses its stand-ins. Requests: {"parser": name, "tools": [...], "text": text}; {"names": true} lists the available names;
{"reasoning_parser": name, "options": {"force_reasoning": true} or {}, "text": text}, where forced reasoning is a request that states an effort.
Answers: {"expected": {"normal_text": text, "calls": [{"name": name, "parameters": text}, ...]}}, or {"expected": {"error": class}};
{"expected": {"reasoning_text": text, "normal_text": text}} for reasoning.
"""

import importlib
import json
import logging
import os
import re
import sys
import time
import types

import oracle
import pydantic

BARE = ["vllm", "vllm.tool_parsers", "vllm.reasoning", "vllm.parser", "vllm.parser.engine", "vllm.utils"]
STAND_INS = {"torch", "xgrammar", "fastapi", "starlette", "mistral_common"} | {
    "vllm." + name
    for name in "config entrypoints envs exceptions inputs logprobs lora outputs platforms pooling_params renderers sampling_params tokenizers utils.import_utils v1".split()
}
PROTOCOL = "vllm.entrypoints.generate.base.protocol"
ADAPTERS = "vllm.parser.engine.registered_adapters"
CHAT_PROTOCOL = "vllm.entrypoints.openai.chat_completion.protocol"


# Seconds that an expression may take; the parser treats a text that needs more as no call.
SLOW = 2


class FunctionCall(pydantic.BaseModel):
    """The fields of a call, as in the server's own model of the same name, which imports too much."""

    name: str
    arguments: str


class ToolCall(pydantic.BaseModel):
    function: FunctionCall


class ExtractedToolCallInformation(pydantic.BaseModel):
    tools_called: bool
    tool_calls: list[ToolCall]
    content: str | None = None


class Message(types.SimpleNamespace):
    """A delta: a field that is not given is None."""

    def __getattr__(self, name):
        return None


class Function(pydantic.BaseModel):
    name: str
    description: object = None
    parameters: object = None


class ChatCompletionToolsParam(pydantic.BaseModel):
    type: str = "function"
    function: Function


class Tokenizer:
    """Has every token that a parser looks up, and lists the tag that opens the calls or the thought of a text. A text has one token a character."""

    def __init__(self, text, tag=r"<tool_calls(:[a-zA-Z0-9_-]{1,64})?>"):
        self.tag = re.search(tag, text)
        self.init_kwargs = {"token_suffix": self.tag[1]} if self.tag else {}

    def get_vocab(self):
        return AnyToken({self.tag[0].replace("</", "<"): 1} if self.tag else {})

    def encode(self, text, add_special_tokens=True):
        return [ord(character) for character in text]


class AnyToken(dict):
    def get(self, key, default=None):
        return 1

    def __missing__(self, key):
        return 1


def enter(folder):
    import transformers  # before the stand-ins, so that it does not take torch for installed

    transformers.PreTrainedTokenizerBase
    for _, package in oracle.bare_packages(folder, BARE):
        package.random_uuid = lambda: "0"
        package.__getattr__ = reasoning_base
    protocol = sys.modules[PROTOCOL] = types.ModuleType(PROTOCOL)
    protocol.__getattr__ = lambda name: oracle.inert(name)
    for model in (FunctionCall, ToolCall, ExtractedToolCallInformation):
        setattr(protocol, model.__name__, model)
    for name in ("DeltaMessage", "DeltaToolCall", "DeltaFunctionCall"):
        setattr(protocol, name, type(name, (Message,), {}))
    chat = sys.modules[CHAT_PROTOCOL] = types.ModuleType(CHAT_PROTOCOL)
    chat.__getattr__ = lambda name: oracle.inert(name)
    chat.ChatCompletionToolsParam = ChatCompletionToolsParam
    base = sys.modules["vllm.parser.abstract_parser"] = types.ModuleType("vllm.parser.abstract_parser")
    base.__getattr__ = lambda name: oracle.inert(name)
    base.Parser = type("Parser", (), {})
    base.StreamState = lambda **fields: types.SimpleNamespace(history_tool_call_cnt=0, **fields)
    registered = sys.modules[ADAPTERS] = types.ModuleType(ADAPTERS)
    registered.__getattr__ = adapter
    mistral = sys.modules["vllm.utils.mistral"] = types.ModuleType("vllm.utils.mistral")
    mistral.is_mistral_tokenizer = lambda tokenizer: False
    envs = sys.modules["vllm.envs"] = types.ModuleType("vllm.envs")
    envs.__getattr__ = lambda name: SLOW if name.endswith("_TIMEOUT_SECONDS") else oracle.inert(name)
    logger = sys.modules["vllm.logger"] = types.ModuleType("vllm.logger")
    logger.init_logger = logging.getLogger
    oracle.STAND_INS.clear()
    oracle.STAND_INS |= STAND_INS
    sys.meta_path.insert(0, oracle.StandIns())


def reasoning_base(name):
    """The one class that modules import from the package of the reasoning parsers; its __init__ is not run."""
    if name != "ReasoningParser":
        raise AttributeError(name)
    return importlib.import_module("vllm.reasoning.abs_reasoning_parsers").ReasoningParser


def adapter(name):
    """The tool or reasoning parser of an engine, as `registered_adapters` makes it: that module imports every engine."""
    if name.startswith("__"):
        raise AttributeError(name)
    parser = name.removesuffix("ToolAdapter").removesuffix("ReasoningAdapter")
    from vllm.parser.engine.adapters import make_adapters

    module = importlib.import_module("vllm.parser." + parser.removesuffix("Parser").lower())
    return make_adapters(getattr(module, parser))[name.endswith("ToolAdapter")]


def table(folder, package):
    """Parser names with their modules and classes, as a package lists them."""
    with open(os.path.join(folder, "vllm", package, "__init__.py"), encoding="utf-8") as file:
        text = file.read()
    rows = re.findall(r'^    "([\w-]+)": \([^\n]*\n        "(\w+)",[^\n]*\n        "(\w+)",', text, re.M)
    return {name: (f"vllm.{package}.{module}", parser) for name, module, parser in rows}


def read_cohere(text, preset):
    """What the server's one parser for thought, answer and calls returns."""
    import cohere_melody

    found = cohere_melody.PyFilter(getattr(cohere_melody.PyFilterOptions(), preset)()).process_full_text(text)
    calls = [{"name": call.name, "parameters": call.arguments} for call in found.tool_calls]
    return {"expected": {"normal_text": found.content or "", "calls": calls}, "reasoning": found.reasoning or ""}


def read_reasoning(request, parsers):
    module, name = parsers[request["reasoning_parser"]]
    tokenizer = Tokenizer(request["text"], r"</?think(:[a-zA-Z0-9_-]{1,64})?>")
    variables = {"reasoning_effort": "high"} if request["options"].get("force_reasoning") else {}
    parser = getattr(importlib.import_module(module), name)(tokenizer, chat_template_kwargs=variables)
    reasoning, content = parser.extract_reasoning(request["text"], types.SimpleNamespace(tools=[]))
    return {"expected": {"reasoning_text": reasoning or "", "normal_text": content or ""}}


def read(request, parsers):
    if request["parser"] == "cohere_command3":
        return read_cohere(request["text"], "cmd3")
    module, name = parsers[request["parser"]]
    parser = getattr(importlib.import_module(module), name)
    started = time.process_time()
    tools = [ChatCompletionToolsParam(**tool) for tool in request["tools"]]
    try:
        found = parser(Tokenizer(request["text"]), tools).extract_tool_calls(request["text"], types.SimpleNamespace(tools=tools))
    except Exception as error:
        return {"expected": {"error": type(error).__name__}}
    if time.process_time() - started > SLOW / 2:
        return {"out_of_time": True}
    calls = [{"name": call.function.name, "parameters": call.function.arguments} for call in found.tool_calls]
    return {"expected": {"normal_text": found.content or "", "calls": calls}}


def main():
    folder = sys.argv[1]
    enter(folder)
    tools, reasoning = table(folder, "tool_parsers"), table(folder, "reasoning")
    out = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        if "names" in request:
            answer = {"tools": {name: name for name in tools}, "reasoning": {name: name for name in reasoning}}
        else:
            answer = read_reasoning(request, reasoning) if "reasoning_parser" in request else read(request, tools)
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
