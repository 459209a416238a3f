-- A node is dead: jobs that its connections held are to be had again, as if these had been closed.
-- ARGV[REST]: entries to look at; the first four bytes of the node's name, with which its leases begin;
-- where to go on: score and member of prep (empty: at its beginning).
--
-- OK, now, versions, waiters, score, member (where to go on; empty: all were looked at), how many it were, in hex.

local KIND = 'o'
--==

if kept then
    local reply, rest = recall(kept)
    return unpack_to(reply, rest, 1)
elseif clock_is_off() then
    return {'CLOCK', hex(now)}
end
local list, why = topics('in_flight', 'dead_keep', 'dead_max')
if not list then
    return why
end
local t, look, name = list[1], tonumber(ARGV[REST]), ARGV[REST + 1]
local ids, _, more = walk(t.prep, ARGV[REST + 2], ARGV[REST + 3], look)
local count = 0
if #ids > 0 then
    for i, h in ipairs(call('HMGET', HEAD, unpack(ids))) do
        local j = h and load(t, ids[i], h)
        if not j or j.set ~= 'p' then
            drop_entry(t, t.prep, ids[i])
        elseif j.flags % 4 >= 2 and sub(j.lease, 1, 4) == name then
            leave(j)
            keep(j)
            count = count + 1
            t.freed = t.freed or t.in_flight
        end
    end
end
trim(t)
local nodes, told = waiters(list)
local vers = versions(list)
local replies = {more or '', more and ids[#ids] or '', hex(count)}
commit(list, remember(vers, nodes, pack(replies)), told)
return {'OK', hex(now), vers, nodes, unpack(replies)}
