<?php

declare(strict_types=1);

namespace Oncegate\Laravel\Tests;

use Illuminate\Http\Client\Factory;
use Oncegate\Laravel\Claim;
use Oncegate\Laravel\GateRefusal;
use Oncegate\Laravel\Intent;
use Oncegate\Laravel\JobsGate;
use Oncegate\Laravel\Kept;
use PHPUnit\Framework\TestCase;

/** The client of the jobs' gate, on the wire. */
final class JobsGateTest extends TestCase
{
    private ScriptedGate $gate;

    protected function setUp(): void
    {
        $this->gate = new ScriptedGate();
    }

    private static function intent(array $arguments = ['order' => 'ord_1', 'amount' => 10.0]): Intent
    {
        return new Intent('acme', 'settle_refund', 'k1', $arguments);
    }

    private function refusal(callable $asking): GateRefusal
    {
        try {
            $asking($this->gate->client());
        } catch (GateRefusal $refusal) {
            return $refusal;
        }
        self::fail('the gate was taken to have agreed');
    }

    public function test_a_claim_is_asked_for_in_the_words_of_the_gate(): void
    {
        $this->gate->answers(ScriptedGate::fresh());
        $claim = $this->gate->client()->claim(self::intent());
        self::assertInstanceOf(Claim::class, $claim);
        self::assertSame(['0190-attempt', 'acme/settle_refund/k1'], [$claim->attemptId, $claim->forwardKey]);
        self::assertSame([60_000, 300_000], [$claim->leaseMs, $claim->timeoutMs]);
        [$asked] = $this->gate->asked();
        self::assertSame('POST /gate/claims', $asked['line']);
        self::assertSame('Bearer the-service-token', $asked['headers']['authorization']);
        self::assertSame('application/json', $asked['headers']['content-type']);
        $body = '{"tenant":"acme","job":"settle_refund","key":"k1","arguments":{"order":"ord_1","amount":10.0}}';
        self::assertSame($body, $asked['body']);
    }

    public function test_no_arguments_are_an_empty_object(): void
    {
        $this->gate->answers(ScriptedGate::fresh());
        $this->gate->client()->claim(self::intent([]));
        self::assertStringContainsString('"arguments":{}', $this->gate->asked()[0]['body']);
    }

    public function test_an_attempt_is_named_by_its_id_in_all_that_follows(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), [204, 'text/plain', ''], [200, 'application/json', '{}']);
        $client = $this->gate->client();
        $claim = $client->claim(self::intent());
        $claim->renew();
        $client->complete($claim, ['refund' => 're_1']);
        $client->fail($claim, true, 'RuntimeException');
        $client->fail($claim, false, 'NotExecuted');
        $attempt = '{"tenant":"acme","job":"settle_refund","key":"k1","attempt_id":"0190-attempt"';
        $bodies = array_column(array_slice($this->gate->asked(), 1), 'body');
        self::assertSame([
            "$attempt}",
            "$attempt,\"result\":{\"refund\":\"re_1\"}}",
            "$attempt,\"executed\":\"maybe\",\"reason\":\"RuntimeException\"}",
            "$attempt,\"executed\":\"no\",\"reason\":\"NotExecuted\"}",
        ], $bodies);
        self::assertSame(['', '/renew', '/complete', '/fail', '/fail'], $this->gate->steps());
    }

    public function test_a_replay_brings_what_was_kept(): void
    {
        $this->gate->answers(ScriptedGate::says(['outcome' => 'replay', 'result' => ['refund' => 're_1']]));
        $kept = $this->gate->client()->claim(self::intent());
        self::assertInstanceOf(Kept::class, $kept);
        self::assertSame(['refund' => 're_1'], $kept->result);
    }

    public function test_a_job_whose_answer_was_not_kept_ran_all_the_same(): void
    {
        $this->gate->answers(ScriptedGate::refuses(409, 'answer_not_kept', 'yes', 'no'));
        $kept = $this->gate->client()->claim(self::intent());
        self::assertInstanceOf(Kept::class, $kept);
        self::assertNull($kept->result);
    }

    public function test_a_problem_says_whether_it_ran_and_whether_it_may_come_again(): void
    {
        $this->gate->answers(ScriptedGate::refuses(409, 'request_in_flight', 'maybe', 'same_key', 2500));
        $refusal = $this->refusal(static fn (JobsGate $gate) => $gate->claim(self::intent()));
        self::assertSame(['request_in_flight', 'maybe'], [$refusal->word, $refusal->executed]);
        self::assertSame([true, 3], [$refusal->isRetryable(), $refusal->delay(9)]);
        self::assertSame('Oncegate: request_in_flight. As the test says.', $refusal->getMessage());
        $this->gate->answers(ScriptedGate::refuses(409, 'outcome_unknown', 'maybe', 'no'));
        $refusal = $this->refusal(static fn (JobsGate $gate) => $gate->claim(self::intent()));
        self::assertSame([false, 9], [$refusal->isRetryable(), $refusal->delay(9)]);
    }

    public function test_a_claim_is_asked_for_once_whatever_comes_back(): void
    {
        $this->gate->answers(ScriptedGate::refuses(503, 'store_unavailable', 'no', 'same_key'));
        $this->refusal(static fn (JobsGate $gate) => $gate->claim(self::intent()));
        self::assertSame([''], $this->gate->steps());
    }

    public function test_what_an_attempt_came_to_is_said_again_until_the_gate_has_heard_it(): void
    {
        $away = ScriptedGate::refuses(503, 'store_unavailable', 'no', 'same_key');
        $this->gate->answers(ScriptedGate::fresh(), $away, [502, 'text/html', '<p>'], [200, 'application/json', '{}']);
        $client = $this->gate->client();
        $client->complete($client->claim(self::intent()), null);
        self::assertSame(['', '/complete', '/complete', '/complete'], $this->gate->steps());
    }

    public function test_what_the_gate_refuses_for_good_is_not_said_again(): void
    {
        $this->gate->answers(ScriptedGate::fresh(), ScriptedGate::refuses(409, 'attempt_over', 'maybe', 'no'));
        $this->refusal(static fn (JobsGate $gate) => $gate->complete($gate->claim(self::intent()), null));
        self::assertSame(['', '/complete'], $this->gate->steps());
    }

    public function test_what_is_no_gate_agrees_to_nothing(): void
    {
        $strange = [200, 'application/json', '{"outcome":"new"}'];
        foreach ([[200, 'text/html', '<p>'], [404, 'text/html', ''], $strange] as $answer) {
            $this->gate->answers($answer);
            $refusal = $this->refusal(static fn (JobsGate $gate) => $gate->claim(self::intent()));
            self::assertSame(['gate_unreachable', true], [$refusal->word, $refusal->isRetryable()]);
        }
        $nobody = new JobsGate(new Factory(), 'http://127.0.0.1:9', 'token', 1.0);
        $refusal = $this->refusal(static fn () => $nobody->claim(self::intent()));
        self::assertSame('gate_unreachable', $refusal->word);
    }

    public function test_what_is_no_json_is_not_sent(): void
    {
        $refusal = $this->refusal(static fn (JobsGate $gate) => $gate->claim(self::intent(['text' => "\xff"])));
        self::assertSame(['not_json', 'no', false], [$refusal->word, $refusal->executed, $refusal->isRetryable()]);
        self::assertSame([], $this->gate->asked());
    }
}
