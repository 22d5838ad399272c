"""Tasks (io.modelcontextprotocol/tasks, 2026-07-28) on an SDK that does not bring them.

Promises: a task exists before its handle goes out; it is working, waits for input, or has come to one of three ends, and
an end is final; only a client that declared the extension gets a handle or hears of a task.
Absent on purpose: owners. Whom a task belongs to is what the gate adds.
"""

import asyncio
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, RequestParams
from pydantic import ConfigDict, Field

from fixture import filled, words_of

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


class TaskParams(RequestParams):
    model_config = ConfigDict(extra="allow")
    task_id: str = Field(alias="taskId")
    input_responses: dict[str, Any] | None = Field(default=None, alias="inputResponses")


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def declared(capabilities: dict[str, Any]) -> bool:
    return EXTENSION in (capabilities.get("extensions") or {})


def undeclared() -> MCPError:
    return MCPError(
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        "the client has not declared the tasks extension",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
    )


@dataclass
class Task:
    wants: dict[str, Any]
    status: str = "working"
    end: dict[str, Any] = field(default_factory=dict)
    given: dict[str, Any] = field(default_factory=dict)
    task_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    began: str = field(default_factory=now)
    updated: str = field(default_factory=now)
    complete: asyncio.Event = field(default_factory=asyncio.Event)
    run: asyncio.Task[None] | None = None

    def become(self, status: str, **end: Any) -> None:
        if self.status in ("working", "input_required"):
            self.status, self.end, self.updated = status, end, now()

    def take(self, inputs: dict[str, Any]) -> None:
        self.given |= {name: answer for name, answer in inputs.items() if name in self.wants}
        if self.status == "input_required" and self.given.keys() == self.wants.keys():
            self.become("working")
            self.complete.set()

    def told(self) -> dict[str, Any]:
        told = {
            "taskId": self.task_id,
            "status": self.status,
            "createdAt": self.began,
            "lastUpdatedAt": self.updated,
            "ttlMs": 600_000,
            "pollIntervalMs": 100,
        }
        if self.status == "input_required":
            told["inputRequests"] = {name: ask for name, ask in self.wants.items() if name not in self.given}
        return told | self.end


class Tasks:
    def __init__(self) -> None:
        self.known: dict[str, Task] = {}

    def begin(self, capabilities: dict[str, Any], does: dict[str, Any], words: dict[str, Any]) -> dict[str, Any] | None:
        """A new task's handle; nothing where the tool can do without one and the client knows none."""
        if not declared(capabilities):
            if does["task"] == "must":
                raise undeclared()
            return None
        task = Task(does.get("wants", {}))
        self.known[task.task_id] = task
        task.run = asyncio.create_task(self.carry_out(task, does, words))
        return {"resultType": "task", **task.told()}

    async def carry_out(self, task: Task, does: dict[str, Any], words: dict[str, Any]) -> None:
        await asyncio.sleep(float(words.get("seconds", does.get("seconds", 0))))
        if task.wants:
            task.become("input_required")
            await task.complete.wait()
        if "error" in does:
            task.become("failed", error=does["error"])
            return
        content = filled(does["answer"], words | words_of(task.given))
        task.become("completed", result={"content": content, "isError": does.get("isError", False)})

    def of(self, ctx: Any, params: TaskParams) -> Task:
        if not declared(((ctx.params or {}).get("_meta") or {}).get(CAPABILITIES) or {}):
            raise undeclared()
        # The SDK checks this header for the methods that it knows; these are ours.
        if ctx.request is not None and ctx.request.headers.get("mcp-name") != params.task_id:
            raise MCPError(HEADER_MISMATCH, "Mcp-Name is not the task's id")
        task = self.known.get(params.task_id)
        if task is None:
            raise MCPError(INVALID_PARAMS, "there is no such task", {"taskId": params.task_id})
        return task

    async def get(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        return self.of(ctx, params).told()

    async def update(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        self.of(ctx, params).take(params.input_responses or {})
        return {}

    async def cancel(self, ctx: Any, params: TaskParams) -> dict[str, Any]:
        task = self.of(ctx, params)
        task.become("cancelled")
        if task.run is not None:
            task.run.cancel()
        return {}

    def serve_on(self, server: Any) -> None:
        server.add_request_handler("tasks/get", TaskParams, self.get)
        server.add_request_handler("tasks/update", TaskParams, self.update)
        server.add_request_handler("tasks/cancel", TaskParams, self.cancel)
