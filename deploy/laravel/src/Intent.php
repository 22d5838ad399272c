<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

/**
 * What a job means to do, in the gate's words: for which tenant, which job of the policy, under which key, with which
 * arguments. All four come out the same however often the job is dispatched again: nothing random, no clock.
 */
final class Intent
{
    /**
     * @param string               $job       its name in the policy: `[jobs.NAME]`
     * @param string               $key       usually the Idempotency-Key of the request that queued it
     * @param array<string, mixed> $arguments what the same key must never mean anything else than
     */
    public function __construct(
        public readonly string $tenant,
        public readonly string $job,
        public readonly string $key,
        public readonly array $arguments = [],
    ) {
    }
}
