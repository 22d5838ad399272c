<?php

return [
    'default' => 'none',
    'connections' => ['none' => ['driver' => 'sqlite', 'database' => ':memory:']],
    'redis' => [
        'client' => 'phpredis',
        'options' => ['prefix' => 'billing:'],
        'default' => [
            'host' => env('REDIS_HOST', '127.0.0.1'),
            'port' => (int) env('REDIS_PORT', 6379),
            'database' => 0,
        ],
    ],
];
