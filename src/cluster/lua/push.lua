-- New jobs. For each: what, tag, key, backoff, body; what = topic (2 hex), on conflict (r, k, e),
-- d or a, delay or time (14), age (14), priority (8), ttr (14), ttl (14), retries (8), flags (2).
-- ARGV[REST]: the highest sequence number that the node has seen in this slot; then its number.
--
-- For each: N id due (new), R id due (replaced); K id header (kept), E id header (exists),
-- X id header (reserved), P (paused).

local done = begin('p')
if done then
    return done
end
local list, why = topics()
if not list then
    return why
end

local seen, slot = tonumber(ARGV[REST]), tonumber(ARGV[REST + 1])
local ms = floor(now / 1000) - 1704067200000 -- since 2024
local seq = tonumber(call('HGET', META, 'seq')) or 0
local first = math.max(seq + 1, ms, seen + 1)
seq = first - 1

-- Whom the keys name now, before anything is changed; later jobs of this call see earlier ones.
local fields, jobs = {}, {}
local holder = {} -- key -> id
for at = REST + 2, #ARGV, 5 do
    if ARGV[at + 2] ~= '' then
        fields[#fields + 1] = list[num(ARGV[at], 1, 2)].name .. '\0' .. ARGV[at + 2]
    end
end
if #fields > 0 then
    local ids, owned = call('HMGET', KEY, unpack(fields)), {}
    for i, id in ipairs(ids) do
        if id then
            holder[fields[i]] = id
            owned[#owned + 1] = id
        end
    end
    if #owned > 0 then
        for i, h in ipairs(call('HMGET', HEAD, unpack(owned))) do
            jobs[owned[i]] = h or nil
        end
    end
end

local function fresh(t, id, at, what)
    local time, age = num(what, 5, 18), num(what, 19, 32)
    local j = {
        id = id, t = t, ver = 1, prio = num(what, 33, 40), attempts = 0, timeouts = 0, releases = 0,
        buries = 0, kicks = 0, why = 0, ttr = num(what, 41, 54), ttl = num(what, 55, 68),
        retries = sub(what, 69, 76), flags = num(what, 77, 78), created = hex(now),
        names = join_names(t.name, ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]),
    }
    if j.ttl == 0 then
        j.ttl = t.ttl
    elseif floor(j.flags / 4) % 2 == 0 then
        j.flags = j.flags + 4 -- its own
    end
    if sub(what, 4, 4) == 'd' then
        j.delay = time
        wait_until(j, base - age + time)
    else
        j.delay = math.max(time - base, 0)
        wait_until(j, math.max(time, base))
    end
    return j
end

local function replace(t, id, at, what)
    local old = type(jobs[id]) == 'table' and jobs[id] or load(t, id, jobs[id])
    settle(old)
    local on = sub(what, 3, 3)
    if on == 'k' then
        return 'K' .. id .. header(old)
    elseif on == 'e' then
        return 'E' .. id .. header(old)
    elseif old.set == 'p' then
        return 'X' .. id .. header(old)
    end
    local j = fresh(t, id, at, what)
    j.ver, j.created = old.ver + 1, old.created
    j.was_key, j.was_member, j.was_score = old.was_key, old.was_member, old.was_score
    j.was_expiry, j.was_set = old.was_expiry, old.was_set
    jobs[id] = j
    j.body = ARGV[at + 4]
    return 'R' .. id .. hex(j.due)
end

local replies, order = {}, {}
for at = REST + 2, #ARGV, 5 do
    local what = ARGV[at]
    local t = list[num(what, 1, 2)]
    local field = ARGV[at + 2] ~= '' and t.name .. '\0' .. ARGV[at + 2]
    local id = field and holder[field]
    if t.into > now then
        replies[#replies + 1] = 'P'
    elseif id and jobs[id] then
        replies[#replies + 1] = replace(t, id, at, what)
        if type(jobs[id]) == 'table' and not jobs[id].listed then
            jobs[id].listed = true
            order[#order + 1] = id
        end
    else
        seq = seq + 1
        id = hex(seq * 1024 + slot)
        local j = fresh(t, id, at, what)
        j.body, j.listed = ARGV[at + 4], true
        jobs[id] = j
        order[#order + 1] = id
        if field then
            holder[field] = id
            push_to(new_keys, KEY, field, id)
        end
        replies[#replies + 1] = 'N' .. id .. hex(j.due)
    end
end

local committed = {}
for _, id in ipairs(order) do
    if not committed[id] then
        committed[id] = true
        keep(jobs[id], jobs[id].body)
    end
end
local nodes, told = waiters(list)
local reply = {'OK', hex(now), versions(list), nodes, unpack(replies)}
if seq >= first then
    call('HSET', META, 'seq', dec(seq))
end
commit('p', list, reply, told)
return reply
