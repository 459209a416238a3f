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
        throw new RuntimeException("no server at $server");
    }
    return [(int) explode(' ', $http_response_header[0])[1], json_decode($said, true)];
}

function place(string $order): void
{
    // The same push sent twice, after a time-out of the network, makes one job: it has a key.
    [$status, $said] = ask('POST', "/v1/topics/unpaid/jobs?delay=30m&key=order-$order", $order);
    if ($status >= 300) {
        throw new RuntimeException($said['error']['message']);
    }
    echo "order $order: placed, closes at {$said['due']} unless it is paid\n";
}

function pay(string $order): void
{
    [$status, $said] = ask('DELETE', "/v1/topics/unpaid/keys/order-$order");
    echo "order $order: ", match ($status) {
        200 => 'paid', // cancelled is cancelled: no worker gets it any more
        404, 409 => 'too late, give the money back', // closed; being closed
        default => throw new RuntimeException("not known yet, ask again: {$said['error']['message']}"),
    }, "\n";
}

function ack(array $job): void
{
    [$status, $said] = ask('POST', "/v1/jobs/{$job['id']}/ack?lease={$job['lease']}");
    if ($status !== 200) { // say, it took longer than the ttr: the lease was lost, and the job comes again
        fwrite(STDERR, "order {$job['body']}: {$said['error']['message']}\n");
    }
}

function work(string $patience): void
{
    do {
        [$status, $said] = ask('POST', '/v1/topics/unpaid/reserve?wait=' . ($patience ?: '30s'));
        if ($status > 204) { // the server is draining, or not ready: it passes
            fwrite(STDERR, $said['error']['message'] . "\n");
            sleep(1);
        }
        foreach ($said['jobs'] ?? [] as $job) {
            echo "order {$job['body']}: closed, {$job['late_ms']} ms late\n"; // here: your database
            ack($job);
        }
    } while ($status !== 204 || $patience === '');
}

match ($argv[1]) {
    'place' => place($argv[2]),
    'pay' => pay($argv[2]),
    'work' => work($argv[2] ?? ''),
};
