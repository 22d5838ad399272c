<?php

declare(strict_types=1);

namespace Oncegate\Laravel\Tests;

use Illuminate\Http\Client\Factory;
use Oncegate\Laravel\JobsGate;
use RuntimeException;

/** A gate on a real socket that answers as it is told, and remembers what it was asked. Gone with its value. */
final class ScriptedGate
{
    /** @var resource */
    private $process;

    private string $folder;

    private string $address;

    public function __construct()
    {
        $this->folder = sys_get_temp_dir().'/scripted-'.bin2hex(random_bytes(8));
        mkdir($this->folder);
        // A port that is free may be somebody's the next moment: then another one.
        for ($tries = 0; ! $this->start(); $tries++) {
            if ($tries === 5) {
                throw new RuntimeException('php -S does not come up: '.file_get_contents("$this->folder/log"));
            }
        }
    }

    private function start(): bool
    {
        $socket = stream_socket_server('tcp://127.0.0.1:0');
        $this->address = stream_socket_get_name($socket, false);
        fclose($socket);
        $log = ['file', "$this->folder/log", 'a'];
        $pipes = [];
        $this->process = proc_open(
            [PHP_BINARY, '-S', $this->address, __DIR__.'/scripted.php'],
            [1 => $log, 2 => $log],
            $pipes,
            null,
            getenv() + ['SCRIPTED_FOLDER' => $this->folder],
        );
        while (proc_get_status($this->process)['running']) {
            if (@file_get_contents("http://$this->address/ready") !== false) {
                return true;
            }
            usleep(5_000);
        }

        return false;
    }

    public function __destruct()
    {
        proc_terminate($this->process, SIGKILL);
        proc_close($this->process);
        array_map('unlink', glob("$this->folder/*") ?: []);
        rmdir($this->folder);
    }

    public function url(): string
    {
        return "http://$this->address";
    }

    /** The client for it. */
    public function client(): JobsGate
    {
        return new JobsGate(new Factory(), $this->url(), 'the-service-token', 5.0);
    }

    /** @param array{int, string, string} ...$answers */
    public function answers(array ...$answers): void
    {
        $lines = array_map(static fn (array $answer) => json_encode($answer, JSON_THROW_ON_ERROR), $answers);
        file_put_contents("$this->folder/answers.jsonl", implode("\n", $lines));
    }

    /** @return array{int, string, string} */
    public static function says(array $body): array
    {
        return [200, 'application/json', json_encode($body, JSON_THROW_ON_ERROR)];
    }

    /** @return array{int, string, string} */
    public static function fresh(int $leaseMs = 60_000): array
    {
        return self::says([
            'outcome' => 'fresh',
            'attempt_id' => '0190-attempt',
            'lease_ms' => $leaseMs,
            'timeout_ms' => 300_000,
            'forward_key' => 'acme/settle_refund/k1',
        ]);
    }

    /** @return array{int, string, string} */
    public static function refuses(int $status, string $code, string $executed, string $retry, ?int $after = null): array
    {
        $problem = [
            'type' => "urn:oncegate:problem:$code",
            'title' => 'No.',
            'status' => $status,
            'detail' => 'As the test says.',
            'code' => $code,
            'executed' => $executed,
            'retry' => $retry,
            'retryable' => $retry === 'same_key',
        ] + ($after === null ? [] : ['retry_after_ms' => $after]);

        return [$status, 'application/problem+json', json_encode($problem, JSON_THROW_ON_ERROR)];
    }

    /**
     * What it was asked, in order.
     *
     * @return list<array{line: string, headers: array<string, string>, body: string}>
     */
    public function asked(): array
    {
        $lines = is_file("$this->folder/requests.jsonl") ? file("$this->folder/requests.jsonl") : [];

        return array_map(static fn (string $line) => json_decode($line, true), $lines ?: []);
    }

    /**
     * The paths below /gate/claims that it was asked.
     *
     * @return list<string>
     */
    public function steps(): array
    {
        return array_map(static fn (array $one) => substr($one['line'], strlen('POST /gate/claims')), $this->asked());
    }
}
