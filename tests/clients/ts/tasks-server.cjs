// A server on the TypeScript SDK 1.x whose one tool makes a task that asks for input: `node tasks-server.cjs`.
// It prints its URL, then one line for each refund.

const http = require("node:http");
const { randomUUID } = require("node:crypto");
const { z } = require("zod");
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { InMemoryTaskStore, InMemoryTaskMessageQueue } = require("@modelcontextprotocol/sdk/experimental/tasks");
const { ElicitResultSchema } = require("@modelcontextprotocol/sdk/types.js");

const store = new InMemoryTaskStore();
const queue = new InMemoryTaskMessageQueue();
const sessions = new Map();

async function refund({ order_id }, taskId, extra) {
  const ask = {
    method: "elicitation/create",
    params: {
      mode: "form",
      message: "Really?",
      requestedSchema: { type: "object", properties: { sure: { type: "boolean" } }, required: ["sure"] },
    },
  };
  await extra.taskStore.updateTaskStatus(taskId, "input_required");
  const answer = await extra.sendRequest(ask, ElicitResultSchema, { relatedTask: { taskId } });
  console.log(JSON.stringify({ refunded: order_id, answer: answer.content }));
  const structuredContent = { order_id, card: "4242", sure: answer.content.sure };
  const content = [{ type: "text", text: JSON.stringify(structuredContent) }];
  await extra.taskStore.storeTaskResult(taskId, "completed", { content, structuredContent });
}

function server() {
  const capabilities = { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } };
  const options = { capabilities, taskStore: store, taskMessageQueue: queue };
  const server = new McpServer({ name: "tasks", version: "1.0.0" }, options);
  server.experimental.tasks.registerToolTask(
    "refund_order",
    { description: "Refunds.", inputSchema: { order_id: z.string() }, execution: { taskSupport: "required" } },
    {
      async createTask(given, extra) {
        const task = await extra.taskStore.createTask({ ttl: 60000, pollInterval: 50 });
        refund(given, task.taskId, extra).catch((fault) => console.error(fault));
        return { task };
      },
      getTask: (_given, extra) => extra.taskStore.getTask(extra.taskId),
      getTaskResult: (_given, extra) => extra.taskStore.getTaskResult(extra.taskId),
    },
  );
  return server;
}

async function session() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await server().connect(transport);
  return transport;
}

const listener = http.createServer(async (request, response) => {
  const id = request.headers["mcp-session-id"];
  const known = sessions.get(id);
  if (id !== undefined && known === undefined) {
    const error = { code: -32001, message: "Session not found" };
    response.writeHead(404, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error }));
    return;
  }
  await (known ?? (await session())).handleRequest(request, response);
});
listener.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${listener.address().port}`));
