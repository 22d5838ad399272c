<?php

declare(strict_types=1);

namespace App\Http;

use Illuminate\Http\Middleware\TrustProxies as Middleware;
use Illuminate\Http\Request;

/**
 * The gate is the only one who calls, from the same pod. It says host, scheme and the chain of addresses; a port it
 * does not say, so what a client writes there must not be believed.
 */
final class TrustProxies extends Middleware
{
    protected $proxies = '127.0.0.1';

    protected $headers = Request::HEADER_X_FORWARDED_FOR
        | Request::HEADER_X_FORWARDED_HOST
        | Request::HEADER_X_FORWARDED_PROTO;
}
