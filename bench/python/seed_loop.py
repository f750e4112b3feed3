"""The loop of a typical Python trainer, as a program to measure: our own stand-in, written from the described behaviour.

Every turn renders the whole conversation with the model's chat template and sends it as text; the tokens of every added message
are found by rendering the conversation with and without it and encoding the difference. Environment and user answer at once
from the script, which favours Python: the reference environment needs 0.27 s of CPU per episode.

Usage: seed_loop.py SCRIPT.json, where SCRIPT is {model, url, wiki, tools, concurrency, episodes: [{key, first, steps: [{observation, done}]}]}.
Each line on standard input runs all episodes once; the answer is a line {"turns", "cpuUs", "trained"}.
"""

import asyncio
import json
import re
import sys
import time

import httpx
from transformers import AutoTokenizer

ACT = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
END = "<|im_end|>"


class Seed:
    def __init__(self, script):
        self.script = script
        self.tokenizer = AutoTokenizer.from_pretrained(script["model"])
        self.client = httpx.AsyncClient(
            limits=httpx.Limits(max_connections=script["concurrency"]), timeout=None
        )

    def render(self, messages, **options):
        return self.tokenizer.apply_chat_template(messages, tokenize=False, **options)

    def prompt(self, messages):
        return self.render(messages, tools=self.script["tools"], add_generation_prompt=True)

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False)

    def added(self, messages):
        """Tokens that the last message adds, and their mask."""
        is_action = messages[-1]["role"] == "assistant"
        after = self.render(messages, add_generation_prompt=False)
        before = self.render(messages[:-1], add_generation_prompt=is_action)
        ids = self.encode(after[len(before) :])
        return ids, [1 if is_action else 0] * len(ids)

    async def play(self, episode):
        messages = [
            {"role": "system", "content": self.script["wiki"]},
            {"role": "user", "content": episode["first"]},
        ]
        tokens = self.encode(self.prompt(messages))
        mask = []
        turns = 0
        for step in episode["steps"]:
            # The request id tells the server which reply to send.
            request = {
                "text": self.prompt(messages),
                "sampling_params": {"temperature": 1.0, "max_new_tokens": 512},
                "rid": f"{episode['key']}_t{turns}_r1",
            }
            reply = (await self.client.post(self.script["url"], json=request)).raise_for_status().json()
            if reply["meta_info"]["finish_reason"]["type"] == "abort":
                break
            turns += 1
            text = reply["text"].removesuffix(END)
            calls = [json.loads(call) for call in ACT.findall(text)]
            messages.append({"role": "assistant", "content": text})
            self.record(messages, tokens, mask)
            if calls:
                answer = {"role": "tool", "name": calls[0]["name"], "content": step["observation"]}
            else:
                answer = {"role": "user", "content": step["observation"]}
            messages.append(answer)
            self.record(messages, tokens, mask)
            if step["done"]:
                break
        return turns, sum(mask)

    def record(self, messages, tokens, mask):
        ids, ones = self.added(messages)
        tokens.extend(ids)
        mask.extend(ones)

    async def run(self):
        places = asyncio.Semaphore(self.script["concurrency"])

        async def one(episode):
            async with places:
                return await self.play(episode)

        before = time.process_time()
        played = await asyncio.gather(*(one(episode) for episode in self.script["episodes"]))
        cpu = time.process_time() - before
        turns = sum(turns for turns, _ in played)
        trained = sum(trained for _, trained in played)
        print(json.dumps({"turns": turns, "cpuUs": round(cpu * 1e6), "trained": trained}), flush=True)


async def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        seed = Seed(json.load(file))
    print(json.dumps({"ready": True}), flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        await seed.run()


asyncio.run(main())
