// The TypeScript SDK 2.x meets the gate, `node client2.cjs modern|legacy`; telling.cjs says what it does on which order.

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { follow } = require("./telling.cjs");

const mode = process.argv[2] === "modern" ? { pin: "2026-07-28" } : "legacy";

follow({
  async connect(url, options, answer) {
    const capabilities = { elicitation: { form: {} } };
    const told = { name: "typescript2", version: "1.0.0" };
    const client = new Client(told, { capabilities, versionNegotiation: { mode } });
    client.setRequestHandler("elicitation/create", answer);
    await client.connect(new StreamableHTTPClientTransport(url, options));
    return client;
  },
  call: (client, params, options) => client.callTool(params, options),
  version: (client) => client.getNegotiatedProtocolVersion(),
});
