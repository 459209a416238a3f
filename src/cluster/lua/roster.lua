-- Names of schedules, and where they are. KEYS: roster (name -> number, stamp, number before), order (by number).
-- ARGV: what, name, stamp; a number is one that only grows * 1024 + the slot.
--
--     p   slot: it will be there          OK, number, number before (in another slot: to be taken from there), or
--                                         14 zeros
--     c   number: it is there             OK; CHANGED: somebody has put it elsewhere meanwhile
--     d   what stands there: it is gone   OK, also if something else stands there by now
--     h   slot: its owner has met it      OK, and its name is known again if a failover had undone that;
--                                         CHANGED: it belongs elsewhere
--
-- Each change of a schedule says its stamp before and after, so that an end that was begun before does not take out
-- the name of one that has been made since. A repeat is answered as the first time.

local ROSTER, ORDER, what, name, stamp = KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3]
local NONE = '00000000000000'
local is = redis.call('HGET', ROSTER, name)

if what == 'd' then
    if is == ARGV[4] then
        redis.call('HDEL', ROSTER, name)
        redis.call('ZREM', ORDER, name)
    end
    return {'OK'}
end

local number = is and string.sub(is, 1, 14)
local old = is and string.sub(is, 45) or NONE
if what == 'c' then
    if number and number ~= ARGV[4] then
        return {'CHANGED'}
    end
    redis.call('HSET', ROSTER, name, ARGV[4] .. stamp .. NONE)
    redis.call('ZADD', ORDER, string.format('%d', tonumber(ARGV[4], 16)), name)
    return {'OK'}
end
if what == 'h' and number then
    local is_here = tonumber(number, 16) % 1024 == tonumber(ARGV[4])
    local was_here = old ~= NONE and tonumber(old, 16) % 1024 == tonumber(ARGV[4])
    return {(is_here or was_here) and 'OK' or 'CHANGED'} -- a move that is under way ends it here
end
if not number or tonumber(number, 16) % 1024 ~= tonumber(ARGV[4]) then
    local time = redis.call('TIME')
    local ms = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) - 1704067200000
    local last = redis.call('ZRANGE', ORDER, -1, -1, 'WITHSCORES')
    local seq = math.max(ms, last[2] and math.floor(tonumber(last[2]) / 1024) + 1 or 0)
    old = number or NONE
    number = string.format('%014x', seq * 1024 + tonumber(ARGV[4]))
end
redis.call('HSET', ROSTER, name, number .. stamp .. old)
redis.call('ZADD', ORDER, string.format('%d', tonumber(number, 16)), name)
return {'OK', number, old}
