// A server on the official TypeScript SDK that offers what the conformance suite looks for, in both protocol eras.
//
//     server.cjs PORT
//
// Promises: it listens on 127.0.0.1 only, and keeps no state between requests beyond what the protocol asks of it
// (legacy sessions and their events, tasks, subscriptions).
// Absent on purpose: keys, tokens and tenants. It is an app that knows nothing of the gate.
'use strict';

const { randomBytes, randomUUID } = require('node:crypto');
const http = require('node:http');
const { setTimeout: sleep } = require('node:timers/promises');
const sdk = require('@modelcontextprotocol/server');
const { NodeStreamableHTTPServerTransport, localhostHostValidation, localhostOriginValidation, toNodeHandler, toWebRequest } =
    require('@modelcontextprotocol/node');

const { Events } = require('./events.cjs');
const { tools, prompts, resources, templates, without, filled, wordsOf, answers } = require('./fixture.cjs');
const tasks = require('./tasks.cjs');

const NEEDED_BY = { 'elicitation/create': 'elicitation', 'sampling/createMessage': 'sampling', 'roots/list': 'roots' };
const CACHED = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list', 'resources/read', 'server/discover'];

const states = sdk.createRequestStateCodec({ key: randomBytes(32) });
const named = (entries, name, kind) => {
    const entry = entries.find((entry) => entry.name === name);
    if (!entry) throw new sdk.ProtocolError(tasks.INVALID_PARAMS, `there is no ${kind} ${name}`);
    return entry;
};

// What is still to be asked of the client, if anything, and the inputs that it sent.
async function nextRound(ctx, { rounds = [], state = false }) {
    const inputs = ctx.mcpReq.inputResponses ?? {};
    // The round that was asked last. Where the client carries no state, there is only one.
    let asked = Number(ctx.mcpReq.requestState() ?? 0);
    const answered = (round) => Object.entries(round).every(([name, ask]) => answers(ask, inputs[name]));
    if (asked < rounds.length && answered(rounds[asked])) asked += 1;
    if (asked === rounds.length) return { inputs };
    const can = tasks.capabilitiesOf(ctx);
    const asks = Object.entries(rounds[asked]).filter(([, ask]) => NEEDED_BY[ask.method] in can);
    const inputRequests = asks.length > 0 ? Object.fromEntries(asks) : rounds[asked];
    const requestState = state ? { requestState: await states.mint(String(asked)) } : {};
    return { inputs, ask: { resultType: 'input_required', inputRequests, ...requestState } };
}

async function callTool({ params }, ctx, notify) {
    const { does } = named(tools, params.name, 'tool');
    if (does.needs && !(does.needs in tasks.capabilitiesOf(ctx))) {
        const requiredCapabilities = { [does.needs]: {} };
        throw new sdk.ProtocolError(tasks.MISSING_CAPABILITY, 'the client lacks a capability', { requiredCapabilities });
    }
    const { ask, inputs } = await nextRound(ctx, does);
    if (ask) return ask;
    const words = { ...params.arguments, ...wordsOf(inputs) };
    const handle = does.task && tasks.begin(ctx, does, words);
    if (handle) return handle;

    for (const line of does.logs ?? []) {
        await ctx.mcpReq.log('info', line);
        await sleep(50);
    }
    const { progressToken } = ctx.mcpReq._meta ?? {};
    for (const progress of (progressToken !== undefined && does.progress) || []) {
        await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 100 } });
        await sleep(50);
    }
    if (does.hangs_up && ctx.http?.closeSSE) {
        ctx.http.closeSSE();
        await sleep(100);
    }
    if (does.asks) words.answer = JSON.stringify(await ctx.mcpReq.send(filled(does.asks, words)));
    if (does.changes === 'tools') notify?.toolsChanged();
    if (does.changes === 'prompts') notify?.promptsChanged();

    const content = does.answer ?? [{ type: 'text', text: `state-ok: ${JSON.stringify(words)}` }];
    return { content: filled(content, words), isError: does.isError ?? false };
}

async function getPrompt({ params }, ctx) {
    const prompt = named(prompts, params.name, 'prompt');
    const { ask, inputs } = await nextRound(ctx, prompt.does ?? {});
    return ask ?? { messages: filled(prompt.messages, { ...params.arguments, ...wordsOf(inputs) }) };
}

