<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

/** The job was carried out before: this is what it returned then, or null where the gate could not keep that. */
final class Kept
{
    public function __construct(public readonly mixed $result)
    {
    }
}
