"""The Python SDK 2.x meets the gate, in whichever era it finds: `python steps.py URL TOKEN TOKEN_WITHOUT_SCOPE KEY`."""

import pathlib
import sys
from contextlib import asynccontextmanager

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from telling import arguments, listed, raised, returned, tell  # noqa: E402

REFUND = {"order_id": "ord_9f2", "amount_cents": 1250}


@asynccontextmanager
async def connected(url, token):
    """A client on a connection of its own."""
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        async with Client(streamable_http_client(url, http_client=http), read_timeout_seconds=20) as client:
            yield client


async def call(client, step, tool, args):
    try:
        outcome = returned(await client.call_tool(tool, args))
    except Exception as fault:
        outcome = raised(fault)
    try:
        usable = bool((await client.list_tools(cache_mode="refresh")).tools)
    except Exception:
        usable = False
    tell(step, usable=usable, **outcome)


async def main():
    url, token, poor_token, key = arguments()

    async with connected(url, token) as client:
        tell("list", version=client.protocol_version, **listed(await client.list_tools()))
        await call(client, "first", "refund_order", {**REFUND, "idempotency_key": key})

    async with connected(url, token) as client:
        await call(client, "replay", "refund_order", {**REFUND, "idempotency_key": key})
        await call(client, "other_amount", "refund_order", {**REFUND, "amount_cents": 9900, "idempotency_key": key})
        await call(client, "no_key", "refund_order", REFUND)
        await call(client, "read", "get_invoice", {"invoice_id": "inv_1001"})

    async with connected(url, poor_token) as client:
        tell("poor_list", **listed(await client.list_tools()))
        await call(client, "no_scope", "refund_order", {**REFUND, "idempotency_key": f"{key}-poor"})


anyio.run(main)
