"""The Python SDK 2.x meets the gate, `python steps.py auto|legacy`; telling.py says what it does on which order."""

import pathlib
import sys
from contextlib import asynccontextmanager

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitResult

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from telling import follow  # noqa: E402


class Sdk:
    @asynccontextmanager
    async def connected(self, url, token, answer):
        async def elicited(_context, params):
            content = answer(params)
            return ElicitResult(action="accept" if content else "decline", content=content)

        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
            transport = streamable_http_client(url, http_client=http)
            options = {"mode": sys.argv[1], "read_timeout_seconds": 20, "elicitation_callback": elicited}
            async with Client(transport, **options) as client:
                yield client

    def version(self, client):
        return client.protocol_version

    async def list(self, client):
        return await client.list_tools(cache_mode="refresh")

    async def call(self, client, order, progress):
        return await client.call_tool(
            order["tool"], order["arguments"], progress_callback=progress, meta=order.get("meta")
        )


anyio.run(follow, Sdk())
