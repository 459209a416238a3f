<?php
// A program that uses beanstalkd, and does not know that it talks to tarry.
//
//     php tube.php HOST:PORT put TUBE DELAY BODY
//     php tube.php HOST:PORT work TUBE [SECONDS]     ends when nothing came for so long
[, $where, $word, $tube] = $argv;
$stream = stream_socket_client("tcp://$where");

// sends a command and gives the words of the answer
function say(string $line): array
{
    global $stream;
    fwrite($stream, "$line\r\n");
    return explode(' ', trim(fgets($stream)));
}

if ($word === 'put') {
    say("use $tube");
    [, , , , $delay, $body] = $argv;
    echo implode(' ', say("put 1024 $delay 60 " . strlen($body) . "\r\n$body")), "\n";
    exit;
}
say("watch $tube");
$reserve = isset($argv[4]) ? "reserve-with-timeout $argv[4]" : 'reserve';
while (($answer = say($reserve))[0] === 'RESERVED') {
    echo substr(stream_get_contents($stream, $answer[2] + 2), 0, -2), "\n";
    say("delete $answer[1]");
}
