-- Adds memory.
-- A topic in the list of all. KEYS: the list; topics that deliver. ARGV: name, k (stays without jobs), - or g (is
-- gone); then
-- to change its settings: the version that is known, the settings, and the highest version that a slot
-- has; 1: it delivers. Without: it is in the list.
--
-- What stands there: version (8 hex digits), k or - or g or f, settings. OK and that, as it is now; CHANGED
-- and that: the version is another one. A repeat is answered as the first time.
--
-- To forget one without settings: f and the node's name marks it (NO: it has settings), and if that is
-- still there, x and the name takes it out. Whoever enters the topic takes the mark away.

local LIST, name, flag = KEYS[1], ARGV[1], ARGV[2]
local is = redis.call('HGET', LIST, name)

if flag == 'f' then
    if is and is ~= '00000000-' and string.sub(is, 1, 9) ~= '00000000f' then
        return {'NO', is}
    end
    if is then
        redis.call('HSET', LIST, name, '00000000f' .. ARGV[3])
    end
    return {'OK', ''}
elseif flag == 'x' then
    if is == '00000000f' .. ARGV[3] then
        redis.call('HDEL', LIST, name)
    end
    return {'OK', ''}
end
if is and string.sub(is, 9, 9) == 'f' then
    is = '00000000g'
end
if not ARGV[3] then
    local old = is and string.sub(is, 9, 9) or 'g'
    if old == 'g' or (old == '-' and flag == 'k') then
        is = (is and string.sub(is, 1, 8) or '00000000') .. flag .. (is and string.sub(is, 10) or '')
        redis.call('HSET', LIST, name, is)
    end
    return {'OK', is}
end
local version = is and tonumber(string.sub(is, 1, 8), 16) or 0
if is and string.sub(is, 9) == flag .. ARGV[4] and version > tonumber(ARGV[3]) then
    return {'OK', is}
elseif version ~= tonumber(ARGV[3]) then
    return {'CHANGED', is or '00000000-'}
end
-- Above those of the slots, and by the clock, so that a version which a failover undid here, but not
-- there, is not given again: they would take the new settings for the old ones.
version = math.max(version, tonumber(ARGV[5]), tonumber(redis.call('TIME')[1]) - 1704067200) + 1
is = string.format('%08x', version) .. flag .. ARGV[4]
redis.call('HSET', LIST, name, is)
if ARGV[6] == '1' then
    redis.call('HSET', KEYS[2], name, '')
else
    redis.call('HDEL', KEYS[2], name)
end
return {'OK', is}
