-- Rows of a topic that are due before a time are to be here from now on: `loaded`, which says so, is raised.
-- Whoever does that reads the rows afterwards, and puts their images here (index.lua); in this order, for a
-- row that is committed meanwhile meets the raised mark itself. ARGV[REST]: what time it is by the database,
-- the time up to which, and the epoch under which the node is the slot's owner; else OUSTED, epoch, owner.
--
-- No epoch: the topic is about to be made, so there is no row to be read. Then it is only done if the slot
-- does not know the topic.
--
-- OK, now, versions, '', loaded as it was, as it is, how many wait. It can be repeated without harm.

local KIND = 'l'
local now = tonumber(ARGV[REST])
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
local was = t.loaded or 0
local is = max(was, (epoch ~= '' or not t.loaded) and upto or 0)
local left = call('ZCARD', t.store) + call('ZCARD', t.ready)
local vers = versions(list)
if t.is_new then
    call('HSET', t.conf, 'spread', t.spread, 'order', t.order, 'loaded', dec(is))
elseif is ~= was then
    call('HSET', t.conf, 'loaded', dec(is))
end
return {'OK', hex(now), vers, '', hex(was), hex(is), hex(left)}
