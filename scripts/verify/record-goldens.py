"""Records the output of transformers for chat templates and tokenizers of models, as golden files.

Run: python record-goldens.py <folder for the files> <folder of a model>...
Needs Python with transformers and jinja2; tests/goldens/README.md states the versions and the full command for our own models.
Writes render.<name>.jsonl and prefix.<name>.jsonl, named after the model's folder, and where the model has a tokenizer.json
encode.<name>.jsonl, decode.<name>.jsonl and drift.<name>.jsonl, for `npm run conformance -- models <folder>`.
Not a test: none of our code is involved.
"""

import datetime
import itertools
import json
import pathlib
import random
import sys

import jinja2
import tokenizers
from transformers.utils import chat_template_utils

NOW = "2026-01-15T12:00:00"
TOOL = {
    "type": "function",
    "function": {
        "name": "find_order",
        "description": 'Finds an order. "é" <b> 😀',
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}, "weight": {"maximum": 2.5}},
            "required": ["order_id"],
        },
    },
}


def call(arguments, number=0):
    function = {"name": "find_order", "arguments": arguments}
    return {"id": f"call0000{number}", "type": "function", "function": function}


def result(content, number=0):
    return {"role": "tool", "name": "find_order", "tool_call_id": f"call0000{number}", "content": content}


SYSTEM = {"role": "system", "content": "You work in a bookshop."}
USER = {"role": "user", "content": "Where is my order?"}
ANSWER = {"role": "assistant", "content": "It is on its way."}
THOUGHT = {"role": "assistant", "content": "Hello!", "reasoning_content": "I should greet."}
INLINE = {"role": "assistant", "content": "<think>\nI should greet.\n</think>\n\nHello!"}
CALL = {"role": "assistant", "content": "", "tool_calls": [call({"order_id": "#W1", "weight": 1.0})]}
NO_WORDS = {"role": "assistant", "content": None, "tool_calls": [call({"order_id": "#W1"})]}
AS_TEXT = {"role": "assistant", "content": "Well.", "tool_calls": [call('{"order_id": "#W1"}')]}
TWO = {"role": "assistant", "content": "", "tool_calls": [call({"a": [1, None]}), call({"b": {}}, 1)]}
RAW = {"role": "assistant", "content": '<tool_call>\n{"name": "find_order", "arguments": {}}\n</tool_call>'}
BLANKS = {"role": "user", "content": "\n  two  words \n"}
EMPTY = {"role": "user", "content": ""}
LATER = {"role": "system", "content": "Be brief."}
ODD = {"role": "robot", "content": "beep"}

CONVERSATIONS = [
    [USER],
    [SYSTEM, USER],
    [SYSTEM],
    [USER, ANSWER],
    [SYSTEM, USER, ANSWER, BLANKS],
    [USER, THOUGHT],
    [USER, THOUGHT, USER],
    [USER, INLINE, USER],
    [USER, CALL],
    [USER, CALL, result('{"status": "shipped"}')],
    [USER, CALL, result("one"), ANSWER, USER],
    [USER, NO_WORDS, result("")],
    [USER, AS_TEXT, result("one")],
    [USER, TWO, result("one"), result("two", 1)],
    [USER, RAW, result("one"), THOUGHT],
    [USER, {**THOUGHT, "tool_calls": CALL["tool_calls"]}, result("one")],
    [EMPTY, ANSWER, EMPTY],
    [USER, ANSWER, LATER, USER],
    [ANSWER, USER],
    [USER, ODD],
    [],
]

# Inputs on which tokenizers differ: blanks, digits, contractions, scripts, combining marks, bytes that do not form a character.
TEXTS = [
    "", " ", "  ", "\n", "\n\n", " \n ", "\t", "\r\n", "a", " a", "a ", "I'm we'll they'd", "It'S", "1234567", "3.14e-10",
    "$12.50", "#W1042", "snake_case CamelCase", "e\u0301 \u00e9", "stra\u00dfe", "\u0130", "\ufb01", "日本語", "مرحبا", "👩‍👩‍👧", "😀",
    "\u200b", "\ufeff", "\u00a0x", "\x00\x7f", "...!!!", '{"a": [1, null]}', "http://x.y/z?q=1", "<|im_start", "<|im_end |>", "tool_call>",
]  # fmt: skip
CHARACTERS = "abc XYZ 019 .,'\"{}[]<>|_-\n\t\u00e9\u00df日本😀\u0301\u200d#$"


def compiled(text):
    """The compiler of transformers, with a fixed clock."""
    environment = chat_template_utils._compile_jinja_template(text).environment
    environment.globals["strftime_now"] = lambda form: datetime.datetime.fromisoformat(NOW).strftime(form)
    return environment.from_string(text)


def render(template, given):
    try:
        rendered = template.render(
            messages=given["messages"],
            tools=given["tools"],
            documents=None,
            add_generation_prompt=given["add_generation_prompt"],
            **given["kwargs"],
            **{key: value for key, value in given["context"].items() if key != "now"},
        )
    except jinja2.exceptions.UndefinedError as error:
        return {"error": "undefined", "message": str(error)}
    except jinja2.exceptions.TemplateError as error:
        return {"error": "raise", "message": str(error)}
    except Exception as error:  # what Python raises is part of what a template does
        return {"error": type(error).__name__, "message": str(error)}
    return {"text": rendered}


