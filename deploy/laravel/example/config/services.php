<?php

return [
    // The provider's own credentials: the gate lets them pass.
    'provider' => ['secret' => env('PROVIDER_SECRET', 'sk_test_none')],
];
