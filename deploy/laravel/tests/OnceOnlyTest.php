<?php

declare(strict_types=1);

namespace Oncegate\Laravel\Tests;

use Illuminate\Container\Container;
use Illuminate\Contracts\Container\Container as Bindings;
use Illuminate\Contracts\Queue\Job;
use Illuminate\Queue\Jobs\SyncJob;
use Oncegate\Laravel\Claim;
use Oncegate\Laravel\GateRefusal;
use Oncegate\Laravel\JobsGate;
use Oncegate\Laravel\NotExecuted;
use PHPUnit\Framework\TestCase;
use Psr\Log\LoggerInterface;
use Psr\Log\NullLogger;
use RuntimeException;

/** The job middleware before a gate that says what the test wrote down. */
final class OnceOnlyTest extends TestCase
{
    private ScriptedGate $gate;

    private Container $container;

    protected function setUp(): void
    {
        $this->gate = new ScriptedGate();
        $this->container = new Container();
        $this->container->instance(Bindings::class, $this->container);
        $this->container->instance(Container::class, $this->container);
        $this->container->instance(JobsGate::class, $this->gate->client());
        $this->container->instance(LoggerInterface::class, new NullLogger());
    }

    private static function done(): array
    {
        return [200, 'application/json', '{}'];
    }

    /** What the gate was told last. */
    private function told(): array
    {
        $asked = $this->gate->asked();

        return json_decode(end($asked)['body'], true);
    }

