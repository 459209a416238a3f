-- A node says that it lives, and learns who else does. KEYS: layout, nodes, addresses. ARGV: node,
-- address (and behind the end of that line its coordinator), lease (us; 0: it leaves), layout version, slots,
-- prefix, uuid for a store that is to be made (empty: none is made), 1: the node is about to start, and where
-- jobs are: 'sql' or 'redis' (none: an older release, which does not say).
--
-- OK, now, until, then layout version, slots, prefix, uuid as they are; then node, address for each that
-- lives. NONE: there is no store here. DIFFERS and the four: the node was set up for another layout. TRUTH: the
-- jobs of this store are elsewhere than this node thinks: it would not see those, and others would not see
-- its own. A store that does not say gets that of the first node that does; and a database that has its
-- uuid is where its jobs are, whatever somebody said before. COORD,
-- address: that one lives and has another coordinator. The two would take slots from each other for ever, so
-- who comes second does not start; one that runs is never refused, for others would take it for dead.

local LAYOUT, NODES, WHERE = KEYS[1], KEYS[2], KEYS[3]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local dec = function(n)
    return string.format('%.0f', n)
end

local is = redis.call('HMGET', LAYOUT, 'version', 'slots', 'prefix', 'uuid', 'truth')
if not is[1] and ARGV[7] == '' then
    return {'NONE'}
elseif not is[1] then
    is = {ARGV[4], ARGV[5], ARGV[6], ARGV[7]}
    redis.call('HSET', LAYOUT, 'version', is[1], 'slots', is[2], 'prefix', is[3], 'uuid', is[4])
elseif is[1] ~= ARGV[4] or is[2] ~= ARGV[5] or is[3] ~= ARGV[6] then
    return {'DIFFERS', is[1], is[2], is[3], is[4]}
end
local truth, own = ARGV[9] or '', ARGV[7] == is[4]
if truth ~= '' and truth ~= is[5] then
    if is[5] and not (truth == 'sql' and own) then
        return {'TRUTH', is[5]}
    elseif truth == 'redis' or own or ARGV[7] == '' then
        redis.call('HSET', LAYOUT, 'truth', truth)
    end
end

local lease = tonumber(ARGV[3])
local old = redis.call('ZRANGE', NODES, '-inf', dec(now - 3600000000), 'BYSCORE', 'LIMIT', 0, 100)
local alive = redis.call('ZRANGE', NODES, '(' .. dec(now), '+inf', 'BYSCORE')
local members, me = {}, false
for _, node in ipairs(alive) do
    me = me or node == ARGV[1]
    if node ~= ARGV[1] then
        members[#members + 1] = node
    end
end
local reply = {'OK', dec(now), dec(now + lease), is[1], is[2], is[3], is[4]}
local where = #members > 0 and redis.call('HMGET', WHERE, unpack(members)) or {}
for i, node in ipairs(members) do
    local mine, other = string.match(ARGV[2], '\n(.*)'), string.match(where[i] or '', '\n(.*)')
    if ARGV[8] == '1' and mine and other and mine ~= other then
        return {'COORD', where[i]}
    end
    reply[#reply + 1], reply[#reply + 2] = node, where[i] or ''
end
if lease > 0 then
    reply[#reply + 1], reply[#reply + 2] = ARGV[1], ARGV[2]
    redis.call('ZADD', NODES, dec(now + lease), ARGV[1])
    redis.call('HSET', WHERE, ARGV[1], ARGV[2])
else
    old[#old + 1] = ARGV[1]
end
if #old > 0 then
    redis.call('ZREM', NODES, unpack(old))
    redis.call('HDEL', WHERE, unpack(old))
end
return reply
