<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use Illuminate\Http\Client\Factory;
use Illuminate\Http\Client\PendingRequest;
use Illuminate\Http\Client\Response;

/**
 * The way out to a provider, through the gate's own listener for it: under the claim's key, in its tenant's name.
 *
 * Absent on purpose: retries. The gate sends a call once; when it may come again, the gate says so.
 */
final class Egress
{
    /** @param string|null $token none where the listener has an identity of its own */
    public function __construct(
        private readonly Factory $http,
        private readonly string $url,
        private readonly ?string $token,
        private readonly float $timeout,
    ) {
    }

    /** A request of a job that holds this claim. */
    public function for(Claim $claim): PendingRequest
    {
        return $this->as($claim->intent->tenant, $claim->forwardKey);
    }

    /** A request for a tenant under a key: in a controller, the Idempotency-Key that its own request came with. */
    public function as(string $tenant, string $key): PendingRequest
    {
        $token = $this->token === null ? [] : ['X-Oncegate-Token' => $this->token];

        return $this->http
            ->baseUrl($this->url)
            ->timeout((int) ceil($this->timeout))
            ->withHeaders($token + ['X-Oncegate-Tenant' => $tenant, 'Idempotency-Key' => $key]);
    }

    /**
     * The provider's answer, whatever it says. Where the gate refused the call instead, its refusal is thrown.
     *
     * A refusal with `executed` "no" speaks of this one call. Only a job that has changed nothing else may make it a
     * NotExecuted.
     */
    public static function heard(Response $response): Response
    {
        $refusal = GateRefusal::in($response);
        if ($refusal !== null) {
            throw $refusal;
        }

        return $response;
    }
}
