<?php

declare(strict_types=1);

/*
 * A gate that says what a test wrote down, for `php -S`: every request is noted in requests.jsonl, and answered with the
 * next line of answers.jsonl; the last one stays. It knows nothing of claims. The real one is behind tests/it/laravel.rs.
 */
$folder = (string) getenv('SCRIPTED_FOLDER');
if ($_SERVER['REQUEST_URI'] === '/ready') {
    return true;
}
$request = [
    'line' => $_SERVER['REQUEST_METHOD'].' '.$_SERVER['REQUEST_URI'],
    'headers' => array_change_key_case(getallheaders()),
    'body' => (string) file_get_contents('php://input'),
];
file_put_contents("$folder/requests.jsonl", json_encode($request, JSON_THROW_ON_ERROR)."\n", FILE_APPEND);
$answers = file("$folder/answers.jsonl", FILE_IGNORE_NEW_LINES) ?: [];
if (count($answers) > 1) {
    file_put_contents("$folder/answers.jsonl", implode("\n", array_slice($answers, 1)));
}
[$status, $type, $body] = json_decode($answers[0] ?? '[404,"text/plain","nothing is scripted"]', true);
http_response_code($status);
header("Content-Type: $type");
echo $body;
return true;
