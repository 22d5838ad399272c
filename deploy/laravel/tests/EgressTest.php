<?php

declare(strict_types=1);

namespace Oncegate\Laravel\Tests;

use Illuminate\Http\Client\Factory;
use Oncegate\Laravel\Claim;
use Oncegate\Laravel\Egress;
use Oncegate\Laravel\GateRefusal;
use Oncegate\Laravel\Intent;
use PHPUnit\Framework\TestCase;

/** Calls that leave the app. */
final class EgressTest extends TestCase
{
    private ScriptedGate $gate;

    protected function setUp(): void
    {
        $this->gate = new ScriptedGate();
    }

    private function egress(?string $token): Egress
    {
        return new Egress(new Factory(), $this->gate->url(), $token, 5.0);
    }

    public function test_a_job_calls_in_its_tenants_name_and_under_its_claims_key(): void
    {
        $this->gate->answers([200, 'application/json', '{"id":"re_1"}']);
        $intent = new Intent('acme', 'j', 'k1');
        $claim = new Claim($this->gate->client(), $intent, 'a', 'the-forwarded-key', 60_000, 60_000);
        $sent = $this->egress('the-token')->for($claim)->withToken('sk_test')->asForm();
        $answer = Egress::heard($sent->post('/v1/refunds', ['amount' => 500]));
        self::assertSame('re_1', $answer->json('id'));
        [$asked] = $this->gate->asked();
        self::assertSame(['POST /v1/refunds', 'amount=500'], [$asked['line'], $asked['body']]);
        $told = array_map(
            static fn (string $name) => $asked['headers'][$name],
            ['x-oncegate-token', 'x-oncegate-tenant', 'idempotency-key', 'authorization'],
        );
        self::assertSame(['the-token', 'acme', 'the-forwarded-key', 'Bearer sk_test'], $told);
    }

    public function test_a_listener_that_knows_who_calls_gets_no_token(): void
    {
        $this->gate->answers([200, 'application/json', '{}']);
        $this->egress(null)->as('acme', 'k1')->get('/v1/refunds/re_1');
        self::assertArrayNotHasKey('x-oncegate-token', $this->gate->asked()[0]['headers']);
    }

    public function test_the_gates_refusal_is_thrown_and_the_providers_problem_is_an_answer(): void
    {
        $theirs = '{"type":"about:blank","title":"No.","status":402,"code":"card_declined"}';
        $ours = ScriptedGate::refuses(409, 'outcome_unknown', 'maybe', 'same_key', 1500);
        $this->gate->answers([402, 'application/problem+json', $theirs], $ours);
        $call = fn () => Egress::heard($this->egress('the-token')->as('acme', 'k1')->post('/v1/refunds'));
        self::assertSame(402, $call()->status());
        try {
            $call();
            self::fail('the refusal was taken for the answer');
        } catch (GateRefusal $refusal) {
            self::assertSame(['outcome_unknown', 409, 2], [$refusal->word, $refusal->status, $refusal->delay(9)]);
        }
    }
}
