// Tasks (io.modelcontextprotocol/tasks, 2026-07-28) on an SDK that does not bring them.
//
// Promises: a task exists before its handle goes out; it is working, waits for input, or has come to one of three ends,
// and an end is final; only a client that declared the extension gets a handle or hears of a task.
// Absent on purpose: owners. Whom a task belongs to is what the gate adds.
'use strict';

const { randomUUID } = require('node:crypto');
const { ProtocolError } = require('@modelcontextprotocol/server');
const { filled, wordsOf } = require('./fixture.cjs');

const EXTENSION = 'io.modelcontextprotocol/tasks';
const HEADER_MISMATCH = -32020;
const MISSING_CAPABILITY = -32021;
const INVALID_PARAMS = -32602;

// The SDK wants a schema for methods that it does not know. Whatever comes is looked at here.
const ANYTHING = { '~standard': { version: 1, vendor: 'fixture', validate: (value) => ({ value }) } };

const known = new Map();

const capabilitiesOf = (ctx) => ctx.mcpReq.envelope?.['io.modelcontextprotocol/clientCapabilities'] ?? {};
const declared = (ctx) => EXTENSION in (capabilitiesOf(ctx).extensions ?? {});

function undeclared() {
    const requiredCapabilities = { extensions: { [EXTENSION]: {} } };
    return new ProtocolError(MISSING_CAPABILITY, 'the client has not declared the tasks extension', {
        requiredCapabilities,
    });
}

class Task {
    constructor(does, words) {
        this.taskId = randomUUID();
        this.wants = does.wants ?? {};
        this.given = {};
        this.status = 'working';
        this.createdAt = this.lastUpdatedAt = new Date().toISOString();
        const seconds = Number(words.seconds ?? does.seconds ?? 0);
        this.timer = setTimeout(() => this.goOn(does, words), seconds * 1000);
        known.set(this.taskId, this);
    }

    goOn(does, words) {
        if (Object.keys(this.wants).some((name) => !(name in this.given))) {
            this.become('input_required');
            this.resume = () => this.goOn(does, words);
        } else if (does.error) {
            this.become('failed', { error: does.error });
        } else {
            const content = filled(does.answer, { ...words, ...wordsOf(this.given) });
            this.become('completed', { result: { content, isError: does.isError ?? false } });
        }
    }

    become(status, end = {}) {
        if (!['working', 'input_required'].includes(this.status)) return;
        Object.assign(this, { status, end, lastUpdatedAt: new Date().toISOString() });
    }

    take(inputs) {
        for (const [name, answer] of Object.entries(inputs)) if (name in this.wants) this.given[name] = answer;
        if (this.status === 'input_required' && Object.keys(this.wants).every((name) => name in this.given)) {
            this.become('working');
            this.resume();
        }
    }

    cancel() {
        clearTimeout(this.timer);
        this.become('cancelled');
    }

    told() {
        const { taskId, status, createdAt, lastUpdatedAt } = this;
        const told = { taskId, status, createdAt, lastUpdatedAt, ttlMs: 600_000, pollIntervalMs: 100, ...this.end };
        if (status !== 'input_required') return told;
        const open = Object.entries(this.wants).filter(([name]) => !(name in this.given));
        return { ...told, inputRequests: Object.fromEntries(open) };
    }
}

// A new task's handle; nothing where the tool can do without one and the client knows none.
function begin(ctx, does, words) {
    if (declared(ctx)) return { resultType: 'task', ...new Task(does, words).told() };
    if (does.task === 'must') throw undeclared();
    return undefined;
}

function find(ctx, taskId) {
    if (!declared(ctx)) throw undeclared();
    // The SDK checks this header for the methods that it knows; these are ours.
    if (ctx.http?.req?.headers.get('mcp-name') !== taskId) {
        throw new ProtocolError(HEADER_MISMATCH, "Mcp-Name is not the task's id");
    }
    const task = known.get(taskId);
    if (!task) throw new ProtocolError(INVALID_PARAMS, 'there is no such task', { taskId });
    return task;
}

function serveOn(server) {
    const serve = (method, act) =>
        server.setRequestHandler(method, { params: ANYTHING }, (params, ctx) => act(find(ctx, params.taskId), params, ctx) ?? {});
    serve('tasks/get', (task) => task.told());
    serve('tasks/update', (task, params, ctx) => task.take(ctx.mcpReq.inputResponses ?? params.inputResponses ?? {}));
    serve('tasks/cancel', (task) => task.cancel());
}

module.exports = { EXTENSION, MISSING_CAPABILITY, INVALID_PARAMS, begin, capabilitiesOf, serveOn };
