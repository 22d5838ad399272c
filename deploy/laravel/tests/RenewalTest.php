<?php

declare(strict_types=1);

namespace Oncegate\Laravel\Tests;

use Illuminate\Http\Client\Factory;
use Oncegate\Laravel\Claim;
use Oncegate\Laravel\Intent;
use Oncegate\Laravel\JobsGate;
use Oncegate\Laravel\Renewal;
use PHPUnit\Framework\TestCase;
use RuntimeException;

/**
 * Leases that are renewed by the worker's alarm, which must still do its own work.
 *
 * @requires extension pcntl
 */
final class RenewalTest extends TestCase
{
    private ScriptedGate $gate;

    protected function setUp(): void
    {
        $this->gate = new ScriptedGate();
        $this->gate->answers([200, 'application/json', '{}']);
        pcntl_async_signals(true);
    }

    protected function tearDown(): void
    {
        pcntl_alarm(0);
        pcntl_signal(SIGALRM, SIG_DFL);
        pcntl_async_signals(false);
    }

    private function claim(int $leaseMs, int $timeoutMs = 300_000): Claim
    {
        return new Claim($this->gate->client(), new Intent('acme', 'j', 'k'), 'a', 'f', $leaseMs, $timeoutMs);
    }

    /** Works in small steps until it has been renewed so often, or for ten seconds. */
    private function work(int $renewals): int
    {
        for ($steps = 0; $steps < 1000 && count($this->gate->steps()) < $renewals; $steps++) {
            usleep(10_000);
        }

        return count($this->gate->steps());
    }

    public function test_a_job_that_outlasts_its_lease_renews_it(): void
    {
        $renewals = Renewal::during($this->claim(3_000), fn () => $this->work(2));
        self::assertGreaterThanOrEqual(2, $renewals);
        self::assertSame(['/renew'], array_values(array_unique($this->gate->steps())));
        self::assertSame(0, pcntl_alarm(0), 'its alarm is gone with it');
    }

    /** How long the job ran until the worker heard of a timeout, in seconds. */
    private function endedAfter(int $workers, Claim $claim): float
    {
        $timedOut = null;
        pcntl_signal(SIGALRM, static function () use (&$timedOut): void {
            $timedOut = hrtime(true);
        });
        $begun = hrtime(true);
        pcntl_alarm($workers);
        Renewal::during($claim, static function () use (&$timedOut): void {
            for ($steps = 0; $steps < 1000 && $timedOut === null; $steps++) {
                usleep(10_000);
            }
        });
        self::assertNotNull($timedOut, 'the worker never heard of a timeout');

        return ($timedOut - $begun) / 1e9;
    }

    public function test_the_workers_timeout_is_up_when_it_would_have_been(): void
    {
        self::assertGreaterThanOrEqual(2.0, $this->endedAfter(2, $this->claim(1_000)));
        self::assertContains('/renew', $this->gate->steps());
    }

    public function test_a_job_ends_with_its_worker_when_the_time_of_the_policy_is_over(): void
    {
        $ran = $this->endedAfter(60, $this->claim(60_000, 2_000));
        self::assertGreaterThanOrEqual(2.0, $ran);
        self::assertLessThan(60.0, $ran);
        self::assertSame([], $this->gate->steps());
    }

    public function test_what_is_left_of_the_timeout_is_given_back_with_its_handler(): void
    {
        $timeout = static fn () => null;
        pcntl_signal(SIGALRM, $timeout);
        pcntl_alarm(60);
        try {
            Renewal::during($this->claim(1_000), static fn () => throw new RuntimeException());
        } catch (RuntimeException) {
            self::assertSame($timeout, pcntl_signal_get_handler(SIGALRM));
            self::assertContains(pcntl_alarm(0), range(45, 60), 'what was left of it');
        }
    }

    public function test_a_timeout_that_comes_before_the_lease_is_left_alone(): void
    {
        $timeout = static fn () => null;
        pcntl_signal(SIGALRM, $timeout);
        pcntl_alarm(60);
        $handler = Renewal::during($this->claim(60_000), static fn () => pcntl_signal_get_handler(SIGALRM));
        self::assertSame($timeout, $handler);
        self::assertContains(pcntl_alarm(0), range(45, 60), 'what was left of it');
    }

    public function test_a_gate_that_does_not_renew_does_not_break_the_job(): void
    {
        $nobody = new JobsGate(new Factory(), 'http://127.0.0.1:9', 'token', 1.0);
        $claim = new Claim($nobody, new Intent('acme', 'j', 'k'), 'a', 'f', 1_000, 300_000);
        $begun = hrtime(true);
        $done = Renewal::during($claim, static function () use ($begun): string {
            while (hrtime(true) - $begun < 1.5e9) {
                usleep(10_000);
            }

            return 'done';
        });
        self::assertSame('done', $done);
    }

    public function test_without_signals_the_job_just_runs(): void
    {
        pcntl_async_signals(false);
        self::assertSame('done', Renewal::during($this->claim(1_000), static fn () => 'done'));
        self::assertSame(0, pcntl_alarm(0));
    }
}