    public function test_a_fresh_job_runs_and_what_it_returns_is_kept(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), self::done());
        $job = new SettleRefund(static fn () => ['refund' => 're_1']);
        self::assertSame(['refund' => 're_1'], $job->run($this->container));
        self::assertSame([1, 'nothing'], [$job->runs, $job->told]);
        self::assertSame(['', '/complete'], $this->gate->steps());
        self::assertSame(['refund' => 're_1'], $this->told()['result']);
    }

    public function test_a_job_finds_its_claim_while_it_runs_and_only_then(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), self::done());
        $job = new SettleRefund(static fn (Container $container) => $container->make(Claim::class)->forwardKey);
        self::assertSame('acme/settle_refund/k1', $job->run($this->container));
        self::assertFalse($this->container->bound(Claim::class));
    }

    public function test_a_job_inside_of_a_job_gives_the_claim_back(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), ScriptedGate::fresh(), self::done());
        $job = new SettleRefund(static function (Container $container): array {
            $outer = $container->make(Claim::class);
            $inner = (new SettleRefund(static fn () => $container->make(Claim::class) === $outer))->run($container);

            return [$inner, $container->make(Claim::class) === $outer];
        });
        self::assertSame([false, true], $job->run($this->container));
    }

    public function test_a_job_that_was_done_before_is_not_run_and_hears_its_result(): void
    {
        $this->gate->answers(ScriptedGate::says(['outcome' => 'replay', 'result' => ['refund' => 're_1']]));
        $job = new SettleRefund(static fn () => 'again');
        self::assertSame(['refund' => 're_1'], $job->run($this->container));
        self::assertSame([0, ['refund' => 're_1']], [$job->runs, $job->told]);
        self::assertSame([''], $this->gate->steps());
    }

    public function test_an_exception_leaves_the_outcome_unknown_and_goes_on_to_the_queue(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), self::done());
        $job = new SettleRefund(static fn () => throw new RuntimeException('the line broke'));
        try {
            $job->run($this->container);
            self::fail('the exception was swallowed');
        } catch (RuntimeException $fault) {
            self::assertSame('the line broke', $fault->getMessage());
        }
        self::assertSame(['', '/fail'], $this->gate->steps());
        self::assertSame(['maybe', 'RuntimeException'], [$this->told()['executed'], $this->told()['reason']]);
    }

    public function test_only_an_exception_made_for_it_says_that_nothing_was_done(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), self::done());
        $job = new SettleRefund(static fn () => throw new NotExecuted('no such order'));
        $this->expectException(NotExecuted::class);
        try {
            $job->run($this->container);
        } finally {
            self::assertSame('no', $this->told()['executed']);
        }
    }

    public function test_a_gate_that_cannot_be_told_of_it_does_not_hide_the_exception(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), ScriptedGate::refuses(409, 'outcome_unknown', 'maybe', 'no'));
        $this->expectExceptionMessage('the line broke');
        (new SettleRefund(static fn () => throw new RuntimeException('the line broke')))->run($this->container);
    }

    public function test_a_job_that_ran_and_could_not_be_recorded_comes_again(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), ScriptedGate::refuses(409, 'outcome_unknown', 'maybe', 'no'));
        $this->expectException(GateRefusal::class);
        (new SettleRefund(static fn () => 'done'))->run($this->container);
    }

    public function test_what_may_pass_puts_the_job_back_for_as_long_as_the_gate_says(): void
    {
        foreach ([
            [ScriptedGate::refuses(409, 'request_in_flight', 'maybe', 'same_key', 7_001), 8],
            [ScriptedGate::refuses(409, 'outcome_unknown', 'maybe', 'same_key', 300_000), 300],
            [ScriptedGate::refuses(503, 'store_unavailable', 'no', 'same_key'), 5],
            [[502, 'text/html', '<p>'], 5],
        ] as [$answer, $delay]) {
            $this->gate->answers($answer);
            $queued = $this->createMock(Job::class);
            $queued->expects(self::once())->method('release')->with($delay);
            $queued->expects(self::never())->method('fail');
            $job = new SettleRefund(static fn () => 'again', $queued);
            self::assertNull($job->run($this->container));
            self::assertSame(0, $job->runs);
        }
    }

    public function test_what_cannot_pass_fails_the_job_for_good_and_says_why(): void
    {
        foreach ([
            [409, 'outcome_unknown', 'maybe', 'no'],
            [422, 'idempotency_key_reuse_with_different_args', 'no', 'new_key'],
            [409, 'answer_not_kept', 'maybe', 'no'],
        ] as $says) {
            $this->gate->answers(ScriptedGate::refuses(...$says));
            $queued = $this->createMock(Job::class);
            $queued->expects(self::never())->method('release');
            $because = self::callback(static fn (GateRefusal $refusal) => $refusal->word === $says[1]);
            $queued->expects(self::once())->method('fail')->with($because);
            $job = new SettleRefund(static fn () => 'again', $queued);
            $job->run($this->container);
            self::assertSame(0, $job->runs);
        }
    }

    public function test_a_token_that_is_not_taken_is_told_and_loses_no_job(): void
    {
        foreach ([
            [401, 'invalid_token', 'same_key'],
            [403, 'forbidden', 'same_key'],
            [403, 'operation_not_allowed', 'no'],
        ] as [$status, $code, $retry]) {
            $this->gate->answers(ScriptedGate::refuses($status, $code, 'no', $retry));
            $queued = $this->createMock(Job::class);
            $queued->expects(self::never())->method('release');
            $queued->expects(self::never())->method('fail');
            try {
                (new SettleRefund(static fn () => 'again', $queued))->run($this->container);
                self::fail('nobody heard of it');
            } catch (GateRefusal $refusal) {
                self::assertSame($code, $refusal->word);
            }
        }
    }

    public function test_a_job_without_a_queue_tells_its_caller(): void
    {
        $sync = new SyncJob($this->container, '{}', 'sync', 'default');
        foreach ([null, $sync] as $queued) {
            $this->gate->answers(ScriptedGate::refuses(409, 'request_in_flight', 'maybe', 'same_key', 1000));
            try {
                (new SettleRefund(static fn () => 'again', $queued))->run($this->container);
                self::fail('nobody heard of it');
            } catch (GateRefusal $refusal) {
                self::assertSame('request_in_flight', $refusal->word);
            }
        }
        self::assertFalse($sync->isReleased() || $sync->hasFailed());
    }

    public function test_a_job_that_releases_itself_is_not_taken_for_done(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), self::done());
        $queued = $this->createMock(Job::class);
        $queued->method('isReleased')->willReturn(true);
        $job = new SettleRefund(static fn (Container $container, SettleRefund $job) => $job->release(10), $queued);
        $job->run($this->container);
        self::assertSame(['', '/fail'], $this->gate->steps());
        self::assertSame(['maybe', 'released'], [$this->told()['executed'], $this->told()['reason']]);
    }
}
