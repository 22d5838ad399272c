<?php

// The usual HTTP client of PHP, as an app uses it: orders come as a line of JSON each, what it met goes out so.

require '/usr/share/php/GuzzleHttp/autoload.php';

use GuzzleHttp\Client;
use GuzzleHttp\Exception\ConnectException;
use GuzzleHttp\Exception\RequestException;

function ask(Client $client, array $order): array
{
    $options = [
        'headers' => array_column($order['headers'], 1, 0),
        'http_errors' => false,
        'allow_redirects' => false,
        'timeout' => 60,
        // Unpacked as apps read it, or as it came over the wire.
        'decode_content' => $order['unpack'] ? 'gzip' : false,
    ];
    if (array_key_exists('json', $order)) {
        $options['json'] = $order['json'];
    } elseif (isset($order['form'])) {
        $pairs = array_map(fn ($pair) => rawurlencode($pair[0]) . '=' . rawurlencode($pair[1]), $order['form']);
        $options['body'] = implode('&', $pairs);
        $options['headers']['Content-Type'] = 'application/x-www-form-urlencoded';
    } elseif (isset($order['parts'])) {
        $options['multipart'] = array_map(function ($part) {
            $made = ['name' => $part['name'], 'contents' => $part['text']];
            if (isset($part['filename'])) {
                $made['filename'] = $part['filename'];
            }
            if (isset($part['type'])) {
                $made['headers'] = ['Content-Type' => $part['type']];
            }
            return $made;
        }, $order['parts']);
    } elseif (isset($order['bytes'])) {
        $options['body'] = base64_decode($order['bytes']);
    }
    try {
        $answer = $client->request($order['method'], $order['url'], $options);
    } catch (ConnectException | RequestException $fault) {
        return ['lost' => true];
    }
    $headers = [];
    foreach ($answer->getHeaders() as $name => $values) {
        foreach ($values as $value) {
            $headers[] = [(string) $name, $value];
        }
    }
    return [
        'status' => $answer->getStatusCode(),
        'headers' => $headers,
        'body' => base64_encode((string) $answer->getBody()),
    ];
}

$client = new Client();
while (($line = fgets(STDIN)) !== false) {
    // JSON's empty object is PHP's empty array: no order has one.
    echo json_encode(ask($client, json_decode($line, true))), "\n";
}
