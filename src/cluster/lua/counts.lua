-- How many jobs topics have, by state, and which come first; nothing is written. For each topic one text
-- of hex numbers: ready, urgent (ready, of a priority below 1024), delayed, reserved, dead, due time of the first
-- delayed one, of the oldest ready one, paused until, held until, held how long, how often, (14 each);
-- priority (8), due and id of the ready job that a take would hand out, id of the first delayed one, of
-- the first dead one. 0: there is none.
--
-- What time did to jobs and nobody has written is counted as if it had been done, but of leases that ended and
-- of urgent ones among those that became due the first 64 only.

local got = call('HGET', META, 'uuid')
if not got then
    return {'NOSLOT'}
elseif got ~= ARGV[1] then
    return {'OTHER', got}
end
local list, why = topics('out', 'hold', 'hold_us', 'holds')
if not list then
    return why
end
local till = dec(now)
local NONE = '00000000000000'

local function load_all(t, set, members)
    local ids, jobs = {}, {}
    if #members == 0 then
        return jobs
    end
    for i, member in ipairs(members) do
        ids[i] = sub(member, -14)
    end
    for i, h in ipairs(call('HMGET', HEAD, unpack(ids))) do
        local j = h and load(t, ids[i], h)
        if j and j.set == set then
            settle(j)
            jobs[#jobs + 1] = j
        end
    end
    return jobs
end

local function count(t)
    local n = {
        r = call('ZCARD', t.ready), s = call('ZCOUNT', t.store, '(' .. till, '+inf'),
        p = call('ZCARD', t.prep), d = call('ZCARD', t.dead),
    }
    local due = call('ZCOUNT', t.store, '-inf', till)
    local expired = call('ZCOUNT', t.expiry, '-inf', till)
    local urgent = call('ZCOUNT', t.ready, '-inf', '(1024')
    local ended = load_all(t, 'p', call('ZRANGE', t.prep, '-inf', till, 'BYSCORE', 'LIMIT', 0, 64))
    local best, oldest
    n.r, n.d = n.r + due - expired, n.d + expired

    local function may_be_first(j)
        if j.set == 'r' or (j.set == 's' and j.due <= now) then
            best = (not best or before(j, best)) and j or best
            oldest = math.min(oldest or j.due, j.due)
            return true
        end
    end
    for _, j in ipairs(load_all(t, 'r', call('ZRANGE', t.ready, 0, 0))) do
        may_be_first(j)
    end
    for _, j in ipairs(load_all(t, 's', call('ZRANGE', t.store, '-inf', till, 'BYSCORE', 'LIMIT', 0, 64))) do
        if may_be_first(j) and j.prio < 1024 then
            urgent = urgent + 1
        end
    end
    local delayed = call('ZRANGE', t.store, '(' .. till, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    local soonest = tonumber(delayed[2] or 0)
    for _, j in ipairs(ended) do
        n.p, n[j.set] = n.p - 1, n[j.set] + 1
        if j.set == 's' and (soonest == 0 or j.due < soonest) then
            delayed[1], soonest = j.id, j.due
        end
        if may_be_first(j) and j.prio < 1024 then
            urgent = urgent + 1
        end
    end
    local dead = call('ZRANGE', t.dead, 0, 0)
    return hex(max(n.r, 0)) .. hex(urgent) .. hex(n.s) .. hex(n.p) .. hex(n.d) ..
               hex(soonest) .. hex(oldest or 0) .. hex(t.out or 0) ..
               hex(t.hold or 0) .. hex(t.hold_us or 0) .. hex(t.holds or 0) ..
               (best and fmt('%08x', best.prio) .. hex(best.due) .. best.id or '00000000' .. NONE .. NONE) ..
               (delayed[1] or NONE) .. (dead[1] or NONE)
end

local reply = {'OK', hex(now), versions(list), ''}
for i, t in ipairs(list) do
    reply[4 + i] = count(t)
end
return reply
