"""A server of the official MCP package for Python, with both revisions. Usage: python mcp_official_server.py stdio | <port>"""

import sys

from mcp.server.mcpserver import MCPServer

server = MCPServer("official", instructions="Add up.")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@server.tool()
def lines() -> "list[int]":
    """Lists."""
    return [1, 2]


@server.tool()
def record() -> "dict[str, int]":
    """Records."""
    return {"sum": 3}


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no")


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
