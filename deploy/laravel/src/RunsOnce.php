<?php

declare(strict_types=1);

namespace Oncegate\Laravel;

/** A queued job whose work must not be done twice. It lists OnceOnly among its middleware. */
interface RunsOnce
{
    public function intent(): Intent;
}
