-- What time does to the jobs of one topic: leases that ran out, jobs that expired, dead ones that
-- were kept long enough. At most so many of each as ARGV[REST] says. ARGV[REST + 1]: a topic that has no
-- jobs, settings and waiters for so long (us) may be forgotten; 0: not this one.
-- Only the slot's owner does this, under the epoch in ARGV[REST + 2] (none: whoever it is); else OUSTED, epoch,
-- owner, and nothing is done: an equal epoch of another owner is no better, as a failover can undo a change.
--
-- OK, now, versions, waiters, next (when it must be looked at again, or empty), more (1: at once), how
-- many ran out, expired, were dropped, may be forgotten (1). It can be repeated without harm, so it keeps no reply.

local KIND = 'h'
--==

if clock_is_off() then
    return {'CLOCK', hex(now)}
end
if ARGV[REST + 2] then
    local is = call('HMGET', META, 'epoch', 'owner')
    if is[2] ~= NODE or is[1] ~= ARGV[REST + 2] then
        return {'OUSTED', is[1] or '0', is[2] or ''}
    end
end
local list, why = topics('in_flight', 'dead_keep', 'dead_max', 'idle', 'hold')
if not list then
    return why
end
local t, most = list[1], tonumber(ARGV[REST])
local ran_out, expired, dropped = 0, 0, 0
local seen = {}

local function meet(key, members, act)
    if #members == 0 then
        return 0
    end
    local count = 0
    for i, h in ipairs(call('HMGET', HEAD, unpack(members))) do
        local id = members[i]
        local j = h and not seen[id] and load(t, id, h)
        if j then
            if act(j) then
                seen[id] = true
                count = count + 1
            end
        elseif not h then
            drop_entry(t, key, id)
        end
    end
    return count
end

local function until_now(key, upto, count)
    return call('ZRANGE', key, '-inf', dec(upto), 'BYSCORE', 'LIMIT', 0, count)
end

ran_out = meet(t.prep, until_now(t.prep, now, most), function(j)
    if j.set ~= 'p' then
        drop_entry(t, t.prep, j.id)
        return false
    end
    settle(j)
    keep(j)
    return true
end)
expired = meet(t.expiry, until_now(t.expiry, now, most), function(j)
    if not j.was_expiry then
        drop_entry(t, t.expiry, j.id)
        return false
    end
    settle(j)
    if j.set == 'd' then
        keep(j)
    end
    return j.set == 'd'
end)

local function drop_dead(j)
    if j.set ~= 'd' then
        drop_entry(t, t.dead, j.id)
        return false
    end
    forget(j)
    return true
end
if t.dead_keep then
    dropped = meet(t.dead, until_now(t.dead, now - t.dead_keep, most), drop_dead)
end
local over = 0
if t.dead_max then
    -- Of those that die now none can go before it stands there: then it is looked at again at once.
    over = call('ZCARD', t.dead) + (t.died or 0) - dropped - t.dead_max
    if over > 0 then
        local drops = meet(t.dead, call('ZRANGE', t.dead, 0, math.min(over, most) + dropped - 1), drop_dead)
        dropped, over = dropped + drops, over - drops
    end
end
if t.in_flight and ran_out > 0 then
    t.freed = true
end

-- When the next of these things happens, as far as it was not done here.
local nxt
local function sooner(at)
    if at and (not nxt or at < nxt) then
        nxt = at
    end
end
local function first_after(key, past, plus)
    local head = call('ZRANGE', key, '(' .. dec(past), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    sooner(head[2] and tonumber(head[2]) + plus)
end
first_after(t.prep, now, 0)
first_after(t.expiry, now, 0)
if t.dead_keep then
    first_after(t.dead, now - t.dead_keep, t.dead_keep)
end
sooner(t.look)
local more = (ran_out == most or expired == most or dropped >= most or over > 0) and '1' or '0'
local nodes, told = waiters(list)
local stays = not t.is_new or is_first(t)
t.look = nil
if more == '1' then
    nxt = now
end

-- Since when nobody needs it, and when to look at that again.
local after, gone, idle = tonumber(ARGV[REST + 1]), '0', t.idle or 0
if after > 0 and not t.is_new and t.pv == '0' then
    local since = 0
    if not nxt and (t.hold or 0) <= now and
        call('ZCARD', t.store) + call('ZCARD', t.ready) + call('ZCARD', t.prep) + call('ZCARD', t.dead) == 0 and
        #call('ZRANGE', t.wait, dec(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1) == 0 then
        since = idle > 0 and idle or now
    end
    if since ~= idle then
        call('HSET', t.conf, 'idle', dec(since))
    end
    if since > 0 and since + after <= now then
        gone, nxt = '1', now + 60000000
    else
        nxt = nxt or (since > 0 and since + after) or now + 24 * after
    end
end
-- A topic that is there stays on the agenda: an empty one is hardly ever looked at.
if nxt or stays then
    call('ZADD', AGENDA, dec(nxt or now + DAY), t.name)
end
commit(list, nil, told)
if not nxt and not stays then
    call('ZREM', AGENDA, t.name)
end
return {'OK', hex(now), versions(list), nodes, nxt and hex(nxt) or '', more, dec(ran_out),
        dec(expired), dec(dropped), gone}
