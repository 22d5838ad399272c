"""The Python SDK 1.x meets the gate: `python steps.py URL TOKEN TOKEN_WITHOUT_SCOPE KEY`."""

import pathlib
import sys
from contextlib import asynccontextmanager
from datetime import timedelta

import anyio
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from telling import arguments, listed, raised, returned, tell  # noqa: E402

REFUND = {"order_id": "ord_9f2", "amount_cents": 1250}


@asynccontextmanager
async def connected(url, token):
    """A session on a connection of its own."""
    headers = {"Authorization": f"Bearer {token}"}
    async with streamablehttp_client(url, headers=headers) as (incoming, outgoing, _):
        async with ClientSession(incoming, outgoing, timedelta(seconds=20)) as session:
            await session.initialize()
            yield session


async def call(session, step, tool, args):
    try:
        outcome = returned(await session.call_tool(tool, args))
    except Exception as fault:
        outcome = raised(fault)
    try:
        usable = bool((await session.list_tools()).tools)
    except Exception:
        usable = False
    tell(step, usable=usable, **outcome)


async def main():
    url, token, poor_token, key = arguments()

    async with connected(url, token) as session:
        tell("list", **listed(await session.list_tools()))
        await call(session, "first", "refund_order", {**REFUND, "idempotency_key": key})

    async with connected(url, token) as session:
        await call(session, "replay", "refund_order", {**REFUND, "idempotency_key": key})
        await call(session, "other_amount", "refund_order", {**REFUND, "amount_cents": 9900, "idempotency_key": key})
        await call(session, "no_key", "refund_order", REFUND)
        await call(session, "read", "get_invoice", {"invoice_id": "inv_1001"})

    # A 403 ends this SDK's whole session, from the inside out: the fault is caught where the session began.
    try:
        async with connected(url, poor_token) as session:
            tell("poor_list", **listed(await session.list_tools()))
            await call(session, "no_scope", "refund_order", {**REFUND, "idempotency_key": f"{key}-poor"})
    except Exception as fault:
        tell("no_scope", usable=False, **raised(fault))


anyio.run(main)
