<?php

declare(strict_types=1);

require_once __DIR__.'/autoload.php';

$app = new Illuminate\Foundation\Application(dirname(__DIR__));
// Nothing is written beside the code: a container's file system may be read-only.
$app->useStoragePath((string) (getenv('APP_STORAGE') ?: sys_get_temp_dir()));
$app->singleton(Illuminate\Contracts\Http\Kernel::class, App\Http\Kernel::class);
$app->singleton(Illuminate\Contracts\Console\Kernel::class, Illuminate\Foundation\Console\Kernel::class);
$app->singleton(Illuminate\Contracts\Debug\ExceptionHandler::class, Illuminate\Foundation\Exceptions\Handler::class);

return $app;
