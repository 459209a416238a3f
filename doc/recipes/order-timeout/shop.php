<?php
// Orders that are not paid within half an hour are closed.
//
//     php shop.php place 42       an order comes in
//     php shop.php pay 42         it is paid
//     php shop.php work [30s]     closes what is not paid; ends when nothing came for so long

// [status, answer] of the server
function ask(string $method, string $path, string $body = ''): array
{
    $server = getenv('TARRY_SERVER') ?: 'http://127.0.0.1:11301';
    $http = ['method' => $method, 'content' => $body, 'ignore_errors' => true, 'timeout' => 60,
             'header' => 'Content-Type: application/octet-stream'];
    $said = file_get_contents($server . $path, false, stream_context_create(['http' => $http]));
    if ($said === false) {
        exit("no server at $server\n");
    }
    return [(int) explode(' ', $http_response_header[0])[1], json_decode($said, true)];
}

function place(string $order): void
{
    // The same push sent twice, after a time-out of the network, makes one job: it has a key.
    [$status, $said] = ask('POST', "/v1/topics/unpaid/jobs?delay=30m&key=order-$order", $order);
    if ($status >= 300) {
        exit($said['error']['message'] . "\n");
    }
    echo "order $order: placed, closes at {$said['due']} unless it is paid\n";
}

function pay(string $order): void
{
    [$status] = ask('DELETE', "/v1/topics/unpaid/keys/order-$order");
    // 200: cancelled is cancelled, no worker gets it any more. 409: being closed; 404: closed.
    echo "order $order: ", $status === 200 ? 'paid' : 'too late, give the money back', "\n";
}

function work(string $patience): void
{
    do {
        [$status, $said] = ask('POST', '/v1/topics/unpaid/reserve?wait=' . ($patience ?: '30s'));
        foreach ($said['jobs'] ?? [] as $job) {
            echo "order {$job['body']}: closed, {$job['late_ms']} ms late\n"; // here: your database
            ask('POST', "/v1/jobs/{$job['id']}/ack?lease={$job['lease']}");
        }
    } while ($status === 200 || $patience === '');
}

match ($argv[1]) {
    'place' => place($argv[2]),
    'pay' => pay($argv[2]),
    'work' => work($argv[2] ?? ''),
};
