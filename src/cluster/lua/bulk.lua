-- Changes many jobs of a topic, each of which must still be one of those that are meant. ARGV[REST]: what (C
-- cancel, S shift, K kick); of a shift: by how many microseconds, or the time to shift to (0: none is
-- given); states that are meant (2 delayed, 4 ready, 8 reserved, 16 dead); due from, due to (0: no end); tag
-- (empty: any); ids, 14 digits each, none twice.
--
-- OK, now, versions, waiters, the last id that there is, then a letter for each: O done, P it is meant but its state
-- is in the way, N it is gone or not meant any more.

local KIND = 'm'
--==

if kept then
    local reply, rest = recall(kept)
    return unpack_to(reply, rest, 1)
end
local list, why = topics('in_flight', 'dead_keep')
if not list then
    return why
end
local t, what, by, to = list[1], ARGV[REST], tonumber(ARGV[REST + 1]), tonumber(ARGV[REST + 2])
local states, due_from, due_to = tonumber(ARGV[REST + 3]), tonumber(ARGV[REST + 4]), tonumber(ARGV[REST + 5])
local tag, ids = ARGV[REST + 6], {}
for at = 1, #ARGV[REST + 7], 14 do
    ids[#ids + 1] = sub(ARGV[REST + 7], at, at + 13)
end

local function is_meant(j)
    local bit = ({s = j.due > now and 2 or 4, r = 4, p = 8, d = 16})[j.set]
    return states % (2 * bit) >= bit and j.due >= due_from and (due_to == 0 or j.due < due_to) and
               (tag == '' or texts(j) == tag)
end

-- The past means now; but one that is due already does not become due later when it is to be sooner.
local function shifted(due)
    if to > 0 then
        return max(to, base)
    elseif by < 0 and due + by <= base then
        return math.min(due, base)
    end
    return max(due + by, base)
end

local act = {}

function act.C(j)
    forget(j)
    t.freed = t.freed or (j.was_set == 'p' and t.in_flight)
    return 'O'
end

function act.S(j)
    local due = shifted(j.due)
    if j.set == 'd' or due > base + 4320432000000000 then -- 137 years
        return 'P'
    end
    j.ver = j.ver + 1
    wait_until(j, due)
    keep(j)
    return 'O'
end

function act.K(j)
    if j.set ~= 'd' and not (j.set == 's' and j.due > now) then
        return 'P'
    end
    j.attempts = j.set == 'd' and 0 or j.attempts
    open(j)
    j.ver, j.kicks, j.why = j.ver + 1, j.kicks + 1, 0
    wait_until(j, now)
    keep(j)
    return 'O'
end

local said = {}
if #ids > 0 then
    for i, h in ipairs(call('HMGET', HEAD, unpack(ids))) do
        local j = h and load(t, ids[i], h)
        if j then
            settle(j)
        end
        if not j or not is_meant(j) then
            said[i] = 'N'
        else
            said[i] = j.set == 'p' and 'P' or act[what](j)
        end
    end
end
local nodes, told = waiters(list)
local vers = versions(list)
local replies = {hex(seq * 1024 + 1023), table.concat(said)}
commit(list, remember(vers, nodes, pack(replies)), told)
return {'OK', hex(now), vers, nodes, unpack(replies)}
