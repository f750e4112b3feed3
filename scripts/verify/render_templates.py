"""Renders conversations with transformers' apply_chat_template and writes the SHA-256 of each text, or the refusal.

Arguments: the chat template, the conversations (JSON lines), the output, the special tokens (JSON), the local time.
"""

import datetime
import hashlib
import json
import sys

import jinja2
import tokenizers
import transformers
from transformers.utils import chat_template_utils


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def main(template_path, input_path, output_path, special_tokens, now):
    class Clock(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromisoformat(now)

    chat_template_utils.datetime = Clock
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()), **json.loads(special_tokens)
    )
    with open(template_path, encoding="utf-8") as file:
        tokenizer.chat_template = file.read()

    def render(request):
        try:
            text = tokenizer.apply_chat_template(
                request["messages"],
                tools=request["tools"],
                add_generation_prompt=True,
                tokenize=False,
                **request["kwargs"],
            )
        except Exception as error:
            # raise_exception() raises exactly this class; other exceptions differ in their messages.
            is_raised = type(error) is jinja2.exceptions.TemplateError
            return f"refused: {sha256(error.message)}" if is_raised else "refused"
        return sha256(text)

    with open(input_path, encoding="utf-8") as file:
        outcomes = [render(json.loads(line)) for line in file.read().split("\n")]
    with open(output_path, "w", encoding="utf-8") as file:
        json.dump(outcomes, file)


main(*sys.argv[1:])
