"""An episode on our server, run by the client of the official Python package. Prints the revision and the results of the tools.
Usage: python mcp_official_client.py <url>"""

import asyncio
import json
import sys

from mcp.client import Client


async def play(url: str, mode: str) -> dict:
    async with Client(url, mode=mode) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        said = await client.call_tool("respond", {"message": "Who are you?"})
        wrong = await client.call_tool(tools[0], {"nonsense": 1})
        last = await client.call_tool("finish", {})
        assert said.content[0].text and wrong.is_error and last.structured_content["reward"] is not None, (said, wrong, last)
        return {"revision": client.protocol_version, "tools": len(tools)}


url = sys.argv[1]
print(json.dumps([asyncio.run(play(f"{url}?task=1&seed={seed}", mode)) for seed, mode in enumerate(["auto", "legacy"])]))
