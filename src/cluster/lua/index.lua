-- Where a database has the truth, Redis is an index of what is due before long. This puts images of rows
-- into it; they are of rows that were committed. ARGV[REST]: what time it is by the database, how many
-- waiting jobs of a topic there may be here; then for each image: how (1), topic (1), id (14), and
--
--   I header   the row is so. An entry of a newer version stays.
--   M header   the same; but an entry that is of this version already only gets its place in its set
--   F header   whatever the version of the entry is
--   G ver (4)  the row is gone, or dead: an entry that is not newer goes
--
-- Waiting jobs are here if they are due before `loaded` of the topic, which is 0 where there is none; later
-- ones are taken out, or not made. If there are too many, the last ones go, and `loaded` with them.
--
-- Adds memory. Where there is none shed.lua is called instead, with a negative number of jobs.
--
-- OK, now, versions, waiters; for each topic loaded and how many wait; a letter for each image: O it is
-- there, T it is due later than what is here, G gone, V there is a newer one, F there is no room for it. It
-- can be repeated without harm, so it keeps no reply.

local KIND = 'i'
local now, agrees = tonumber(ARGV[REST]), false
--==

local list, why = topics('loaded', 'in_flight')
if not list then
    return why
end
local most, slots_of = math.abs(tonumber(ARGV[REST + 1])), {}
local full = sub(ARGV[REST + 1], 1, 1) == '-'
for i, t in ipairs(list) do
    t.loaded = t.loaded or 0
    t.was_loaded, t.changed, slots_of[i] = t.loaded, 0, t
end

-- What is there of the jobs, before anything is changed. Later images of this call see earlier ones.
local ids, seen, order = {}, {}, {}
for at = REST + 2, #ARGV do
    ids[#ids + 1] = sub(ARGV[at], 3, 16)
end
for i, h in ipairs(#ids > 0 and call('HMGET', HEAD, unpack(ids)) or {}) do
    local id = ids[i]
    if not seen[id] then
        local t = slots_of[string.byte(ARGV[REST + 1 + i], 2)]
        local e = {t = t, old = h and load(t, id, h) or nil}
        e.is, seen[id], order[#order + 1] = e.old, e, e
    end
end

local function waits(j)
    return j ~= nil and (j.set == 's' or j.set == 'r')
end

-- It is so from now on.
local function set(e, j, at)
    if waits(j) and j.due >= e.t.loaded then
        e.is, e.touched = nil, true
        return 'T'
    elseif full and not e.old then
        return 'F'
    end
    e.is, e.touched, e.at = j, true, at
    return 'O'
end

local act = {}

function act.I(e, id, what, at)
    local j = load(e.t, id, sub(what, 17))
    if e.is and e.is.ver > j.ver then
        return 'V'
    end
    return set(e, j, at)
end

function act.M(e, id, what, at)
    local j = load(e.t, id, sub(what, 17))
    if e.is and e.is.ver >= j.ver then
        e.mend = true
        return e.is.ver > j.ver and 'V' or 'O'
    end
    return set(e, j, at)
end

function act.F(e, id, what, at)
    return set(e, load(e.t, id, sub(what, 17)), at)
end

function act.G(e, _, what)
    if e.is and e.is.ver > get('>I4', what, 17) then
        return 'V'
    end
    e.is, e.touched = nil, true
    return 'G'
end

local said = {}
for i, id in ipairs(ids) do
    local what = ARGV[REST + 1 + i]
    said[i] = act[sub(what, 1, 1)](seen[id], id, what, i)
end

-- As many as there may be: the last ones go, of those that are new and those that were there.
local function trim(t, over)
    local last, late = call('ZRANGE', t.store, -over - #order, -1, 'WITHSCORES'), {}
    for i = 1, #last, 2 do
        if not seen[last[i]] then
            late[#late + 1] = {id = last[i], due = tonumber(last[i + 1])}
        end
    end
    for _, e in ipairs(order) do
        if e.t == t and e.touched and waits(e.is) then
            late[#late + 1] = {id = e.is.id, due = e.is.due, e = e}
        end
    end
    table.sort(late, function(a, b)
        if a.due ~= b.due then
            return a.due > b.due
        end
        return a.id > b.id
    end)
    local gone_ids = {}
    for i = 1, math.min(over, #late) do
        local one = late[i]
        t.loaded, t.count = math.min(t.loaded, one.due), t.count - 1
        if one.e then
            said[one.e.at], one.e.is = 'T', nil
        else
            gone_ids[#gone_ids + 1] = one.id
        end
    end
    for i, h in ipairs(#gone_ids > 0 and call('HMGET', HEAD, unpack(gone_ids)) or {}) do
        local j = h and load(t, gone_ids[i], h)
        if j and j.set == 's' then
            forget(j)
        else
            drop_entry(t, t.store, gone_ids[i])
        end
    end
end

for _, e in ipairs(order) do
    if e.touched then
        e.t.changed = e.t.changed + (waits(e.is) and 1 or 0) - (waits(e.old) and 1 or 0)
    end
end
local about = {}
for i, t in ipairs(list) do
    t.count = max(call('ZCARD', t.store) + call('ZCARD', t.ready) + t.changed, 0)
    if t.changed > 0 and t.count > most then
        trim(t, t.count - most)
    end
    about[i] = hex(t.loaded) .. hex(t.count)
end

for _, e in ipairs(order) do
    local j, old, t = e.is, e.old, e.t
    if e.touched and j then
        j.was_set, j.was_expiry = old and old.was_set, old and old.was_expiry
        if old then
            j.was_due, j.was_prio, j.was_at = old.was_due, old.was_prio, old.was_at
        end
        keep(j)
    elseif e.touched and old then
        forget(old)
    elseif e.mend and not e.touched then
        local key, member, score = place(t, j.id, j.set, j.due, j.prio, j.at)
        push_to(t.add, key, dec(score), member)
        if j.was_expiry then
            push_to(t.add, t.expiry, dec(j.was_expiry), j.id)
        end
    end
    if e.touched and old and old.set == 'p' and not (j and j.set == 'p') then
        t.freed = t.freed or t.in_flight
    end
end

for _, t in ipairs(list) do
    if t.is_new then
        look_at(t, t.loaded == 0 and now or now + DAY) -- its owner loads it
    end
end
widen(heads)
local nodes, told = waiters(list)
local vers = versions(list)
for _, t in ipairs(list) do
    if t.is_new then
        call('HSET', t.conf, 'loaded', dec(t.loaded))
    elseif t.loaded ~= t.was_loaded then
        call('HSET', t.conf, 'loaded', dec(t.loaded))
    end
end
commit(list, nil, told)
return {'OK', hex(now), vers, nodes, table.concat(about), table.concat(said)}
