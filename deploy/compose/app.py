"""A sample app: an MCP server that refunds orders, and counts. It listens where only the gate can dial."""

import http.server
import json

REFUNDS = []
ORDER = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}
TOOLS = [
    {"name": "refund_order", "description": "Refunds an order.", "inputSchema": ORDER},
    {"name": "get_refunds", "description": "Lists what was refunded.", "inputSchema": {"type": "object"}},
]


def result(method, params):
    if method == "initialize":
        version = params.get("protocolVersion", "2025-11-25")
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "app", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        if params["name"] == "refund_order":
            REFUNDS.append(params["arguments"]["order_id"])
        told = {"refunds": list(REFUNDS)}
        return {"content": [{"type": "text", "text": json.dumps(told)}], "structuredContent": told}
    return {}


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in asked:
            return self.answer(202, b"")
        told = {"jsonrpc": "2.0", "id": asked["id"], "result": result(asked["method"], asked.get("params", {}))}
        return self.answer(200, json.dumps(told).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


http.server.ThreadingHTTPServer(("127.0.0.1", 8000), App).serve_forever()
