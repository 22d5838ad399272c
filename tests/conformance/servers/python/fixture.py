"""What the fixture offers, read from ../../fixture, and the words that its answers hold.

Promises: the servers know behaviours (`does`), and no tool, prompt or resource by its name.
Absent on purpose: the protocol. That is the SDK's, or this would test the fixture against itself.
"""

import json
import re
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "fixture"

# A tool that says nothing about its arguments takes none.
NOTHING = {"type": "object", "additionalProperties": False}


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text())


def without(entry: dict[str, Any], *private: str) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if name not in private}


TOOLS = {
    tool["name"]: {"inputSchema": NOTHING, **tool} for part in ("tools", "rounds", "tasks") for tool in read(part)
}
PROMPTS = {prompt["name"]: prompt for prompt in read("prompts")}
RESOURCES = {resource["uri"]: resource for resource in read("resources")["resources"]}
TEMPLATES = read("resources")["templates"]


def filled(value: Any, words: dict[str, Any]) -> Any:
    """The value with `{name}` replaced by words[name], in every string that it holds."""
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda found: str(words.get(found[1], found[0])), value)
    if isinstance(value, list):
        return [filled(item, words) for item in value]
    if isinstance(value, dict):
        return {name: filled(item, words) for name, item in value.items()}
    return value


def words_of(inputs: dict[str, Any]) -> dict[str, Any]:
    """Inputs under their own names, each as the plainest word in it: what the user or the model said."""
    words: dict[str, Any] = {}
    for name, answer in inputs.items():
        content = answer.get("content") if isinstance(answer, dict) else None
        if isinstance(content, dict) and content:
            words[name] = content.get("text", next(iter(content.values())))
        else:
            words[name] = json.dumps(answer)
    return words


def answers(request: dict[str, Any], answer: Any) -> bool:
    """Whether the answer is one to this request: of its kind, and with what the request calls required."""
    if not isinstance(answer, dict):
        return False
    if request["method"] == "roots/list":
        return isinstance(answer.get("roots"), list)
    if request["method"] == "sampling/createMessage":
        return "content" in answer
    if answer.get("action") != "accept":
        return answer.get("action") in ("decline", "cancel")
    given = answer.get("content")
    asked = request["params"]["requestedSchema"]
    kinds = {"string": str, "boolean": bool}
    return isinstance(given, dict) and all(
        isinstance(given.get(name), kinds[asked["properties"][name]["type"]]) for name in asked.get("required", [])
    )
