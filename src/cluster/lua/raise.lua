-- Rows of a topic that are due before a time are to be here from now on: `loaded`, which says so, is raised.
-- Whoever does that reads the rows afterwards, and puts their images here (index.lua); in this order, for a
-- row that is committed meanwhile meets the raised mark itself. ARGV[REST]: what time it is by the database,
-- the time up to which, and the epoch under which the node is the slot's owner; else OUSTED, epoch, owner.
--
-- It fixes neither spread nor order: a topic that somebody waits for may not be made yet, and one that has
-- settings and no job may get others.
--
-- No epoch: the topic is about to be made, so there is no row to be read. Then it is only done if the slot
-- does not know the topic.
--
-- OK, now, versions, '', loaded as it was, as it is, how many wait. A repeat is told what the first one was:
-- whoever reads rows must know where it began; and one that comes late must not raise once more what a full
-- set has lowered since (index.lua), as nobody would read those rows. What is kept of the answer: both times.

local KIND = 'l'
local now, agrees = tonumber(ARGV[REST]), false
--==

assert(slot_is) -- of this store, and with a life of the server that the node knows
local upto, epoch = tonumber(ARGV[REST + 1]), ARGV[REST + 2]
if epoch ~= '' then
    local is = call('HMGET', META, 'epoch', 'owner')
    if is[2] ~= NODE or is[1] ~= epoch then
        return {'OUSTED', is[1] or '0', is[2] or ''}
    end
end
local list, why = topics('loaded')
if not list then
    return why
end
local t = list[1]
if kept then
    local reply, rest = recall(kept)
    reply[5], reply[6] = sub(rest, 1, 14), hex(math.min(num(rest, 15, 28), t.loaded or 0))
    reply[7] = hex(call('ZCARD', t.store) + call('ZCARD', t.ready))
    return reply
end
local was = t.loaded or 0
local is = max(was, (epoch ~= '' or not t.loaded) and upto or 0)
local left = call('ZCARD', t.store) + call('ZCARD', t.ready)
local vers = versions(list)
if is ~= was or not t.loaded then
    call('HSET', t.conf, 'loaded', dec(is))
end
commit(list, remember(vers, '', hex(was) .. hex(is)), {})
return {'OK', hex(now), vers, '', hex(was), hex(is), hex(left)}
