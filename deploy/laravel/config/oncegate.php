<?php

/*
 * Where this app finds the gate beside it. Tokens stand in files, as Kubernetes mounts secrets; they are read when they
 * are first needed, so that `config:cache` keeps none. The variables are the app's: those that begin with ONCEGATE_ are the
 * gate's own, which does not start on one that it does not know.
 */
return [
    // The jobs' gate: `admin_listen` of the gate, and the service token that its `[service_tokens.NAME]` names.
    'jobs' => [
        'url' => env('GATE_JOBS_URL', 'http://127.0.0.1:9090'),
        'token_file' => env('GATE_JOBS_TOKEN_FILE', '/run/secrets/oncegate-jobs'),
        // Seconds for one answer of the gate. It waits for a store that is away for a moment; do not be quicker.
        'timeout' => (float) env('GATE_JOBS_TIMEOUT', 15),
        // Seconds until a job that the gate told to come again does so, where the gate named no time.
        'retry_after' => (int) env('GATE_JOBS_RETRY_AFTER', 5),
    ],

    // The way out: the listener of the gate that faces the provider.
    'egress' => [
        'url' => env('GATE_EGRESS_URL', 'http://127.0.0.1:8082'),
        // None where the listener has an identity of its own (`[listener.identity]`).
        'token_file' => env('GATE_EGRESS_TOKEN_FILE'),
        // Longer than the listener's `upstream.timeout`: whoever hangs up first does not hear what came of the call.
        'timeout' => (float) env('GATE_EGRESS_TIMEOUT', 65),
    ],
];
