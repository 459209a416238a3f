<?php
// Reminders at a local time, which can be moved and cancelled.
//
//     php remind.php add NAME 2027-03-01T09:00 Europe/Berlin TEXT
//     php remind.php move NAME 2027-03-02T09:00 Europe/Berlin
//     php remind.php cancel NAME

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

function moment(string $local, string $zone): string
{
    return (new DateTimeImmutable($local, new DateTimeZone($zone)))->format(DATE_RFC3339);
}

function tell(string $name, int $status, array $said): void
{
    echo "$name: ", $status >= 300 ? $said['error']['message'] : ($said['due'] ?? 'cancelled'), "\n";
}

[, $word, $name] = $argv;
$place = '/v1/topics/reminders/keys/' . rawurlencode($name);
if ($word === 'add') {
    $query = http_build_query(['key' => $name, 'at' => moment($argv[3], $argv[4])]);
    tell($name, ...ask('POST', "/v1/topics/reminders/jobs?$query", $argv[5]));
} elseif ($word === 'move') {
    tell($name, ...ask('PATCH', "$place?" . http_build_query(['at' => moment($argv[3], $argv[4])])));
} elseif ($word === 'cancel') {
    tell($name, ...ask('DELETE', $place));
}
