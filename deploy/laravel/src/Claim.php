<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

/**
 * The right to run one job now. A job that asks for it in `handle(Claim $claim)` finds the key for its provider here, and
 * can say that it is still alive.
 */
final class Claim
{
    /**
     * @param string $attemptId  the only proof that this attempt is the one
     * @param string $forwardKey the Idempotency-Key for whomever the job calls; the same in every attempt
     * @param int    $leaseMs    after how long without a renewal the worker counts as dead
     * @param int    $timeoutMs  how long the job may take, whole; after that another attempt may be under way
     */
    public function __construct(
        private readonly JobsGate $gate,
        public readonly Intent $intent,
        public readonly string $attemptId,
        public readonly string $forwardKey,
        public readonly int $leaseMs,
        public readonly int $timeoutMs,
    ) {
    }

    /**
     * Begins the lease anew: for jobs of many steps, between two of them.
     *
     * @throws GateRefusal where another attempt may have taken over: stop, and do nothing more
     */
    public function renew(): void
    {
        $this->gate->renew($this);
    }
}
