// What the fixture offers, read from ../../fixture, and the words that its answers hold.
//
// Promises: the servers know behaviours (`does`), and no tool, prompt or resource by its name.
// Absent on purpose: the protocol. That is the SDK's, or this would test the fixture against itself.
'use strict';

const { readFileSync } = require('node:fs');
const { join } = require('node:path');

const read = (name) => JSON.parse(readFileSync(join(__dirname, '../../fixture', `${name}.json`), 'utf8'));

// A tool that says nothing about its arguments takes none.
const NOTHING = { type: 'object', additionalProperties: false };

const tools = ['tools', 'rounds', 'tasks'].flatMap(read).map((tool) => ({ inputSchema: NOTHING, ...tool }));
const prompts = read('prompts');
const { resources, templates } = read('resources');

function without(entry, ...secret) {
    return Object.fromEntries(Object.entries(entry).filter(([name]) => !secret.includes(name)));
}

// The value with `{name}` replaced by words[name], in every string that it holds.
function filled(value, words) {
    if (typeof value === 'string') return value.replace(/\{(\w+)\}/g, (all, name) => String(words[name] ?? all));
    if (Array.isArray(value)) return value.map((item) => filled(item, words));
    if (value === null || typeof value !== 'object') return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, filled(item, words)]));
}

// Inputs under their own names, each as the plainest word in it: what the user or the model said.
function wordsOf(inputs) {
    const plainest = (answer) => {
        const content = answer?.content;
        const word = content && (content.text ?? Object.values(content)[0]);
        return word ?? JSON.stringify(answer);
    };
    return Object.fromEntries(Object.entries(inputs).map(([name, answer]) => [name, plainest(answer)]));
}

// Whether the answer is one to this request: of its kind, and with what the request calls required.
function answers(request, answer) {
    if (answer === null || typeof answer !== 'object') return false;
    if (request.method === 'roots/list') return Array.isArray(answer.roots);
    if (request.method === 'sampling/createMessage') return 'content' in answer;
    if (answer.action !== 'accept') return ['decline', 'cancel'].includes(answer.action);
    const { properties, required = [] } = request.params.requestedSchema;
    return required.every((name) => typeof answer.content?.[name] === properties[name].type);
}

module.exports = { tools, prompts, resources, templates, without, filled, wordsOf, answers };
