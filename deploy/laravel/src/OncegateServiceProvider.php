<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use Illuminate\Contracts\Foundation\Application;
use Illuminate\Http\Client\Factory;
use Illuminate\Support\ServiceProvider;
use LogicException;
use Psr\Log\LoggerInterface;
use RuntimeException;

/**
 * Puts the gate's parts into the container. Nothing of a request is kept in any of them: they may live as long as a
 * worker does.
 */
final class OncegateServiceProvider extends ServiceProvider
{
    private const CONFIG = __DIR__.'/../config/oncegate.php';

    public function register(): void
    {
        $this->mergeConfigFrom(self::CONFIG, 'oncegate');
        // Read from the request of the moment each time: a kept one would be the next request's actor, too.
        $this->app->bind(McpActor::class, static function (Application $app): McpActor {
            return McpActor::of($app['request'])
                ?? throw new LogicException('There is no actor: put RequireActor before what asks for one.');
        });
        $this->app->singleton(JobsGate::class, static function (Application $app): JobsGate {
            $jobs = $app['config']['oncegate.jobs'];

            return new JobsGate($app[Factory::class], $jobs['url'], self::token($jobs['token_file']), $jobs['timeout']);
        });
        $this->app->singleton(Egress::class, static function (Application $app): Egress {
            $egress = $app['config']['oncegate.egress'];
            $token = $egress['token_file'] === null ? null : self::token($egress['token_file']);

            return new Egress($app[Factory::class], $egress['url'], $token, $egress['timeout']);
        });
        $this->app->bind(OnceOnly::class, static function (Application $app): OnceOnly {
            $after = $app['config']['oncegate.jobs.retry_after'];

            return new OnceOnly($app[JobsGate::class], $app, $app[LoggerInterface::class], $after);
        });
    }

    public function boot(): void
    {
        if ($this->app->runningInConsole()) {
            $this->publishes([self::CONFIG => $this->app->configPath('oncegate.php')], 'oncegate');
        }
    }

    private static function token(string $file): string
    {
        $token = is_readable($file) ? trim((string) file_get_contents($file)) : '';
        if ($token === '') {
            throw new RuntimeException("The gate's service token is not to be read from $file (config/oncegate.php).");
        }

        return $token;
    }
}
