// One line of JSON for every step, as tests/it/clients.rs reads it; both TypeScript clients tell theirs with this.
//
// A step has an outcome: `result`, with what the SDK handed to its caller, or `raised`, with what it threw. `usable`
// says whether the same session could still list tools afterwards.

const REFUND = { order_id: "ord_9f2", amount_cents: 1250 };

function tell(step, what) {
  console.log(JSON.stringify({ step, ...what }));
}

/** The input schemas of a tools/list, by the tools' names. */
function listed({ tools }) {
  return { outcome: "result", tools: Object.fromEntries(tools.map((tool) => [tool.name, tool.inputSchema])) };
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
    message: String(fault.message),
    code: fault.code ?? null,
    http: fault.status ?? null,
    scope: fault.requiredScope ?? null,
  };
}

async function call(client, step, name, args) {
  const outcome = await client.callTool({ name, arguments: args }).then(returned, raised);
  const usable = await client.listTools().then(({ tools }) => tools.length > 0, () => false);
  tell(step, { usable, ...outcome });
}

/** The version that the client and the other side agreed on, wherever this SDK keeps it. */
function version(client) {
  return client.getNegotiatedProtocolVersion?.() ?? client.transport.protocolVersion;
}

/** All steps. `connected` makes a client with a token, on a connection of its own. */
async function steps(connected, token, poorToken, key) {
  const refund = { ...REFUND, idempotency_key: key };

  let client = await connected(token);
  tell("list", { version: version(client), ...listed(await client.listTools()) });
  await call(client, "first", "refund_order", refund);
  await client.close();

  client = await connected(token);
  await client.listTools(); // from here on the SDK checks what comes against each tool's output schema
  await call(client, "replay", "refund_order", refund);
  await call(client, "other_amount", "refund_order", { ...refund, amount_cents: 9900 });
  await call(client, "no_key", "refund_order", REFUND);
  await call(client, "read", "get_invoice", { invoice_id: "inv_1001" });
  await client.close();

  client = await connected(poorToken);
  tell("poor_list", listed(await client.listTools()));
  await call(client, "no_scope", "refund_order", { ...refund, idempotency_key: `${key}-poor` });
  await client.close();
}

/** Runs the steps of one client, whose script was called with URL TOKEN TOKEN_WITHOUT_SCOPE KEY and maybe a mode. */
function main(connect) {
  const [url, token, poorToken, key, mode] = process.argv.slice(2);
  if (!key) {
    console.error(`usage: ${process.argv[1]} URL TOKEN TOKEN_WITHOUT_SCOPE KEY [MODE]`);
    process.exit(2);
  }
  const connected = (bearer) => {
    const options = { requestInit: { headers: { Authorization: `Bearer ${bearer}` } } };
    return connect(new URL(url), options, mode);
  };
  const failed = (fault) => {
    console.error(fault);
    process.exitCode = 1;
  };
  steps(connected, token, poorToken, key).catch(failed);
}

module.exports = { main };
