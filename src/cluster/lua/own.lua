-- Makes a node the owner of a slot's housekeeping. KEYS: meta. ARGV: uuid, node, the epoch that it knows; and
-- where a database has the truth, the epoch that it gave the node: an older one, or that of another, is stale.
-- OK, epoch; STALE, epoch, owner: somebody was quicker. A repeat by the owner is answered OK.

local META = KEYS[1]
local got = redis.call('HMGET', META, 'uuid', 'epoch', 'owner')
if not got[1] then
    return {'NOSLOT'}
elseif got[1] ~= ARGV[1] then
    return {'OTHER', got[1]}
end
local epoch, given = tonumber(got[2]) or 0, tonumber(ARGV[4])
if given then
    if given < epoch or (given == epoch and got[3] ~= ARGV[2]) then
        return {'STALE', string.format('%.0f', epoch), got[3] or ''}
    end
    epoch = given - 1
elseif got[3] == ARGV[2] then
    return {'OK', string.format('%.0f', epoch)}
elseif epoch ~= tonumber(ARGV[3]) then
    return {'STALE', string.format('%.0f', epoch), got[3] or ''}
end
epoch = epoch + 1
redis.call('HSET', META, 'epoch', string.format('%.0f', epoch), 'owner', ARGV[2])
return {'OK', string.format('%.0f', epoch)}
