<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use Closure;
use Throwable;

/**
 * Renews a claim's lease by the process's alarm while a job runs.
 *
 * The alarm is the queue worker's own: by it Laravel kills a job at its timeout. So it is lent: what was left of the
 * timeout is kept, is up when it would have been, and is given back. A job whose timeout comes before its lease is up
 * needs none of this, and no alarm is touched.
 *
 * PHP looks at signals between two steps of its own: a job that sits in one call (`curl_exec`, a query) is not renewed
 * until that returns. A lease must be longer than the longest such call. Without pcntl, or where nobody switched signals
 * on (php-fpm, a job that is run within a request), nothing happens here; then a lease must be longer than the job.
 */
final class Renewal
{
    private ?float $timeoutAt = null;

    private mixed $timedOut = null;

    private function __construct(private readonly Claim $claim)
    {
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
        if ($left > 0 && $left * 1000 <= $claim->leaseMs) {
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
        $this->timeoutAt = $left > 0 ? self::now() + $left : null;
        $this->timedOut = pcntl_signal_get_handler(SIGALRM);
        pcntl_signal(SIGALRM, fn () => $this->tick());
        $this->arm();
    }

    private function giveBack(): void
    {
        pcntl_alarm(0);
        pcntl_signal(SIGALRM, $this->timedOut);
        if ($this->timeoutAt !== null) {
            pcntl_alarm(max(1, (int) ceil($this->timeoutAt - self::now())));
        }
    }

    private function tick(): void
    {
        if ($this->timeoutAt !== null && self::now() >= $this->timeoutAt) {
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
        $left = $this->timeoutAt === null ? $next : (int) ceil($this->timeoutAt - self::now());
        pcntl_alarm(max(1, min($next, $left)));
    }

    private static function now(): float
    {
        return hrtime(true) / 1e9;
    }
}
