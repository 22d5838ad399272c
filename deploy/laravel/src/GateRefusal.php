<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use Illuminate\Http\Client\Response;
use RuntimeException;
use Throwable;

/**
 * The gate said no, as a problem (RFC 9457), or could not be asked.
 *
 * It says whether anything ran, and whether the same key may come again; what is decided here is decided by these two and
 * not by the code, so that codes which a later gate adds are treated right.
 */
final class GateRefusal extends RuntimeException
{
    /**
     * @param int      $status       the HTTP status, 0 where there was no answer
     * @param string   $word         the problem's `code`: `outcome_unknown`, `request_in_flight`, …
     * @param string   $executed     `no`, `maybe` or `yes`
     * @param string   $retry        `same_key`, `new_key` or `no`
     * @param int|null $retryAfterMs when, where the gate named a time
     */
    public function __construct(
        public readonly int $status,
        public readonly string $word,
        public readonly string $executed,
        public readonly string $retry,
        public readonly ?int $retryAfterMs,
        string $detail,
        ?Throwable $previous = null,
    ) {
        parent::__construct($detail === '' ? "Oncegate: $word." : "Oncegate: $word. $detail", 0, $previous);
    }

    /** The refusal in an answer, or null where somebody else gave it. */
    public static function in(Response $response): ?self
    {
        $isProblem = str_starts_with(strtolower($response->header('Content-Type')), 'application/problem+json');
        $problem = $isProblem ? json_decode($response->body(), true) : null;
        // Providers speak of problems too. Only the gate says whether a call was executed.
        if (! is_array($problem) || ! is_string($problem['code'] ?? null) || ! is_string($problem['executed'] ?? null)) {
            return null;
        }
        $after = $problem['retry_after_ms'] ?? null;

        return new self(
            $response->status(),
            $problem['code'],
            $problem['executed'],
            is_string($problem['retry'] ?? null) ? $problem['retry'] : 'no',
            is_numeric($after) ? (int) $after : null,
            is_string($problem['detail'] ?? null) ? $problem['detail'] : '',
        );
    }

    /** The gate gave no answer that can be read. */
    public static function unreachable(string $detail, ?Throwable $previous = null): self
    {
        return new self(0, 'gate_unreachable', 'maybe', 'same_key', null, $detail, $previous);
    }

    /** Whether the same key may come again. */
    public function isRetryable(): bool
    {
        return $this->retry === 'same_key';
    }

    /** Whether it is about who asks: the service's token, or what it may do. Waiting does not change that; a person does. */
    public function isAboutToken(): bool
    {
        return $this->status === 401 || $this->status === 403;
    }

    /** Whole seconds until it may, at least one. */
    public function delay(int $otherwise): int
    {
        return max(1, $this->retryAfterMs === null ? $otherwise : (int) ceil($this->retryAfterMs / 1000));
    }
}
