"""Reads texts with SGLang's own detectors and reasoning parsers: reads one JSON request per line, and writes one JSON answer per line.

    python oracle.py <folder of the unpacked wheel>

The detectors need neither a GPU nor torch. Packages whose `__init__` would import the server are entered without running it, and
modules that are not installed are replaced by stand-ins whose every name is an inert class.

Requests: {"parser": name, "tools": [...], "text": text, "cuts": [place, ...] | null} or
{"reasoning_parser": name, "options": {...}, "text": text, "cuts": ... | null}; {"names": true} lists the available names.
A cut streams the text in two pieces, the cut 0 in pieces of one character. Answers have the fields of the golden vectors, with cuts
also "streamed": the number of cuts that the server reads differently from the whole text; {"out_of_time": true} where the server needs more
than half a second for one reading.
"""

import importlib.abc
import importlib.machinery
import json
import logging
import os
import signal
import sys
import types

logging.disable(logging.CRITICAL)
sys.setrecursionlimit(1000)

BARE = [
    "sglang",
    "sglang.srt",
    "sglang.srt.utils",
    "sglang.srt.function_call",
    "sglang.srt.parser",
    "sglang.srt.entrypoints",
    "sglang.srt.entrypoints.openai",
]
STAND_INS = {"torch", "xgrammar", "triton", "zmq", "fastapi", "starlette", "uvicorn", "psutil", "PIL", "IPython", "tml_renderers"}
STAND_INS |= {"sglang.utils", "sglang.srt.utils.common", "sglang.srt.utils.network", "sglang.srt.multimodal", "sglang.srt.sampling"}


class InertMeta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return inert(name)

    def __or__(cls, other):
        return cls

    __ror__ = __or__


class Inert(metaclass=InertMeta):
    """Replaces a class or a function of a module that is not installed."""

    def __init__(self, *args, **kwargs):
        pass

    def __call__(self, *args, **kwargs):
        return args[0] if args and callable(args[0]) else self

    def __class_getitem__(cls, item):
        return cls

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema

        return core_schema.any_schema()


def inert(name):
    return InertMeta(name, (Inert,), {})


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        covered = any(name == known or name.startswith(known + ".") for known in STAND_INS)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if covered else None

    def create_module(self, spec):
        module = types.ModuleType(spec.name)
        module.__path__ = []
        module.__version__ = "0.0.0"
        module.__getattr__ = lambda name: inert(name)
        return module

    def exec_module(self, module):
        pass


def bare_packages(folder, names):
    """Registers packages without running their __init__, parents first, so that only the requested modules are loaded."""
    sys.path.insert(0, folder)
    for name in names:
        package = types.ModuleType(name)
        package.__path__ = [os.path.join(folder, *name.split("."))]
        sys.modules[name] = package
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, package)
        yield name, package


def enter(folder):
    for name, package in bare_packages(folder, BARE):
        if name == "sglang.srt.utils":
            package.__getattr__ = lambda attribute: inert(attribute)
    import transformers  # noqa: F401 - before the stand-ins, so that it does not take torch for installed

    transformers.PreTrainedTokenizerBase
    sys.meta_path.insert(0, StandIns())


class OutOfTime(BaseException):
    """Some expressions of the server need exponential time; not a subclass of Exception, which the detectors would catch."""


def out_of_time(_signal, _frame):
    raise OutOfTime


def start_clock():
    # Seconds of processor time, so that a busy machine makes no difference.
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.5)


def call_of(item):
    return {"name": item.name, "parameters": item.parameters, "tool_index": item.tool_index}


def read_calls(request):
    from sglang.srt.entrypoints.openai.protocol import Tool
    from sglang.srt.function_call.function_call_parser import FunctionCallParser

    tools = [Tool(**tool) for tool in request["tools"]]
    name, text = request["parser"], request["text"]
    parser = FunctionCallParser(tools, name)
    answer = {"has_tool_call": parser.detector.has_tool_call(text), "detector_normal_text": None}
    try:
        normal_text, calls = parser.parse_non_stream(text)
        answer["expected"] = {"normal_text": normal_text, "calls": [call_of(call) for call in calls]}
        answer["detector_normal_text"] = FunctionCallParser(tools, name).detector.detect_and_parse(text, tools).normal_text
    except Exception as error:
        answer["expected"] = {"error": type(error).__name__}
        return answer
    if request.get("cuts") is not None:
        whole = {
            "normal_text": normal_text,
            "calls": [{"name": call.name, "parameters": call.parameters} for call in calls],
        }
        answer["streamed"] = differing(request, whole, lambda pieces: stream_calls(FunctionCallParser(tools, name), pieces))
    return answer


def differing(request, whole, read):
    text, count = request["text"], 0
    for cut in request["cuts"]:
        start_clock()
        count += read(list(text) if cut == 0 else [text[:cut], text[cut:]]) != whole
    return count


def stream_calls(parser, pieces):
    text, calls = "", {}
    steps = [lambda piece=piece: parser.parse_stream_chunk(piece) for piece in pieces] + [parser.parse_stream_end]
    try:
        for step in steps:
            normal_text, items = step()
            text += normal_text
            for item in items:
                call = calls.setdefault(item.tool_index, {"name": None, "parameters": ""})
                call["name"] = call["name"] or item.name
                call["parameters"] += item.parameters
    except Exception as error:
        return {"error": type(error).__name__}
    return {"normal_text": text, "calls": [calls[index] for index in sorted(calls)]}


def read_reasoning(request):
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    def fresh():
        return ReasoningParser(request["reasoning_parser"], stream_reasoning=True, **request.get("options", {}))

    try:
        reasoning, normal_text = fresh().parse_non_stream(request["text"])
        answer = {"expected": {"reasoning_text": reasoning, "normal_text": normal_text}}
        if request.get("cuts") is not None:
            answer["streamed"] = differing(request, answer["expected"], lambda pieces: stream_reasoning(fresh(), pieces))
    except Exception as error:
        return {"expected": {"error": type(error).__name__}}
    return answer


def stream_reasoning(parser, pieces):
    streamed = ["", ""]
    try:
        for step in [lambda piece=piece: parser.parse_stream_chunk(piece) for piece in pieces] + [parser.parse_stream_end]:
            for index, part in enumerate(step()):
                streamed[index] += part or ""
    except Exception as error:
        return {"error": type(error).__name__}
    return {"reasoning_text": streamed[0], "normal_text": streamed[1]}


def names():
    from sglang.srt.function_call.function_call_parser import FunctionCallParser
    from sglang.srt.parser.reasoning_parser import ReasoningParser

    def aliases(table):
        first = {}
        return {name: first.setdefault(detector, name) for name, detector in table.items()}

    return {"tools": aliases(FunctionCallParser.ToolCallParserEnum), "reasoning": aliases(ReasoningParser.DetectorMap)}


def main():
    enter(sys.argv[1])
    # All modules are imported before any text is timed.
    known = names()
    signal.signal(signal.SIGVTALRM, out_of_time)
    out = sys.stdout
    sys.stdout = sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        if "names" in request:
            answer = known
        else:
            start_clock()
            try:
                answer = read_calls(request) if "parser" in request else read_reasoning(request)
            except OutOfTime:
                answer = {"out_of_time": True}
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        out.write(json.dumps(answer) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
