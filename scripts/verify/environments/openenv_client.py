"""Runs the bookshop on our server with openenv's own clients, those of openenv-core 0.3.0 and of openenv 0.10.0: GenericEnvClient over the WebSocket and its MCP tool client. Prints
one line of JSON. Usage: python openenv_client.py <url> <episodes> <calls>"""

import json
import sys
import time

from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

url, episodes, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
ends = []
for seed in range(episodes):
    with GenericEnvClient(base_url=url).sync() as env:
        first = env.reset(seed=seed, task=str(seed), episode_id=f"episode-{seed}")
        assert first.observation["message"] and first.observation["guidelines"] and not first.done, first
        tools = env.step({"type": "list_tools"}).observation["tools"]
        names = [tool["name"] for tool in tools]
        assert "respond" in names and "finish" in names, names
        said = env.step({"type": "call_tool", "tool_name": "respond", "arguments": {"message": "Who are you?"}})
        assert isinstance(said.observation["result"]["data"], str), said
        bad = env.step({"type": "call_tool", "tool_name": names[0], "arguments": {"nonsense": 1}})
        assert bad.observation["result"]["is_error"] is True, bad
        assert env.state() == {"episode_id": f"episode-{seed}", "step_count": 2}, env.state()
        last = env.step({"type": "call_tool", "tool_name": "finish", "arguments": {}})
        assert last.done and last.reward is not None, last
        ends.append(last.reward)
        try:
            env.step({"type": "call_tool", "tool_name": names[0], "arguments": {}})
            raise AssertionError("a step after the end was taken")
        except RuntimeError as error:
            assert "EXECUTION_ERROR" in str(error), error

with MCPToolClient(base_url=url).sync() as env:
    env.reset(task="1")
    listed = [tool.name for tool in env.list_tools()]
    answer = env.call_tool("respond", message="Hello?")
    assert listed and isinstance(answer, str), (listed, answer)

with GenericEnvClient(base_url=url).sync() as env:
    env.reset(task="0")
    step = {"type": "call_tool", "tool_name": "look_up", "arguments": {"id": "#W1"}}
    for _ in range(20):
        env.step(step)
    begun = time.perf_counter()
    for _ in range(calls):
        env.step(step)
    seconds = time.perf_counter() - begun

print(json.dumps({"episodes": len(ends), "tools": len(listed), "call_ms": 1000 * seconds / calls}))
