<?php

declare(strict_types=1);

/*
 * A real app has Composer's vendor/autoload.php in place of this file. Here Debian's Laravel will do
 * (php-laravel-framework, php-guzzlehttp-guzzle), with this app's classes and the package's beside it.
 */
// Laravel 8 is older than this PHP, which tells so at every turn.
error_reporting(E_ALL & ~E_DEPRECATED & ~E_USER_DEPRECATED);
require_once 'Illuminate/autoload.php';
require_once 'GuzzleHttp/autoload.php';
spl_autoload_register(static function (string $class): void {
    foreach (['App\\' => __DIR__.'/../app', 'Oncegate\\Laravel\\' => __DIR__.'/../../src'] as $prefix => $folder) {
        $file = $folder.'/'.str_replace('\\', '/', substr($class, strlen($prefix))).'.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;
        }
    }
});
