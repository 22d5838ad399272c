// The TypeScript SDK 1.x meets the gate: `node sdk1.cjs URL TOKEN TOKEN_WITHOUT_SCOPE KEY`.

const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { main } = require("./telling.cjs");

main(async (url, options) => {
  const client = new Client({ name: "typescript1", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(url, options));
  return client;
});
