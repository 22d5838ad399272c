<?php

declare(strict_types=1);

/*
 * Composer's autoloader where there is one; else Debian's libraries (php-laravel-framework, php-guzzlehttp-guzzle), and
 * this package's own two folders.
 */
$composer = __DIR__.'/../vendor/autoload.php';
if (is_file($composer)) {
    require $composer;

    return;
}
require_once 'Illuminate/autoload.php';
require_once 'GuzzleHttp/autoload.php';
spl_autoload_register(static function (string $class): void {
    foreach (['Oncegate\\Laravel\\Tests\\' => __DIR__, 'Oncegate\\Laravel\\' => __DIR__.'/../src'] as $prefix => $folder) {
        $file = $folder.'/'.str_replace('\\', '/', substr($class, strlen($prefix))).'.php';
        if (str_starts_with($class, $prefix) && is_file($file)) {
            require $file;

            return;
        }
    }
});
// Laravel 8 is older than this PHP, which tells so at every turn. What this package does wrong is to be seen.
set_error_handler(static function (int $level, string $message, string $file, int $line): bool {
    $silenced = (error_reporting() & $level) === 0;
    if ($silenced || (str_starts_with($file, '/usr/share/php/') && ($level & (E_DEPRECATED | E_USER_DEPRECATED)) !== 0)) {
        return true;
    }
    throw new ErrorException($message, 0, $level, $file, $line);
});
