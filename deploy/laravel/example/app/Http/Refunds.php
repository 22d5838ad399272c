<?php

declare(strict_types=1);

namespace App\Http;

use App\Jobs\SettleRefund;
use Illuminate\Contracts\Bus\Dispatcher;
use Illuminate\Http\JsonResponse;
use Illuminate\Http\Request;
use Oncegate\Laravel\McpActor;

/** Refunds, asked for by a tool or by a plain route: both only queue the job that settles them. */
final class Refunds
{
    public function __construct(private readonly Dispatcher $queue)
    {
    }

    /** POST /api/orders/{order}/refunds */
    public function store(Request $request, McpActor $actor, string $order): JsonResponse
    {
        return new JsonResponse($this->queue($request, $actor, $order, $request->input('amount_cents')), 202);
    }

    /** POST /mcp, of which this app speaks just as much as its two tools need. laravel/mcp takes this place. */
    public function rpc(Request $request, McpActor $actor): JsonResponse
    {
        $arguments = (array) $request->input('params.arguments', []);
        $told = match ($request->input('params.name')) {
            'whoami' => self::actor($actor, $request),
            'refund_order' => $this->queue($request, $actor, $arguments['order_id'], $arguments['amount_cents']),
            default => null,
        };
        $answer = ['jsonrpc' => '2.0', 'id' => $request->input('id')];
        if ($told === null) {
            return new JsonResponse($answer + ['error' => ['code' => -32602, 'message' => 'There is no such tool.']]);
        }
        $content = [['type' => 'text', 'text' => json_encode($told)]];

        return new JsonResponse($answer + ['result' => ['content' => $content, 'resultType' => 'complete']]);
    }

    /** GET /api/whoami */
    public function whoami(Request $request, McpActor $actor): JsonResponse
    {
        return new JsonResponse(self::actor($actor, $request));
    }

    /** @return array<string, mixed> */
    private function queue(Request $request, McpActor $actor, string $order, int $cents): array
    {
        // The key that the gate forwards is the job's as well: a request that is queued twice is one refund.
        $key = (string) $request->header('Idempotency-Key');
        $this->queue->dispatch(new SettleRefund($actor->tenant, $key, $order, $cents));

        return ['order' => $order, 'status' => 'queued'];
    }

    /** @return array<string, mixed> */
    private static function actor(McpActor $actor, Request $request): array
    {
        return [
            'tenant' => $actor->tenant,
            'user' => $actor->user,
            'session' => $actor->session,
            'scopes' => $actor->scopes,
            'url' => $request->url(),
            'client' => $request->ip(),
        ];
    }
}
