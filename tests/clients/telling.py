"""What both Python clients do on orders, and how they tell of it: one JSON object a line, as tests/it/clients reads them.

An order has a `step`, by which everything is told that comes of it:

    connect  {"as": NAME, "url": URL, "token": TOKEN}    a session on a connection of its own
    list     {"as": NAME}                                the tools that it is shown
    call     {"as": NAME, "tool": …, "arguments": …, "meta": …, "answers": …}
    cancel   {"of": STEP}                                gives that call up, as this SDK lets its caller do it
    close    {"as": NAME}                                leaves the session

Progress and questions are told as they come (`progress`, `asked`), the end of every step as its `outcome`: `result`,
with what the SDK handed to its caller; `raised`, with what it threw, and `ended` where the whole session went with it;
`cancelled`; or one word for what is done (`connected`, `listed`, `closed`).
"""

import json
import sys

import anyio


def tell(step, **what):
    print(json.dumps({"step": step, **what}), flush=True)


class Connection:
    """One session and what runs in it."""

    def __init__(self, sdk, order):
        self.sdk, self.order = sdk, order
        self.running = {}
        self.asking = {}
        self.ended = False
        self.incoming, self.orders = anyio.create_memory_object_stream(16)

    async def run(self):
        step = self.order["step"]
        try:
            async with self.sdk.connected(self.order["url"], self.order["token"], self.answer) as session:
                tell(step, outcome="connected", version=self.sdk.version(session))
                step = None
                async with anyio.create_task_group() as calls:
                    async for order in self.orders:
                        if order["do"] == "close":
                            step = order["step"]
                            calls.cancel_scope.cancel()
                        else:
                            calls.start_soon(self.call if order["do"] == "call" else self.list, session, order)
        # A fault of the transport ends the whole session, from the inside out: it is caught where the session began.
        except Exception as fault:
            for lost in [step] if step else list(self.running):
                tell(lost, ended=True, **raised(fault))
            step = None
        self.ended = True
        if step:
            tell(step, outcome="closed")

    async def call(self, session, order):
        step = order["step"]

        async def progress(done, total, _message):
            tell(step, progress=done, total=total)

        with anyio.CancelScope() as scope:
            self.running[step], self.asking = scope, order
            try:
                outcome = returned(await self.sdk.call(session, order, progress))
            except Exception as fault:
                outcome = raised(fault)
        if scope.cancelled_caught:
            outcome = {"outcome": "cancelled"}
        del self.running[step]
        tell(step, **outcome)

    async def list(self, session, order):
        try:
            listing = await self.sdk.list(session)
            tools = listing.model_dump(by_alias=True, mode="json")["tools"]
            outcome = {"outcome": "listed", "tools": {tool["name"]: tool["inputSchema"] for tool in tools}}
        except Exception as fault:
            outcome = raised(fault)
        tell(order["step"], **outcome)

    def answer(self, params):
        """What the user says to the question, or None where he declines."""
        tell(self.asking["step"], asked=params.message)
        schema = params.model_dump(by_alias=True, mode="json")["requestedSchema"]
        answers = self.asking.get("answers")
        return {name: answers[name] for name in schema["properties"]} if answers else None


async def follow(sdk):
    """Carries the orders out until there are no more."""
    connections = {}
    async with anyio.create_task_group() as tasks:
        async for line in anyio.wrap_file(sys.stdin):
            order = json.loads(line)
            if order["do"] == "connect":
                connection = connections[order["as"]] = Connection(sdk, order)
                tasks.start_soon(connection.run)
            elif order["do"] == "cancel":
                for connection in connections.values():
                    if order["of"] in connection.running:
                        connection.running[order["of"]].cancel()
            elif connections[order["as"]].ended:
                tell(order["step"], outcome="no session")
            else:
                await connections[order["as"]].incoming.send(order)
        tasks.cancel_scope.cancel()


def returned(result):
    whole = result.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {
        "outcome": "result",
        "is_error": whole.get("isError", False),
        "text": "\n".join(block.get("text", "") for block in whole["content"]),
        "structured": whole.get("structuredContent"),
        "meta": whole.get("_meta", {}),
    }


def raised(fault):
    """What an exception says; of a group of them, the first that is none."""
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    error = getattr(fault, "error", None)
    return {
        "outcome": "raised",
        "type": type(fault).__name__,
        "message": str(fault),
        "code": getattr(error, "code", None),
        "http": getattr(getattr(fault, "response", None), "status_code", None),
    }
