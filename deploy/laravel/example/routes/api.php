<?php

declare(strict_types=1);

use App\Http\Refunds;
use Illuminate\Support\Facades\Route;
use Oncegate\Laravel\RequireActor;

Route::middleware(RequireActor::class)->group(static function (): void {
    Route::post('/mcp', [Refunds::class, 'rpc']);
    Route::get('/api/whoami', [Refunds::class, 'whoami']);
    Route::post('/api/orders/{order}/refunds', [Refunds::class, 'store']);
});
