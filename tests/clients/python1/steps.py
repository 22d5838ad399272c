"""The Python SDK 1.x meets the gate; telling.py says what it does on which order."""

import pathlib
import sys
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client
from mcp.types import ElicitResult

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from telling import follow  # noqa: E402


class Sdk:
    @asynccontextmanager
    async def connected(self, url, token, answer):
        async def elicited(_context, params):
            content = answer(params)
            return ElicitResult(action="accept" if content else "decline", content=content)

        headers = {"Authorization": f"Bearer {token}"}
        async with streamablehttp_client(url, headers=headers) as (incoming, outgoing, _):
            patience = timedelta(seconds=20)
            async with ClientSession(incoming, outgoing, patience, elicitation_callback=elicited) as session:
                self.versions = await session.initialize()
                yield session

    def version(self, _session):
        return self.versions.protocolVersion

    async def list(self, session):
        return await session.list_tools()

    async def call(self, session, order, progress):
        return await session.call_tool(
            order["tool"], order["arguments"], progress_callback=progress, meta=order.get("meta")
        )


anyio.run(follow, Sdk())