function readResource({ params: { uri } }) {
    const known = resources.find((resource) => resource.uri === uri);
    if (known) return { contents: [{ uri, mimeType: known.mimeType, ...known.content }] };
    for (const { uriTemplate, mimeType, record } of templates) {
        const [before, after] = uriTemplate.split('{id}');
        const id = uri.slice(before.length, uri.length - after.length);
        if (id && uri === before + id + after) return { contents: [{ uri, mimeType, text: filled(record, { id }) }] };
    }
    throw new sdk.ProtocolError(tasks.INVALID_PARAMS, 'Resource not found', { uri });
}

function build(notify) {
    const changes = { listChanged: true };
    const whole = new sdk.McpServer(
        { name: 'oncegate-fixture', version: '1.0.0' },
        {
            capabilities: {
                tools: changes,
                prompts: changes,
                resources: { subscribe: true },
                completions: {},
                logging: {},
                extensions: { [tasks.EXTENSION]: {} },
            },
            cacheHints: Object.fromEntries(CACHED.map((method) => [method, { ttlMs: 1000, cacheScope: 'public' }])),
            requestState: { verify: states.verify },
        },
    );
    // Known to the SDK for what it checks by itself: arguments that headers mirror. All else is answered below.
    for (const { name, inputSchema } of tools) {
        whole.registerTool(name, { inputSchema: sdk.fromJsonSchema(inputSchema) }, () => ({ content: [] }));
    }
    const { server } = whole;
    const listed = (entries, ...secret) => entries.map((entry) => without(entry, ...secret));
    server.setRequestHandler('tools/list', () => ({ tools: listed(tools, 'does') }));
    server.setRequestHandler('tools/call', (request, ctx) => callTool(request, ctx, notify()));
    server.setRequestHandler('prompts/list', () => ({ prompts: listed(prompts, 'does', 'messages') }));
    server.setRequestHandler('prompts/get', getPrompt);
    server.setRequestHandler('resources/list', () => ({ resources: listed(resources, 'content') }));
    server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: listed(templates, 'record') }));
    server.setRequestHandler('resources/read', readResource);
    server.setRequestHandler('resources/subscribe', () => ({}));
    server.setRequestHandler('resources/unsubscribe', () => ({}));
    server.setRequestHandler('completion/complete', ({ params }) => {
        const values = ['paris', 'park', 'party'].filter((word) => word.startsWith(params.argument.value));
        return { completion: { values, total: values.length, hasMore: false } };
    });
    tasks.serveOn(server);
    return whole;
}

const modern = sdk.createMcpHandler(() => build(() => modern.notify), { legacy: 'reject' });
const serveModern = toNodeHandler(modern);

const sessions = new Map();

// A legacy session has a server of its own, which lives as long as the session.
async function serveLegacy(request, response, body) {
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (!transport && body?.method === 'initialize') {
        transport = new NodeStreamableHTTPServerTransport({
            sessionIdGenerator: randomUUID,
            onsessioninitialized: (id) => void sessions.set(id, transport),
            onsessionclosed: (id) => void sessions.delete(id),
            eventStore: new Events(),
            retryInterval: 300,
        });
        await build(() => undefined).connect(transport);
    }
    if (transport) return transport.handleRequest(request, response, body);
    const status = request.headers['mcp-session-id'] ? 404 : 400;
    const error = { code: -32600, message: 'there is no such session' };
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id: body?.id ?? null, error }));
}

const guards = [localhostHostValidation(), localhostOriginValidation()];

http.createServer(async (request, response) => {
    if (!guards.every((guard) => guard(request, response))) return;
    if (new URL(request.url, 'http://localhost').pathname !== '/mcp') return response.writeHead(404).end();
    const text = Buffer.concat(await request.toArray()).toString();
    let body;
    try {
        body = text === '' ? undefined : JSON.parse(text);
    } catch {
        return response.writeHead(400).end();
    }
    const legacy = await sdk.isLegacyRequest(await toWebRequest(request, body), body);
    return legacy ? serveLegacy(request, response, body) : serveModern(request, response, body);
}).listen(Number(process.argv[2]), '127.0.0.1');
