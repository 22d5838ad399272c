<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use Illuminate\Http\Client\ConnectionException;
use Illuminate\Http\Client\Factory;
use Illuminate\Http\Client\Response;
use JsonException;

/**
 * The gate's way in for work that runs later than its request: `/gate/claims` on its admin listener.
 *
 * Promises: every answer that is not the wanted one is a GateRefusal. What an attempt came to is said again where the gate
 * did not hear it; a claim is asked for once, since a second question would find the first one's claim.
 */
final class JobsGate
{
    /** Waits before what came of an attempt is said again, in milliseconds. */
    private const AGAIN_AFTER = [100, 500, 2000];

    public function __construct(
        private readonly Factory $http,
        private readonly string $url,
        private readonly string $token,
        private readonly float $timeout,
    ) {
    }

    /** The right to run it now, or what it came to before. */
    public function claim(Intent $intent): Claim|Kept
    {
        try {
            $answer = $this->ask('', self::named($intent) + ['arguments' => (object) $intent->arguments]);
        } catch (GateRefusal $refusal) {
            // It ran, and that is what matters to a queue; its result was too large to keep, or held a secret.
            if ($refusal->word === 'answer_not_kept' && $refusal->executed === 'yes') {
                return new Kept(null);
            }
            throw $refusal;
        }

        return match ($answer['outcome'] ?? null) {
            'fresh' => new Claim(
                $this,
                $intent,
                (string) $answer['attempt_id'],
                (string) $answer['forward_key'],
                (int) $answer['lease_ms'],
                (int) $answer['timeout_ms'],
            ),
            'replay' => new Kept($answer['result'] ?? null),
            default => throw GateRefusal::unreachable('Its answer to a claim has no outcome that is known here.'),
        };
    }

    /** The worker is alive. */
    public function renew(Claim $claim): void
    {
        $this->ask('/renew', self::attempt($claim));
    }

    /** The job is done, and this is its result. */
    public function complete(Claim $claim, mixed $result): void
    {
        $this->settle('/complete', self::attempt($claim) + ['result' => $result]);
    }

    /** The job ended without a result. It did nothing, or nobody knows. */
    public function fail(Claim $claim, bool $mayHaveRun, string $reason): void
    {
        $executed = $mayHaveRun ? 'maybe' : 'no';
        $this->settle('/fail', self::attempt($claim) + ['executed' => $executed, 'reason' => $reason]);
    }

    /** @param array<string, mixed> $body */
    private function settle(string $path, array $body): void
    {
        foreach (self::AGAIN_AFTER as $wait) {
            try {
                $this->ask($path, $body);

                return;
            } catch (GateRefusal $refusal) {
                if (! $refusal->isRetryable()) {
                    throw $refusal;
                }
                usleep($wait * 1000);
            }
        }
        $this->ask($path, $body);
    }

    /**
     * @param array<string, mixed> $body
     *
     * @return array<string, mixed>
     */
    private function ask(string $path, array $body): array
    {
        try {
            $response = $this->http
                ->withToken($this->token)
                ->acceptJson()
                ->timeout((int) ceil($this->timeout))
                ->withBody(self::json($body), 'application/json')
                ->post(rtrim($this->url, '/')."/gate/claims$path");
        } catch (ConnectionException $fault) {
            throw GateRefusal::unreachable("No answer from $this->url.", $fault);
        }

        return self::heard($response);
    }

    /** @return array<string, mixed> */
    private static function heard(Response $response): array
    {
        if ($refusal = GateRefusal::in($response)) {
            throw $refusal;
        }
        if ($response->status() === 204) {
            return [];
        }
        $answer = json_decode($response->body(), true);
        if (! $response->successful() || ! is_array($answer)) {
            throw GateRefusal::unreachable("What answers there with {$response->status()} is not the gate.");
        }

        return $answer;
    }

    /** @param array<string, mixed> $body */
    private static function json(array $body): string
    {
        try {
            return json_encode($body, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_PRESERVE_ZERO_FRACTION);
        } catch (JsonException $fault) {
            throw new GateRefusal(0, 'not_json', 'no', 'no', null, 'Arguments and results must be JSON.', $fault);
        }
    }

    /** @return array<string, string> */
    private static function named(Intent $intent): array
    {
        return ['tenant' => $intent->tenant, 'job' => $intent->job, 'key' => $intent->key];
    }

    /** @return array<string, string> */
    private static function attempt(Claim $claim): array
    {
        return self::named($claim->intent) + ['attempt_id' => $claim->attemptId];
    }
}
