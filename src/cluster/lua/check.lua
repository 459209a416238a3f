-- Is this slot with another life of a server than it was (common.lua, `life`)? KEYS: meta. ARGV: uuid, the
-- highest sequence number the node has seen, its wall clock (us), 1: the store is being made.
--
-- Then it may have forgotten ids that somebody was told, so they are passed over. What the node believes
-- does not count: two nodes that were told at different times would take turns, and each turn is a jump.
--
-- OK, same or jumped or new, epoch, owner, the life; or OTHER, uuid.

local META = KEYS[1]
local got = redis.call('HMGET', META, 'uuid', 'run', 'seq', 'epoch', 'owner')
local run = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') or ''
local seen = tonumber(ARGV[2])
local time = redis.call('TIME')
local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - 1704067200000
local wall = math.floor(tonumber(ARGV[3]) / 1000) - 1704067200000

if got[1] and got[1] ~= ARGV[1] then
    return {'OTHER', got[1]}
elseif got[1] and got[2] == run then
    return {'OK', 'same', got[4] or '0', got[5] or '', run}
end
-- Not always as far: two failovers in a row may both come back to the same state, and the ids that were
-- given between them are forgotten, too. A jump that grows by 1024 with each millisecond of the callers'
-- clocks (those of servers may differ, and one is another now) does not land among those.
local jump = (got[1] and 1048576 or 1073741824) + 1024 * (wall % 1048576)
if not got[1] and ARGV[4] == '1' then
    jump = 0
end
local seq = math.max(tonumber(got[3]) or 0, math.min(ms, wall + 5000), seen)
if seq + jump > 4398046511104 then
    jump = 1048576 -- half of all ids are used up by thousands of jumps: from here on by small ones
end
redis.call('HSET', META, 'uuid', ARGV[1], 'run', run, 'seq', string.format('%.0f', seq + jump))
return {'OK', got[1] and 'jumped' or 'new', got[4] or '0', got[5] or '', run}