def special_tokens(folder):
    file = folder / "tokenizer_config.json"
    config = json.loads(file.read_text("utf8")) if file.exists() else {}
    texts = {key: value.get("content") if isinstance(value, dict) else value for key, value in config.items()}
    return {key: text for key, text in texts.items() if key.endswith("_token") and isinstance(text, str)}


def common_prefix(left, right):
    return next((at for at, (a, b) in enumerate(zip(left, right)) if a != b), min(len(left), len(right)))


def prefix_record(template, given, appended, start):
    before = render(template, {**given, "add_generation_prompt": start == "generation_prompt"})
    after = render(
        template, {**given, "messages": given["messages"] + [appended], "add_generation_prompt": False}
    )
    failed = next((side for side in (before, after) if "error" in side), None)
    if failed is not None:
        return {**given, "append": appended, "from": start, "expected": {"error": failed["error"]}}
    common = common_prefix(before["text"], after["text"])
    expected = {
        "prefix_stable": common == len(before["text"]),
        "common_prefix_chars": common,
        "before_chars": len(before["text"]),
        "after_chars": len(after["text"]),
    }
    return {**given, "append": appended, "from": start, "expected": expected}


def read_template(folder):
    """The template in chat_template.jinja, otherwise the one in tokenizer_config.json."""
    source = folder / "chat_template.jinja"
    if source.exists():
        return source.read_text("utf8")
    config = folder / "tokenizer_config.json"
    text = json.loads(config.read_text("utf8")).get("chat_template") if config.exists() else None
    if not isinstance(text, str):
        sys.exit(f'Cannot record goldens: there is no "{source}" and no template in "{config}"; name the folder of a model.')
    return text


def tokenizer_records(folder, name, rendered):
    """Records encodings, decodings, and the places at which encoding in parts differs from encoding the whole. Seeded."""
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    draw = random.Random(name)

    def ids_of(text):
        return tokenizer.encode(text, add_special_tokens=False).ids

    def decodings(ids):
        return {
            "decoded": tokenizer.decode(ids, skip_special_tokens=False),
            "decoded_skip_special": tokenizer.decode(ids, skip_special_tokens=True),
        }

    specials = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    texts = TEXTS + specials + [f"{text}{special}{text}" for text in ("a", " ", "\n") for special in specials]
    texts += ["".join(draw.choices(CHARACTERS, k=draw.randrange(1, 60))) for _ in range(100)] + rendered
    encode = [{"id": f"{name}-e{at:03}", "tokenizer": name, "text": text, "ids": ids_of(text), **decodings(ids_of(text))} for at, text in enumerate(texts)]
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    cuts = [ids_of(text)[: draw.randrange(1, 9)] for text in texts[:40]]
    lists = cuts + [[draw.randrange(size) for _ in range(draw.randrange(1, 12))] for _ in range(80)]
    decode = [{"id": f"{name}-d{at:03}", "tokenizer": name, "ids": ids, **decodings(ids)} for at, ids in enumerate(lists)]
    drift = []
    for at, text in enumerate(texts[:60]):
        place = draw.randrange(len(text) + 1)
        a, b = text[:place], text[place:]
        ids_a, ids_b = ids_of(a), ids_of(b)
        equal = ids_a + ids_b == ids_of(text)
        record = {"id": f"{name}-b{at:03}", "tokenizer": name, "kind": "boundary", "a": a, "b": b}
        drift.append({**record, "ids_a": ids_a, "ids_b": ids_b, "ids_ab": ids_of(text), "concat_equal": equal})
    for at, ids in enumerate(lists[-40:]):
        text = tokenizer.decode(ids, skip_special_tokens=False)
        again = ids_of(text)
        record = {"id": f"{name}-n{at:03}", "tokenizer": name, "kind": "noncanonical", "ids": ids, "text": text}
        drift.append({**record, "reencoded": again, "roundtrip_equal": again == ids})
    return {"encode": encode, "decode": decode, "drift": drift}


def record(folder, target):
    name = folder.resolve().name
    text = read_template(folder)
    template = compiled(text)
    context = {**special_tokens(folder), "now": NOW}
    switches = [{}]
    for variable in ("enable_thinking", "thinking"):
        if variable in text:
            switches += [{variable: True}, {variable: False}]
    given = [
        {"template": name, "messages": messages, "tools": tools, "add_generation_prompt": prompt, "kwargs": kwargs, "context": context}
        for messages, tools, prompt, kwargs in itertools.product(CONVERSATIONS, [None, [TOOL]], [True, False], switches)
    ]
    renders = [{**one, "expected": render(template, one)} for one in given]
    asked = [one for one in given if one["messages"] and not one["add_generation_prompt"]]
    prefixes = [
        prefix_record(template, one, appended, start)
        for one in asked
        for appended, start in [(USER, "closed"), (result("late"), "closed"), (ANSWER, "generation_prompt")]
    ]
    files = {"render": renders, "prefix": prefixes}
    if (folder / "tokenizer.json").exists():
        rendered = [record["expected"]["text"] for record in renders if "text" in record["expected"]]
        files |= tokenizer_records(folder, name, [text for text in dict.fromkeys(rendered)])
    target.mkdir(parents=True, exist_ok=True)
    for kind, records in files.items():
        file = target / f"{kind}.{name}.jsonl"
        file.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records), "utf8")
        print(f"{len(records)} records in {file}")


def main():
    if len(sys.argv) < 3:
        sys.exit("Cannot record goldens: pass <folder for the files> <folder of a model>...")
    target, *folders = map(pathlib.Path, sys.argv[1:])
    for folder in folders:
        record(folder, target)


main()
