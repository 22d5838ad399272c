<?php

return [
    'default' => 'redis',
    'connections' => [
        'redis' => [
            'driver' => 'redis',
            'connection' => 'default',
            'queue' => 'default',
            // A job whose worker died comes again after this. Longer than the job's timeout, and than its lease.
            'retry_after' => (int) env('QUEUE_RETRY_AFTER', 90),
            'block_for' => null,
        ],
    ],
    // A real app keeps its failed jobs (`database-uuids`); this one's log says of them.
    'failed' => ['driver' => 'null'],
];
