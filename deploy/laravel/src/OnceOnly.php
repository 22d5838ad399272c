<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use Closure;
use Illuminate\Contracts\Container\Container;
use Illuminate\Contracts\Queue\Job as Queued;
use Illuminate\Queue\Jobs\SyncJob;
use Psr\Log\LoggerInterface;
use Throwable;

/**
 * Job middleware: the job runs if the gate gives it its claim, and at most once for its key.
 *
 * - fresh: it runs; what `handle` returns is kept (it must be JSON), and every later dispatch with the key ends here.
 * - replay: it does not run. A job with a method `replayed(mixed $result)` is told what it returned then.
 * - in flight, the store away, or anything else that may pass: back to the queue, for as long as the gate says.
 * - another intent under the key, an unknown outcome that nobody may retry: it fails for good (GateRefusal).
 * - a token that is not accepted, or not for this job: GateRefusal is thrown, and the queue has its own way with that.
 *
 * Absent on purpose: a way to run without the gate. A job that cannot be claimed does not run.
 */
final class OnceOnly
{
    public function __construct(
        private readonly JobsGate $gate,
        private readonly Container $container,
        private readonly LoggerInterface $log,
        private readonly int $retryAfter = 5,
    ) {
    }

    public function handle(RunsOnce $job, Closure $next): mixed
    {
        try {
            $claim = $this->gate->claim($job->intent());
        } catch (GateRefusal $refusal) {
            $this->refused($job, $refusal);

            return null;
        }
        if ($claim instanceof Kept) {
            if (method_exists($job, 'replayed')) {
                $job->replayed($claim->result);
            }

            return $claim->result;
        }

        return $this->run($job, $next, $claim);
    }

    private function run(RunsOnce $job, Closure $next, Claim $claim): mixed
    {
        try {
            $result = $this->lend($claim, fn () => Renewal::during($claim, fn () => $next($job)));
        } catch (Throwable $fault) {
            $this->tell($claim, ! $fault instanceof NotExecuted, $fault::class);
            throw $fault;
        }
        $queued = self::queued($job);
        if ($queued !== null && ($queued->isReleased() || $queued->hasFailed())) {
            // It gave itself up, and returned as if it were done. What it had done by then nobody knows.
            $this->tell($claim, true, 'released');

            return $result;
        }
        // Not caught: where the gate does not hear it, the job comes again, and the gate says what is known of it.
        $this->gate->complete($claim, $result);

        return $result;
    }

    private function refused(RunsOnce $job, GateRefusal $refusal): void
    {
        $queued = self::queued($job);
        if ($queued === null || $queued instanceof SyncJob) {
            // No queue to go back to: its caller waits for it.
            throw $refusal;
        }
        if ($refusal->isAboutToken()) {
            // Nothing ran. It is reported, and tried again by the queue's own rules, until somebody has set it right.
            throw $refusal;
        }
        if ($refusal->isRetryable()) {
            $this->log->info('A job waits for the gate.', ['job' => $job::class, 'code' => $refusal->word]);
            $queued->release($refusal->delay($this->retryAfter));
        } else {
            $queued->fail($refusal);
        }
    }

    /** What became of an attempt that has no result. It must not hide the job's own exception. */
    private function tell(Claim $claim, bool $mayHaveRun, string $reason): void
    {
        try {
            $this->gate->fail($claim, $mayHaveRun, $reason);
        } catch (GateRefusal $refusal) {
            // Its lease says the worse of the two in time: unknown.
            $this->log->warning('The gate was not told that a job failed.', ['code' => $refusal->word]);
        }
    }

    /** The claim is in the container while the job runs, for `handle(Claim $claim)`. Jobs may run others inside. */
    private function lend(Claim $claim, Closure $work): mixed
    {
        $outer = $this->container->bound(Claim::class) ? $this->container->make(Claim::class) : null;
        $this->container->instance(Claim::class, $claim);
        try {
            return $work();
        } finally {
            $this->container->forgetInstance(Claim::class);
            if ($outer !== null) {
                $this->container->instance(Claim::class, $outer);
            }
        }
    }

    /** The job as the queue has it, by InteractsWithQueue. */
    private static function queued(RunsOnce $job): ?Queued
    {
        $queued = $job->job ?? null;

        return $queued instanceof Queued ? $queued : null;
    }
}
