"""A server on the official Python SDK that offers what the conformance suite looks for, in both protocol eras.

    server.py PORT

Promises: it listens on 127.0.0.1 only, says `ready` on its standard output when it does, and keeps no state between
requests beyond what the protocol asks of it (legacy sessions and their events, tasks, subscriptions).
Absent on purpose: keys, tokens and tenants. It is an app that knows nothing of the gate.
"""

import sys
import warnings
from typing import Any

import anyio
import uvicorn
from mcp.server.caching import CacheHint
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    EmptyResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from events import Events
from fixture import PROMPTS, RESOURCES, TEMPLATES, TOOLS, answers, filled, without, words_of
from tasks import EXTENSION, Tasks

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
NEEDED_BY = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}

bus = InMemorySubscriptionBus()
tasks = Tasks()


def capabilities(ctx: Any) -> dict[str, Any]:
    return ((ctx.params or {}).get("_meta") or {}).get(CAPABILITIES) or {}


def next_round(ctx: Any, does: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """What is still to be asked of the client, if anything, and the inputs that it sent."""
    inputs = (ctx.params or {}).get("inputResponses")
    inputs = inputs if isinstance(inputs, dict) else {}
    rounds = does.get("rounds", [])
    # The round that was asked last. Where the client carries no state, there is only one.
    asked = int((ctx.params or {}).get("requestState") or 0)
    if asked < len(rounds) and all(answers(ask, inputs.get(name)) for name, ask in rounds[asked].items()):
        asked += 1
    if asked == len(rounds):
        return None, inputs
    can = capabilities(ctx)
    asks = {name: ask for name, ask in rounds[asked].items() if NEEDED_BY[ask["method"]] in can} or rounds[asked]
    result: dict[str, Any] = {"resultType": "input_required", "inputRequests": asks}
    if does.get("state"):
        result["requestState"] = str(asked)
    return result, inputs


async def call_tool(ctx: Any, params: Any) -> dict[str, Any]:
    tool = TOOLS.get(params.name)
    if tool is None:
        raise MCPError(INVALID_PARAMS, f"there is no tool {params.name}")
    does = tool["does"]
    words: dict[str, Any] = dict(params.arguments or {})

    if (need := does.get("needs")) and need not in capabilities(ctx):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY, "the client lacks a capability", {"requiredCapabilities": {need: {}}}
        )
    ask, inputs = next_round(ctx, does)
    if ask is not None:
        return ask
    words |= words_of(inputs)
    if "task" in does and (handle := tasks.begin(capabilities(ctx), does, words)) is not None:
        return handle

    for line in does.get("logs", []):
        with warnings.catch_warnings(action="ignore", category=MCPDeprecationWarning):
            await ctx.session.send_log_message("info", line, related_request_id=ctx.request_id)
        await anyio.sleep(0.05)
    for done in does.get("progress", []):
        await ctx.session.report_progress(done, 100)
        await anyio.sleep(0.05)
    if does.get("hangs_up") and ctx.close_sse_stream is not None:
        await ctx.close_sse_stream()
        await anyio.sleep(0.1)
    if "asks" in does:
        words["answer"] = await ask_now(ctx, filled(does["asks"], words))
    if does.get("changes") == "tools":
        await bus.publish(ToolsListChanged())
    if does.get("changes") == "prompts":
        await bus.publish(PromptsListChanged())

    content = does.get("answer") or [{"type": "text", "text": f"state-ok: {words}"}]
    return whole(ctx, {"content": filled(content, words), "isError": does.get("isError", False)})


def whole(ctx: Any, result: dict[str, Any]) -> dict[str, Any]:
    """The result as the caller's era wants it: the modern one says that nothing more is to come."""
    return {"resultType": "complete", **result} if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS else result


async def ask_now(ctx: Any, ask: dict[str, Any]) -> str:
    """Asks the client in the middle of a call, as the legacy era does: a request on the call's own stream."""
    channel = ctx.session._request_outbound  # noqa: SLF001, the only way to send a schema as it stands
    return str(await channel.send_raw_request(ask["method"], ask["params"]))


async def get_prompt(ctx: Any, params: Any) -> dict[str, Any]:
    prompt = PROMPTS.get(params.name)
    if prompt is None:
        raise MCPError(INVALID_PARAMS, f"there is no prompt {params.name}")
    ask, inputs = next_round(ctx, prompt.get("does", {}))
    if ask is not None:
        return ask
    return whole(ctx, {"messages": filled(prompt["messages"], dict(params.arguments or {}) | words_of(inputs))})


async def read_resource(ctx: Any, params: Any) -> dict[str, Any]:
    uri = str(params.uri)
    if (known := RESOURCES.get(uri)) is not None:
        return whole(ctx, {"contents": [{"uri": uri, "mimeType": known["mimeType"], **known["content"]}]})
    for template in TEMPLATES:
        before, after = template["uriTemplate"].split("{id}")
        if uri.startswith(before) and uri.endswith(after) and len(uri) > len(before) + len(after):
            record = filled(template["record"], {"id": uri[len(before) : len(uri) - len(after)]})
            return whole(ctx, {"contents": [{"uri": uri, "mimeType": template["mimeType"], "text": record}]})
    raise MCPError(INVALID_PARAMS, "Resource not found", {"uri": uri})


def listed(name: str, entries: Any, *private: str) -> Any:
    async def handler(ctx: Any, _: Any) -> dict[str, Any]:
        return whole(ctx, {name: [without(entry, *private) for entry in entries]})

    return handler


async def nothing(_: Any, __: Any) -> EmptyResult:
    return EmptyResult()


async def complete(ctx: Any, params: Any) -> dict[str, Any]:
    values = [word for word in ("paris", "park", "party") if word.startswith(params.argument.value)]
    return whole(ctx, {"completion": {"values": values, "total": len(values), "hasMore": False}})


def build() -> Server[Any]:
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    server: Server[Any] = Server(
        "oncegate-fixture",
        version="1.0.0",
        on_list_tools=listed("tools", TOOLS.values(), "does"),
        on_call_tool=call_tool,
        on_list_prompts=listed("prompts", PROMPTS.values(), "does", "messages"),
        on_get_prompt=get_prompt,
        on_list_resources=listed("resources", RESOURCES.values(), "content"),
        on_list_resource_templates=listed("resourceTemplates", TEMPLATES, "record"),
        on_read_resource=read_resource,
        on_subscribe_resource=nothing,
        on_unsubscribe_resource=nothing,
        on_subscriptions_listen=ListenHandler(bus),
        on_completion=complete,
        on_set_logging_level=nothing,
        cache_hints={
            method: CacheHint(ttl_ms=1000, scope="public")
            for method in (
                "tools/list",
                "prompts/list",
                "resources/list",
                "resources/templates/list",
                "resources/read",
                "server/discover",
            )
        },
    )
    server.extensions[EXTENSION] = {}
    server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="fixture"))
    tasks.serve_on(server)
    return server


async def main(port: int) -> None:
    app = build().streamable_http_app(event_store=Events(), retry_interval=300)
    serving = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    async with anyio.create_task_group() as group:
        group.start_soon(serving.serve)
        while not serving.started:
            await anyio.sleep(0.01)
        print("ready", flush=True)


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]))
