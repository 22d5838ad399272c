// Two users of the TypeScript SDK 1.x and one task: `node tasks1.cjs URL TOKEN TOKEN_OF_ANOTHER KEY`.
// Each step is told as a line of JSON.

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { CallToolResultSchema, ElicitRequestSchema } = require("@modelcontextprotocol/sdk/types.js");

const [url, token, bobsToken, key] = process.argv.slice(2);
const tell = (step, told) => console.log(JSON.stringify({ step, ...told }));

async function connected(token) {
  const client = new Client(
    { name: "typescript1", version: "1.0.0" },
    { capabilities: { elicitation: { form: {} }, tasks: {} } },
  );
  const asked = [];
  client.setRequestHandler(ElicitRequestSchema, async (request) => {
    asked.push(request.params);
    return { action: "accept", content: { sure: true } };
  });
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  return { client, asked };
}

const failed = (fault) => ({ code: fault.code, message: fault.message });

async function called({ client }, step) {
  const given = { name: "refund_order", arguments: { order_id: "o1", idempotency_key: key } };
  const seen = [];
  let id;
  for await (const met of client.experimental.tasks.callToolStream(given, CallToolResultSchema, { task: { ttl: 60000 } })) {
    seen.push(met.type);
    if (met.type === "taskCreated") id = met.task.taskId;
    if (met.type === "result") tell(step, { seen, id, result: met.result });
    if (met.type === "error") tell(step, { seen, id, ...failed(met.error) });
  }
  return id;
}

async function main() {
  const ann = await connected(token);
  const bob = await connected(bobsToken);
  await ann.client.listTools();
  const id = await called(ann, "call");
  tell("asked", { asked: ann.asked });
  await called(ann, "again");
  for (const [who, { client }] of Object.entries({ ann, bob })) {
    const { tasks } = client.experimental;
    await tasks.getTask(id).then((task) => tell(`${who} get`, { task }), (fault) => tell(`${who} get`, failed(fault)));
    await tasks.getTaskResult(id, CallToolResultSchema).then(
      (result) => tell(`${who} result`, { result }),
      (fault) => tell(`${who} result`, failed(fault)),
    );
    const listed = await tasks.listTasks();
    tell(`${who} list`, { ids: listed.tasks.map((task) => task.taskId) });
    await tasks.cancelTask(id).then((task) => tell(`${who} cancel`, { task }), (fault) => tell(`${who} cancel`, failed(fault)));
  }
  await ann.client.close();
  await bob.client.close();
}

main().then(() => process.exit(0), (fault) => {
  console.error(fault);
  process.exit(1);
});
