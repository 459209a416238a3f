<?php
// The whole API of pheanstalk 4 against the server on a port: php pheanstalk_test.php PORT
// Prints "ok NAME" for each part; the first wrong answer ends it.
declare(strict_types=1);

require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;

const KEYS = [
    'current-jobs-urgent', 'current-jobs-ready', 'current-jobs-reserved', 'current-jobs-delayed',
    'current-jobs-buried', 'cmd-put', 'cmd-peek', 'cmd-peek-ready', 'cmd-peek-delayed',
    'cmd-peek-buried', 'cmd-reserve', 'cmd-reserve-with-timeout', 'cmd-delete', 'cmd-release',
    'cmd-use', 'cmd-watch', 'cmd-ignore', 'cmd-bury', 'cmd-kick', 'cmd-touch', 'cmd-stats',
    'cmd-stats-job', 'cmd-stats-tube', 'cmd-list-tubes', 'cmd-list-tube-used',
    'cmd-list-tubes-watched', 'cmd-pause-tube', 'job-timeouts', 'total-jobs', 'max-job-size',
    'current-tubes', 'current-connections', 'current-producers', 'current-workers',
    'current-waiting', 'total-connections', 'pid', 'version', 'rusage-utime', 'rusage-stime',
    'uptime', 'binlog-oldest-index', 'binlog-current-index', 'binlog-records-migrated',
    'binlog-records-written', 'binlog-max-size', 'draining', 'id', 'hostname', 'os', 'platform',
];
const TUBE_KEYS = [
    'name', 'current-jobs-urgent', 'current-jobs-ready', 'current-jobs-reserved',
    'current-jobs-delayed', 'current-jobs-buried', 'total-jobs', 'current-using',
    'current-watching', 'current-waiting', 'cmd-delete', 'cmd-pause-tube', 'pause',
    'pause-time-left',
];
const JOB_KEYS = [
    'id', 'tube', 'state', 'pri', 'age', 'delay', 'ttr', 'time-left', 'file', 'reserves',
    'timeouts', 'releases', 'buries', 'kicks',
];

function same($got, $want): void
{
    if ($got !== $want) {
        fwrite(STDERR, 'got ' . var_export($got, true) . ', want ' . var_export($want, true) . "\n");
        throw new LogicException('wrong answer');
    }
}

function fails(string $kind, callable $do): void
{
    try {
        $do();
    } catch (Throwable $error) {
        if ($error instanceof $kind) {
            return;
        }
        throw $error;
    }
    throw new LogicException("no $kind");
}

function part(string $name, callable $do): void
{
    $do();
    echo "ok $name\n";
}

function sorted(array $list): array
{
    sort($list);
    return $list;
}

// Strings in stats stand in quotes since beanstalkd 1.13; pheanstalk 4 leaves them there.
function plain(string $value): string
{
    return trim($value, '"');
}

$port = (int) $argv[1];
$client = Pheanstalk::create('127.0.0.1', $port, 10);
$other = Pheanstalk::create('127.0.0.1', $port, 10);

part('put and reserve', function () use ($client) {
    $client->useTube('php.work')->watchOnly('php.work');
    $late = $client->put('late', 1000);
    $body = "first \0\xff\r\nline";
    $soon = $client->put($body, 10, 0, 33);
    $job = $client->reserve();
    same([$job->getId(), $job->getData()], [$soon->getId(), $body]);
    $stats = $client->statsJob($job);
    same([$stats['state'], plain($stats['tube']), $stats['pri'], $stats['ttr']],
         ['reserved', 'php.work', '10', '33']);
    $client->delete($job);
    fails(Exception\JobNotFoundException::class, fn () => $client->delete($job));
    $client->delete($client->reserveWithTimeout(1));
    same($client->reserveWithTimeout(0), null);
});

part('delay', function () use ($client) {
    $start = microtime(true);
    $job = $client->put('later', 10, 1);
    same($client->peekDelayed()->getId(), $job->getId());
    same($client->peekReady(), null);
    $found = $client->reserveWithTimeout(10);
    same($found->getData(), 'later');
    same(microtime(true) - $start > 0.99, true);
    $client->delete($found);
});

