<?php

declare(strict_types=1);

namespace App\Providers;

use Illuminate\Foundation\Support\Providers\RouteServiceProvider as Provider;

final class RouteServiceProvider extends Provider
{
    public function boot(): void
    {
        $this->routes(fn () => require base_path('routes/api.php'));
    }
}
