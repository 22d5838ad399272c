<?php

declare(strict_types=1);

namespace Oncegate\Laravel\Tests;

use Closure;
use Illuminate\Container\Container;
use Illuminate\Contracts\Queue\Job;
use Illuminate\Pipeline\Pipeline;
use Illuminate\Queue\InteractsWithQueue;
use Oncegate\Laravel\Intent;
use Oncegate\Laravel\OnceOnly;
use Oncegate\Laravel\RunsOnce;

/** A job that does what a test says, and notes how often. */
final class SettleRefund implements RunsOnce
{
    use InteractsWithQueue;

    public int $runs = 0;

    public mixed $told = 'nothing';

    public function __construct(private readonly Closure $work, ?Job $queued = null)
    {
        $this->job = $queued;
    }

    public function intent(): Intent
    {
        return new Intent('acme', 'settle_refund', 'k1', ['order' => 'ord_1']);
    }

    public function replayed(mixed $result): void
    {
        $this->told = $result;
    }

    public function handle(Container $container): mixed
    {
        $this->runs++;

        return ($this->work)($container, $this);
    }

    /** Runs it behind its middleware, as a worker does (Illuminate\Queue\CallQueuedHandler). */
    public function run(Container $container): mixed
    {
        return (new Pipeline($container))
            ->send($this)
            ->through([OnceOnly::class])
            ->then(static fn (self $job) => $container->call([$job, 'handle']));
    }
}
