<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

use RuntimeException;

/**
 * Thrown by a job that knows that it has changed nothing, here or elsewhere: the key may try again.
 *
 * Any other exception leaves the outcome unknown, since it may have come after the money went out. When in doubt, throw
 * any other.
 */
final class NotExecuted extends RuntimeException
{
}
