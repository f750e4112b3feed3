"""Reads texts with vLLM's own tool parsers: reads one JSON request per line, and writes one JSON answer per line.

    python vllm_oracle.py <folder of the unpacked wheel>

Works like oracle.py and uses its stand-ins. Requests: {"parser": name, "tools": [...], "text": text}; {"names": true} lists the available names.
Answers: {"expected": {"normal_text": text, "calls": [{"name": name, "parameters": text}, ...]}}, or {"expected": {"error": class}}.
"""

import importlib
import json
import logging
import os
import re
import sys
import types

import oracle
import pydantic

BARE = ["vllm", "vllm.tool_parsers", "vllm.utils"]
STAND_INS = {"torch", "xgrammar", "fastapi", "starlette", "mistral_common"} | {
    "vllm." + name
    for name in "config entrypoints envs exceptions inputs logprobs lora outputs parser platforms pooling_params reasoning renderers sampling_params tokenizers utils.import_utils v1".split()
}
PROTOCOL = "vllm.entrypoints.generate.base.protocol"


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


class Tokenizer:
    """A tokenizer that has every token that a parser looks up, and no text."""

    def get_vocab(self):
        return AnyToken()


class AnyToken(dict):
    def get(self, key, default=None):
        return 1


def enter(folder):
    import transformers  # before the stand-ins, so that it does not take torch for installed

    transformers.PreTrainedTokenizerBase
    for _, package in oracle.bare_packages(folder, BARE):
        package.random_uuid = lambda: "0"
    protocol = sys.modules[PROTOCOL] = types.ModuleType(PROTOCOL)
    protocol.__getattr__ = lambda name: oracle.inert(name)
    for model in (FunctionCall, ToolCall, ExtractedToolCallInformation):
        setattr(protocol, model.__name__, model)
    mistral = sys.modules["vllm.utils.mistral"] = types.ModuleType("vllm.utils.mistral")
    mistral.is_mistral_tokenizer = lambda tokenizer: False
    logger = sys.modules["vllm.logger"] = types.ModuleType("vllm.logger")
    logger.init_logger = logging.getLogger
    oracle.STAND_INS.clear()
    oracle.STAND_INS |= STAND_INS
    sys.meta_path.insert(0, oracle.StandIns())


def table(folder):
    """Parser names with their modules and classes, as the package lists them."""
    with open(os.path.join(folder, "vllm", "tool_parsers", "__init__.py"), encoding="utf-8") as file:
        text = file.read()
    return {name: place for name, *place in re.findall(r'^    "([\w-]+)": \([^\n]*\n        "(\w+)",[^\n]*\n        "(\w+)",', text, re.M)}


def read(request, parsers):
    module, name = parsers[request["parser"]]
    parser = getattr(importlib.import_module(f"vllm.tool_parsers.{module}"), name)(Tokenizer(), None)
    try:
        found = parser.extract_tool_calls(request["text"], None)
    except Exception as error:
        return {"expected": {"error": type(error).__name__}}
    calls = [{"name": call.function.name, "parameters": call.function.arguments} for call in found.tool_calls]
    return {"expected": {"normal_text": found.content or "", "calls": calls}}


def main():
    folder = sys.argv[1]
    enter(folder)
    parsers = table(folder)
    out = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"tools": {name: name for name in parsers}, "reasoning": {}} if "names" in request else read(request, parsers)
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
