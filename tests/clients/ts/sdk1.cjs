// The TypeScript SDK 1.x meets the gate; telling.cjs says what it does on which order.

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { CallToolResultSchema, ElicitRequestSchema } = require("@modelcontextprotocol/sdk/types.js");
const { follow } = require("./telling.cjs");

follow({
  async connect(url, options, answer) {
    const client = new Client({ name: "typescript1", version: "1.0.0" }, { capabilities: { elicitation: {} } });
    client.setRequestHandler(ElicitRequestSchema, answer);
    await client.connect(new StreamableHTTPClientTransport(url, options));
    return client;
  },
  call: (client, params, options) => client.callTool(params, CallToolResultSchema, options),
  version: (client) => client.transport.protocolVersion,
});
