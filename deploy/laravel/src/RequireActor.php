<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use Closure;
use Illuminate\Http\Request;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Exception\AccessDeniedHttpException;

/**
 * HTTP middleware: nobody passes whom the gate did not name. What comes behind it may ask the container for McpActor.
 */
final class RequireActor
{
    public function handle(Request $request, Closure $next): Response
    {
        if (McpActor::of($request) === null) {
            throw new AccessDeniedHttpException('This request did not come through Oncegate: it names no actor.');
        }

        return $next($request);
    }
}
