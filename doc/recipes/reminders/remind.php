<?php
// Reminders at a local time, which can be moved and cancelled.
//
//     php remind.php add NAME 2027-03-01T09:00 Europe/Berlin TEXT
//     php remind.php move NAME 2027-03-02T09:00 Europe/Berlin
//     php remind.php cancel NAME
//     php remind.php work [30s]      ends when nothing came for so long

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

function moment(string $local, string $zone): string
{
    return (new DateTimeImmutable($local, new DateTimeZone($zone)))->format(DATE_RFC3339);
}

function tell(string $name, int $status, array $said): void
{
    echo "$name: ", $status >= 300 ? $said['error']['message'] : ($said['due'] ?? 'cancelled'), "\n";
}

function finish(array $job, string $how): void
{
    [$status, $said] = ask('POST', "/v1/jobs/{$job['id']}/{$how}lease={$job['lease']}");
    if ($status !== 200) { // say, it took longer than the ttr: the lease was lost, and the job comes again
        fwrite(STDERR, "{$job['key']}: {$said['error']['message']}\n");
    }
}

function work(string $patience): void
{
    do {
        [$status, $said] = ask('POST', '/v1/topics/reminders/reserve?wait=' . ($patience ?: '30s'));
        if ($status > 204) { // the server is draining, or not ready: it passes
            fwrite(STDERR, $said['error']['message'] . "\n");
            sleep(1);
        }
        foreach ($said['jobs'] ?? [] as $job) {
            echo "{$job['key']}: {$job['body']}\n";
            // If nobody has looked: once more in ten minutes, under the same id.
            finish($job, $job['attempts'] < 2 ? 'release?delay=10m&' : 'ack?');
        }
    } while ($status !== 204 || $patience === '');
}

$word = $argv[1] ?? '';
$name = $argv[2] ?? '';
$place = '/v1/topics/reminders/keys/' . rawurlencode($name);
if ($word === 'add') {
    $query = http_build_query(['key' => $name, 'at' => moment($argv[3], $argv[4])]);
    tell($name, ...ask('POST', "/v1/topics/reminders/jobs?$query", $argv[5]));
} elseif ($word === 'move') {
    tell($name, ...ask('PATCH', "$place?" . http_build_query(['at' => moment($argv[3], $argv[4])])));
} elseif ($word === 'cancel') {
    tell($name, ...ask('DELETE', $place));
} elseif ($word === 'work') {
    work($name);
} else {
    fwrite(STDERR, "usage: php remind.php add|move|cancel|work …\n");
    exit(2);
}
