<?php

declare(strict_types=1);

namespace Oncegate\Laravel\Tests;

use Illuminate\Config\Repository;
use Illuminate\Foundation\Application;
use Illuminate\Http\Request;
use LogicException;
use Oncegate\Laravel\Egress;
use Oncegate\Laravel\JobsGate;
use Oncegate\Laravel\McpActor;
use Oncegate\Laravel\OncegateServiceProvider;
use Oncegate\Laravel\OnceOnly;
use Oncegate\Laravel\RequireActor;
use PHPUnit\Framework\TestCase;
use Psr\Log\NullLogger;
use RuntimeException;
use Symfony\Component\HttpFoundation\Response;
use Symfony\Component\HttpKernel\Exception\AccessDeniedHttpException;

/** Who asks, and what the container gives out. */
final class ActorTest extends TestCase
{
    /** @param array<string, string> $headers */
    private static function request(array $headers): Request
    {
        $request = Request::create('/mcp', 'POST');
        $request->headers->add($headers);

        return $request;
    }

    private static function application(array $config = []): Application
    {
        $application = new Application(sys_get_temp_dir());
        $application->instance('config', new Repository($config));
        $application->instance('log', new NullLogger());
        $application->register(OncegateServiceProvider::class);

        return $application;
    }

    public function test_the_actor_is_what_the_gate_says(): void
    {
        $actor = McpActor::of(self::request([
            'X-Oncegate-Tenant' => 'acme',
            'X-Oncegate-User' => 'u1',
            'X-Oncegate-Session' => 's1',
            'X-Oncegate-Scopes' => 'billing:read billing:refund',
        ]));
        self::assertEquals(new McpActor('acme', 'u1', 's1', ['billing:read', 'billing:refund']), $actor);
        self::assertSame([true, false], [$actor->can('billing:refund'), $actor->can('billing')]);
    }

    public function test_an_actor_may_have_no_session_and_no_scopes(): void
    {
        $headers = ['X-Oncegate-Tenant' => '0', 'X-Oncegate-User' => '7', 'X-Oncegate-Scopes' => ''];
        self::assertEquals(new McpActor('0', '7', null, []), McpActor::of(self::request($headers)));
    }

    public function test_nobody_passes_whom_the_gate_did_not_name(): void
    {
        foreach ([
            [],
            ['X-Oncegate-Tenant' => 'acme'],
            ['X-Oncegate-User' => 'u1'],
            ['X-Oncegate-Tenant' => '', 'X-Oncegate-User' => 'u1'],
        ] as $headers) {
            try {
                (new RequireActor())->handle(self::request($headers), static fn () => self::fail('it passed'));
                self::fail('no refusal');
            } catch (AccessDeniedHttpException $refusal) {
                self::assertSame(403, $refusal->getStatusCode());
            }
        }
        $named = self::request(['X-Oncegate-Tenant' => 'acme', 'X-Oncegate-User' => 'u1']);
        $answer = new Response('passed');
        self::assertSame($answer, (new RequireActor())->handle($named, static fn () => $answer));
    }

    public function test_the_container_gives_each_request_its_own_actor(): void
    {
        $application = self::application();
        foreach (['acme', 'globex'] as $tenant) {
            $application->instance('request', self::request(['X-Oncegate-Tenant' => $tenant, 'X-Oncegate-User' => 'u1']));
            self::assertSame($tenant, $application->make(McpActor::class)->tenant);
        }
        $application->instance('request', self::request([]));
        $this->expectException(LogicException::class);
        $application->make(McpActor::class);
    }

    public function test_tokens_come_from_their_files_and_are_not_guessed(): void
    {
        $file = tempnam(sys_get_temp_dir(), 'token');
        file_put_contents($file, "the-token\n");
        $config = ['oncegate' => require __DIR__.'/../config/oncegate.php'];
        $config['oncegate']['jobs']['token_file'] = $file;
        $application = self::application($config);
        self::assertInstanceOf(OnceOnly::class, $application->make(OnceOnly::class));
        self::assertSame($application->make(JobsGate::class), $application->make(JobsGate::class));
        self::assertInstanceOf(Egress::class, $application->make(Egress::class), 'an identity of its own needs no token');
        unlink($file);
        $this->expectException(RuntimeException::class);
        $this->expectExceptionMessage($file);
        self::application($config)->make(JobsGate::class);
    }
}
