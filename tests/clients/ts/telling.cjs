// What both TypeScript clients do on orders, and how they tell of it: one JSON object a line, as tests/it/clients reads
// them. telling.py, for the Python clients, says what orders there are and what is told; both understand the same.

const readline = require("node:readline");

function tell(step, what) {
  console.log(JSON.stringify({ step, ...what }));
}

function returned(result) {
  return {
    outcome: "result",
    is_error: result.isError ?? false,
    text: result.content.map((block) => block.text ?? "").join("\n"),
    structured: result.structuredContent ?? null,
    meta: result._meta ?? {},
  };
}

function raised(fault) {
  return {
    outcome: "raised",
    type: fault.constructor.name,
    message: String(fault.message ?? fault),
    code: fault.code ?? null,
    http: fault.status ?? null,
    scope: fault.requiredScope ?? null,
  };
}

/** The input schemas of a tools/list, by the tools' names. */
function listed({ tools }) {
  return { outcome: "listed", tools: Object.fromEntries(tools.map((tool) => [tool.name, tool.inputSchema])) };
}

/**
 * Carries out the orders of one SDK. `connect` makes a client, connected to a URL with these options, whose user
 * answers questions by `answer`; `call` calls a tool with the SDK's own request options; `version` is what was agreed on.
 */
function follow({ connect, call, version }) {
  const clients = new Map();
  const running = new Map();
  let asking = {};

  function answer({ params }) {
    tell(asking.step, { asked: params.message });
    if (!asking.answers) return { action: "decline" };
    const names = Object.keys(params.requestedSchema.properties);
    return { action: "accept", content: Object.fromEntries(names.map((name) => [name, asking.answers[name]])) };
  }

  async function carriedOut(order) {
    if (order.do === "connect") {
      const options = { requestInit: { headers: { Authorization: `Bearer ${order.token}` } } };
      const client = await connect(new URL(order.url), options, answer);
      clients.set(order.as, client);
      return { outcome: "connected", version: version(client) };
    }
    const client = clients.get(order.as);
    if (order.do === "list") return listed(await client.listTools());
    if (order.do === "close") {
      await client.close();
      return { outcome: "closed" };
    }
    const aborting = new AbortController();
    running.set(order.step, aborting);
    asking = order;
    const onprogress = ({ progress, total }) => tell(order.step, { progress, total });
    const params = { name: order.tool, arguments: order.arguments, ...(order.meta && { _meta: order.meta }) };
    try {
      return returned(await call(client, params, { signal: aborting.signal, onprogress }));
    } catch (fault) {
      return aborting.signal.aborted ? { outcome: "cancelled" } : raised(fault);
    }
  }

  const orders = readline.createInterface({ input: process.stdin });
  orders.on("line", (line) => {
    const order = JSON.parse(line);
    if (order.do === "cancel") return running.get(order.of)?.abort("the user gave up");
    carriedOut(order).catch(raised).then((told) => tell(order.step, told));
  });
  // Nobody is left to tell anything to.
  orders.on("close", () => process.exit(0));
}

module.exports = { follow };
