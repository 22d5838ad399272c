<?php

declare(strict_types=1);

namespace App\Jobs;

use Illuminate\Bus\Queueable;
use Illuminate\Contracts\Queue\ShouldQueue;
use Illuminate\Queue\InteractsWithQueue;
use Oncegate\Laravel\Claim;
use Oncegate\Laravel\Egress;
use Oncegate\Laravel\GateRefusal;
use Oncegate\Laravel\Intent;
use Oncegate\Laravel\NotExecuted;
use Oncegate\Laravel\OnceOnly;
use Oncegate\Laravel\RunsOnce;
use Psr\Log\LoggerInterface;
use RuntimeException;
use Throwable;

/** Pays a refund out, at the provider. */
final class SettleRefund implements ShouldQueue, RunsOnce
{
    use InteractsWithQueue;
    use Queueable;

    /** Bounded by retryUntil: being told to wait is no failed attempt. */
    public int $tries = 0;

    public int $maxExceptions = 3;

    /** Shorter than the policy's lease, which is shorter than the queue's retry_after. */
    public int $timeout = 45;

    public function __construct(
        private readonly string $tenant,
        private readonly string $key,
        private readonly string $order,
        private readonly int $cents,
    ) {
    }

    public function retryUntil(): int
    {
        return time() + 3600;
    }

    /** @return list<class-string> */
    public function middleware(): array
    {
        return [OnceOnly::class];
    }

    public function intent(): Intent
    {
        $arguments = ['order' => $this->order, 'amount_cents' => $this->cents];

        return new Intent($this->tenant, 'settle_refund', $this->key, $arguments);
    }

    /** @return array{refund: string} */
    public function handle(Claim $claim, Egress $egress, LoggerInterface $log): array
    {
        $form = ['payment_intent' => $this->order, 'amount' => $this->cents];
        $sent = $egress->for($claim)->withToken((string) config('services.provider.secret'))->asForm();
        try {
            $answer = Egress::heard($sent->post('/v1/refunds', $form));
        } catch (GateRefusal $refusal) {
            // This call is all that the job changes: where it did not run, nothing did.
            throw $refusal->executed === 'no' ? new NotExecuted($refusal->getMessage(), 0, $refusal) : $refusal;
        }
        if (! $answer->successful()) {
            // The provider said no, and the gate has kept that under the key. Asking again would bring the same.
            throw new RuntimeException("The provider answered {$answer->status()}.");
        }
        $log->info('A refund was paid.', ['refund' => $answer->json('id')]);

        return ['refund' => $answer->json('id')];
    }

    /** @param array{refund: string}|null $result */
    public function replayed(?array $result): void
    {
        logger()->info('A refund had been paid.', $result ?? []);
    }

    public function failed(Throwable $fault): void
    {
        $told = ['order' => $this->order, 'because' => $fault->getMessage()];
        logger()->error('A refund needs somebody to look.', $told);
    }
}
