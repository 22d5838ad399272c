<?php

declare(strict_types=1);

namespace App\Http;

use Illuminate\Foundation\Http\Kernel as HttpKernel;

/** What every request passes. (Laravel 11 and later say this in bootstrap/app.php.) */
final class Kernel extends HttpKernel
{
    protected $middleware = [TrustProxies::class];
}
