"""Measures the cost of a step over openenv-core's own server, with its own client. 
Usage: python openenv_cost.py <url of the boxes> <url of the number> <calls>"""

import sys
import time

from openenv.core.generic_client import GenericEnvClient

boxes, guess, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
for url, step in [
    (boxes, {"type": "call_tool", "tool_name": "count_opened", "arguments": {}}),
    (guess, {"guess": 1000}),
]:
    with GenericEnvClient(base_url=url).sync() as env:
        env.reset(seed=1)
        for _ in range(20):
            env.step(step)
        begun = time.perf_counter()
        for _ in range(calls):
            env.step(step)
        print(1000 * (time.perf_counter() - begun) / calls)
