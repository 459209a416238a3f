-- How a slot is. KEYS: meta, agenda. Writes nothing.
-- OK, now, epoch, owner (empty: none yet), topics on the agenda, the first one, when it is to be looked after.

local got = redis.call('HMGET', KEYS[1], 'epoch', 'owner')
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local time = redis.call('TIME')
return {'OK', string.format('%.0f', tonumber(time[1]) * 1000000 + tonumber(time[2])), got[1] or '0', got[2] or '',
    string.format('%.0f', redis.call('ZCARD', KEYS[2])), first[1] or '', first[2] or ''}
