"""One line of JSON for every step, as tests/it/clients.rs reads it; both Python clients tell theirs with this.

A step has an outcome: `result`, with what the SDK handed to its caller, or `raised`, with what it threw. `usable` says
whether the same session could still list tools afterwards.
"""

import json
import sys


def arguments():
    """The gate's URL, a token with the scope, one without, and the key to use."""
    if len(sys.argv) != 5:
        sys.exit(f"usage: {sys.argv[0]} URL TOKEN TOKEN_WITHOUT_SCOPE KEY")
    return sys.argv[1:]


def tell(step, **what):
    print(json.dumps({"step": step, **what}), flush=True)


def listed(result):
    """The input schemas of a tools/list, by the tools' names."""
    tools = result.model_dump(by_alias=True, mode="json")["tools"]
    return {"outcome": "result", "tools": {tool["name"]: tool["inputSchema"] for tool in tools}}


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
