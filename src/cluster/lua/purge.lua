-- Ends jobs of a topic, whatever their state, so many entries at a time. ARGV[REST]: entries to look at;
-- the last id that is meant (empty: all that there are now); where to go on: set, score and member (empty:
-- at the set's beginning).
--
-- OK, now, versions, waiters, last id, set, score, member (where to go on; set empty: all were looked at), how
-- many it were, in hex. A job that changes its set between two calls may be missed: who wants all asks until none is
-- found.

local KIND = 'g'
--==

if kept then
    local reply, rest = recall(kept)
    return unpack_to(reply, rest, 1)
end
local list, why = topics('in_flight')
if not list then
    return why
end
local t, look, last = list[1], tonumber(ARGV[REST]), ARGV[REST + 1]
local set, score, member = ARGV[REST + 2], ARGV[REST + 3], ARGV[REST + 4]
if last == '' then
    last = hex(seq * 1024 + 1023)
end

-- One set after the other, as far as one call goes: so of a topic with few jobs none gets away by changing
-- its set against the walk.
local count, more = 0, nil
repeat
    local key, ids, members = ({s = t.store, r = t.ready, p = t.prep, d = t.dead})[set], nil, nil
    ids, members, more = walk(key, score, member, look)
    if #ids > 0 then
        for i, h in ipairs(call('HMGET', HEAD, unpack(ids))) do
            local j = h and load(t, ids[i], h)
            if not j or j.set ~= set then
                drop_entry(t, key, members[i])
            elseif num(ids[i], 1, 14) <= num(last, 1, 14) then
                forget(j)
                count = count + 1
                t.freed = t.freed or (set == 'p' and t.in_flight)
            end
        end
    end
    look = look - #ids
    if not more then
        set, score, member = ({s = 'r', r = 'p', p = 'd', d = ''})[set], '', ''
    else
        score, member = more, members[#members]
    end
until more or set == '' or look <= 0
local nodes, told = waiters(list)
local vers = versions(list)
local replies = {last, set, score, member, hex(count)}
commit(list, remember(vers, nodes, pack(replies)), told)
return {'OK', hex(now), vers, nodes, unpack(replies)}