part('release, touch, bury, kick', function () use ($client) {
    $id = $client->put('round')->getId();
    $job = $client->reserveWithTimeout(5);
    $client->touch($job);
    $client->release($job, 7, 60);
    $stats = $client->statsJob($job);
    same([$stats['state'], $stats['pri'], $stats['delay'], $stats['releases']],
         ['delayed', '7', '60', '1']);
    $client->kickJob($job);
    same($client->peekReady()->getId(), $id);
    $job = $client->reserveWithTimeout(5);
    $client->bury($job, 5);
    same($client->peekBuried()->getId(), $id);
    same($client->kick(10), 1);
    same($client->kick(10), 0);
    same($client->statsJob($job)['kicks'], '2');
    $job = $client->reserveWithTimeout(5);
    $client->release($job);
    $client->delete(new JobId($id));
    fails(Exception\JobNotFoundException::class, fn () => $client->kickJob(new JobId($id)));
    fails(Exception\JobNotFoundException::class, fn () => $client->peek(new JobId($id)));
    fails(Exception\JobNotFoundException::class, fn () => $client->release($job));
    fails(Exception\JobNotFoundException::class, fn () => $client->bury($job));
    fails(Exception\JobNotFoundException::class, fn () => $client->touch($job));
    fails(Exception\ServerException::class, fn () => $client->statsJob($job));
});

part('a job of another connection', function () use ($client, $other) {
    $client->put('mine');
    $job = $client->reserveWithTimeout(5);
    same($other->peek($job)->getData(), 'mine');
    fails(Exception\JobNotFoundException::class, fn () => $other->delete($job));
    fails(Exception\JobNotFoundException::class, fn () => $other->touch($job));
    $client->delete($job);
});

part('deadline soon', function () use ($client) {
    $client->put('short', 10, 0, 1);
    $job = $client->reserveWithTimeout(5);
    fails(Exception\DeadlineSoonException::class, fn () => $client->reserveWithTimeout(5));
    $client->delete($job);
});

part('watch, ignore, use', function () use ($client) {
    $client->watch('php.a')->watch('php.b')->ignore('php.work');
    same(sorted($client->listTubesWatched(true)), ['php.a', 'php.b']);
    $client->watchOnly('php.work');
    same($client->listTubesWatched(true), ['php.work']);
    fails(Exception\ServerException::class, fn () => $client->ignore('php.work'));
    same($client->listTubeUsed(true), 'php.work');
    $client->useTube('php.c');
    same($client->listTubeUsed(true), 'php.c');
    same(sorted($client->listTubes()), ['default', 'php.c', 'php.work']);
    $client->useTube('php.work');
    same($client->withUsedTube('php.d', fn ($c) => $c->listTubeUsed(true)), 'php.d');
});

part('pause', function () use ($client) {
    $client->put('paused');
    $client->pauseTube('php.work', 60);
    same($client->statsTube('php.work')['pause'], '60');
    same($client->reserveWithTimeout(0), null);
    $client->resumeTube('php.work');
    $client->delete($client->reserveWithTimeout(5));
    fails(Exception\ServerException::class, fn () => $client->pauseTube('php.nowhere', 1));
});

part('stats', function () use ($client) {
    $job = $client->put('x');
    $stats = (array) $client->stats();
    same(array_values(array_diff(KEYS, array_keys($stats))), []);
    same($stats['max-job-size'], '65535');
    same($stats['current-connections'], '2');
    $tube = (array) $client->statsTube('php.work');
    same(array_values(array_diff(TUBE_KEYS, array_keys($tube))), []);
    same([plain($tube['name']), $tube['current-jobs-ready']], ['php.work', '1']);
    $found = (array) $client->statsJob($job);
    same(array_values(array_diff(JOB_KEYS, array_keys($found))), []);
    same((string) (int) $found['file'], $found['file']);
    $client->delete($job);
    fails(Exception\ServerException::class, fn () => $client->statsTube('php.nowhere'));
});

part('limits', function () use ($client) {
    $body = str_repeat('z', 65535);
    $job = $client->put($body);
    same($client->peek($job)->getData(), $body);
    $client->delete($job);
    fails(Exception\JobTooBigException::class, fn () => $client->put($body . 'z'));
    fails(Exception\ServerBadFormatException::class, fn () => $client->useTube('php work'));
});

echo "ok all\n";
