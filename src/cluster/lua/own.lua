-- Makes a node the owner of a slot's housekeeping. KEYS: meta. ARGV: uuid, run, node, the epoch that it
-- knows. OK, epoch; STALE, epoch, owner: somebody was quicker. A repeat by the owner is answered OK.

local META = KEYS[1]
local got = redis.call('HMGET', META, 'uuid', 'run', 'epoch', 'owner')
if not got[1] then
    return {'NOSLOT'}
elseif got[1] ~= ARGV[1] then
    return {'OTHER', got[1]}
elseif got[2] ~= ARGV[2] then
    return {'CHECK'}
end
local epoch = tonumber(got[3]) or 0
if got[4] == ARGV[3] then
    return {'OK', string.format('%.0f', epoch)}
elseif epoch ~= tonumber(ARGV[4]) then
    return {'STALE', string.format('%.0f', epoch), got[4] or ''}
end
epoch = epoch + 1
redis.call('HSET', META, 'epoch', string.format('%.0f', epoch), 'owner', ARGV[3])
return {'OK', string.format('%.0f', epoch)}
