<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use Closure;
use Throwable;

/**
 * Renews a claim's lease by the process's alarm while a job runs, and ends the job with the worker when the policy's
 * `timeout` is over: from then on another attempt may be under way.
 *
 * The alarm is the queue worker's own: by it Laravel kills a job at its timeout. So it is lent: that timeout is up when it
 * would have been, or when the policy's is, and what is left of it is given back. Where it comes before the lease's end
 * and the policy's, there is nothing to do, and no alarm is touched.
 *
 * PHP looks at signals between two steps of its own: a job that sits in one call (`curl_exec`, a query) is not renewed
 * until that returns. A lease must be longer than the longest such call. Without pcntl, or where nobody switched signals
 * on (php-fpm, a job that is run within a request), nothing happens here; then a lease must be longer than the job.
 */
final class Renewal
{
    /** When the worker's own timeout is up, if it has one. */
    private ?float $workerAt = null;

    /** What the worker does then. */
    private mixed $timedOut = null;

    /** When the job ends, whoever says so. */
    private float $endAt;

    private function __construct(private readonly Claim $claim)
    {
        $this->endAt = self::now() + $claim->timeoutMs / 1000;
    }

    /**
     * Runs the work, renewing meanwhile.
     *
     * @template T
     *
     * @param Closure(): T $work
     *
     * @return T
     */
    public static function during(Claim $claim, Closure $work): mixed
    {
        $signals = function_exists('pcntl_alarm') && function_exists('pcntl_async_signals') && pcntl_async_signals();
        if (! $signals) {
            return $work();
        }
        $left = pcntl_alarm(0);
        if ($left > 0 && $left * 1000 <= min($claim->leaseMs, $claim->timeoutMs)) {
            pcntl_alarm($left);

            return $work();
        }
        $renewal = new self($claim);
        $renewal->borrow($left);
        try {
            return $work();
        } finally {
            $renewal->giveBack();
        }
    }

    private function borrow(int $left): void
    {
        if ($left > 0) {
            $this->workerAt = self::now() + $left;
            $this->endAt = min($this->endAt, $this->workerAt);
        }
        $this->timedOut = pcntl_signal_get_handler(SIGALRM);
        pcntl_signal(SIGALRM, fn () => $this->tick());
        $this->arm();
    }

    private function giveBack(): void
    {
        pcntl_alarm(0);
        pcntl_signal(SIGALRM, $this->timedOut);
        if ($this->workerAt !== null) {
            pcntl_alarm(max(1, (int) ceil($this->workerAt - self::now())));
        }
    }

    private function tick(): void
    {
        if (self::now() >= $this->endAt) {
            pcntl_signal(SIGALRM, $this->timedOut);
            if (is_callable($this->timedOut)) {
                ($this->timedOut)(SIGALRM);
            }

            return;
        }
        try {
            $this->claim->renew();
        } catch (Throwable) {
            // Thrown from here it would break the job at any of its steps. A lease that is lost makes no second run:
            // whoever comes next hears that the outcome is unknown, and what this run says of itself still counts.
        }
        $this->arm();
    }

    /** Alarms are whole seconds. Three to a lease: one may come late. */
    private function arm(): void
    {
        $next = max(1, intdiv($this->claim->leaseMs, 3000));
        pcntl_alarm(max(1, min($next, (int) ceil($this->endAt - self::now()))));
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
