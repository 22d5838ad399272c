// The TypeScript SDK 2.x meets the gate: `node client2.cjs URL TOKEN TOKEN_WITHOUT_SCOPE KEY modern|legacy`.

const { Client, StreamableHTTPClientTransport } = require("@modelcontextprotocol/client");
const { main } = require("./telling.cjs");

main(async (url, options, mode) => {
  const negotiation = mode === "modern" ? { pin: "2026-07-28" } : "legacy";
  const client = new Client({ name: "typescript2", version: "1.0.0" }, { versionNegotiation: { mode: negotiation } });
  await client.connect(new StreamableHTTPClientTransport(url, options));
  return client;
});
