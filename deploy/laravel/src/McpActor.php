<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use Illuminate\Http\Request;

/**
 * Who asks: tenant, user, session and scopes, as the gate read them from a verified token.
 *
 * It is as true as the way is closed on which the headers come: the gate drops whatever a client sends under these names,
 * so the app must be reachable through the gate only (listen on 127.0.0.1).
 */
final class McpActor
{
    /** @param list<string> $scopes */
    public function __construct(
        public readonly string $tenant,
        public readonly string $user,
        public readonly ?string $session,
        public readonly array $scopes,
    ) {
    }

    /** The actor of a request, or null where it did not come through the gate. */
    public static function of(Request $request): ?self
    {
        $tenant = (string) $request->headers->get('X-Oncegate-Tenant');
        $user = (string) $request->headers->get('X-Oncegate-User');
        if ($tenant === '' || $user === '') {
            return null;
        }
        $session = (string) $request->headers->get('X-Oncegate-Session');
        $scopes = preg_split('/ +/', (string) $request->headers->get('X-Oncegate-Scopes'), -1, PREG_SPLIT_NO_EMPTY);

        return new self($tenant, $user, $session === '' ? null : $session, $scopes ?: []);
    }

    /** Whether the actor holds a scope. The gate's policy has asked for its own already. */
    public function can(string $scope): bool
    {
        return in_array($scope, $this->scopes, true);
    }
}
