"""Reads answers with transformers' response templates, and with SGLang's copy of them: reads one JSON request per line, and writes one answer per line.

    python oracle.py <folders of the unpacked wheels: transformers, sglang, trl>

{"templates": true} lists the templates that TRL ships. {"template": {...}, "text": text, "prefix": text, "tools": [...], "pieces": [...]}
is answered with "whole", "pieces" and "sglang": each the JSON of the message as text, or the class of the exception.
"""

import ast
import importlib.util
import json
import logging
import os
import re
import sys
import types

logging.disable(logging.CRITICAL)


def templates_of(folder):
    """The dicts named *_template in TRL's module, read without importing TRL: assignments that only depend on each other."""
    known = {"re": re, "_SUPPORTS_PARSE_RESPONSE_TOOLS": True}
    with open(os.path.join(folder, "trl", "chat_template_utils.py")) as file:
        for node in ast.parse(file.read()).body:
            if isinstance(node, ast.Assign):
                try:
                    exec(compile(ast.Module([node], []), "trl", "exec"), known)
                except Exception:
                    pass
    return {name: value for name, value in known.items() if name.endswith("_template") and isinstance(value, dict)}


def sglang_parser(folder):
    """SGLang's package of the same modules, loaded without running the server's code."""
    base = os.path.join(folder, "sglang", "srt", "parser", "chat_parsing")
    package = types.ModuleType("chat_parsing_of_sglang")
    package.__path__ = [base]
    sys.modules[package.__name__] = package
    for name in ("sglang", "sglang.srt", "sglang.srt.parser", "sglang.srt.parser.chat_parsing"):
        parent = types.ModuleType(name)
        parent.__path__ = [os.path.join(folder, *name.split("."))]
        sys.modules[name] = parent
    spec = importlib.util.find_spec("sglang.srt.parser.chat_parsing.response_parser")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def attempt(read):
    try:
        return json.dumps(read())
    except Exception as error:
        return {"error": type(error).__name__}


def in_pieces(module, request):
    parser = module.ResponseParser(request["template"], prefix=request["prefix"], tools=request["tools"])
    for piece in request["pieces"]:
        parser.feed(piece)
    return parser.finalize()[0]


def main():
    newest, servers, trl = sys.argv[1:]
    sys.path.insert(0, newest)
    from transformers.utils.chat_parsing import response_parser

    sglang = sglang_parser(servers)
    for line in sys.stdin:
        request = json.loads(line)
        if "templates" in request:
            answer = templates_of(trl)
        else:
            options = {"prefix": request["prefix"], "tools": request["tools"]}
            answer = {
                "whole": attempt(lambda: response_parser.parse_response(request["text"], request["template"], **options)),
                "pieces": attempt(lambda: in_pieces(response_parser, request)),
                "sglang": attempt(lambda: sglang.parse_response(request["text"], request["template"], **options)),
            }
        print(json.dumps(answer), flush=True)


main()
