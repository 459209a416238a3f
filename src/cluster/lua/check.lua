-- Before a node first uses a slot over a connection. KEYS: meta. ARGV: uuid, run (what the server says
-- of itself), node, highest sequence number the node has seen, 1: the store is being made.
--
-- The server is another one, or another life of the same: it may have forgotten ids that somebody was
-- told, so they are passed over. The run id alone would not do: a server that was demoted, caught up and
-- promoted again has the old one, but another replication id.
--
-- OK, epoch, owner, or OTHER, uuid. The third: same, jumped, new.

local META = KEYS[1]
local got = redis.call('HMGET', META, 'uuid', 'run', 'seq', 'epoch', 'owner')
local seen = tonumber(ARGV[4])
local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - 1704067200000

if got[1] and got[1] ~= ARGV[1] then
    return {'OTHER', got[1]}
elseif got[1] and got[2] == ARGV[2] then
    return {'OK', 'same', got[4] or '0', got[5] or ''}
end
-- Not always as far: two failovers in a row may both come back to the same state, and the ids that were
-- given between them are forgotten, too. A jump that grows by 1024 with each millisecond never lands
-- among those, below a million ids a second.
local jump = (got[1] and 1048576 or 1073741824) + 1024 * (ms % 1048576)
if not got[1] and ARGV[5] == '1' then
    jump = 0
end
local seq = math.max(tonumber(got[3]) or 0, ms, seen) + jump
redis.call('HSET', META, 'uuid', ARGV[1], 'run', ARGV[2], 'seq', string.format('%.0f', seq))
return {'OK', got[1] and 'jumped' or 'new', got[4] or '0', got[5] or ''}
