"""The events of legacy sessions, kept so that a client can come back for those that it missed.

Promises: an event's id names its stream, and what is replayed is that stream's, in order, once.
Absent on purpose: forgetting. A run is over before it would matter.
"""

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp_types import JSONRPCMessage


class Events(EventStore):
    def __init__(self) -> None:
        self.kept: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if not last_event_id.isdecimal() or not 0 < int(last_event_id) <= len(self.kept):
            return None
        after = int(last_event_id)
        stream = self.kept[after - 1][0]
        for number, (of, message) in enumerate(self.kept[after:], start=after + 1):
            if of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
