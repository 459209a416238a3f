-- Changes jobs by id. For each: what, and for E tag and body, too; what = kind (1), topic (1), id (14
-- digits), lease (8 bytes), and behind that as text, numbers in hex. Or for several acks under one lease:
-- a, topic (1), how many (1), lease (8 bytes); and then their ids.
--
--     A ack       -
--     C cancel    1: reserved or not
--     R release   d delay (14) | b; k | priority (8)      b: by the backoff, k: the priority it has
--     G give back -                                       as if it had never been handed out
--     D drop      -                                       its connection is gone
--     B bury      k | priority (8)
--     V bury      the same                                without a lease: delayed or ready
--     T touch     ttr (14), 0: its own, but no end before the old one;
--                 perhaps: the lease is at least so long (14)
--     F fire      -
--     K kick      1: of the beanstalk port
--     H reserve   ttr (14, 0: its own), held (1)          whatever its state; the lease is the new one
--     E edit      mask (2: due 1, priority 2, ttr 4, body 8, ttl 16, tag 32), d | a, time (14), age (14),
--                 priority (8), ttr (14), ttl (14)
--
-- For each: O and the header, or for A and C the set it was in (s, r, p, d); D header: it died of that
-- release; N: there is none; L header: the lease is lost; S header: another state is in the way; F: more bytes than the
-- topic may have. One for several: it is the same for all.

local KIND = sub(ARGV[4], 1, 1) == '1' and 'E' or 'e' -- two of a node may be under way
--== acks of jobs of one topic without a limit in flight, and all of them hold

if not kept and TOPICS == 1 then
    local c = call('HMGET', KEYS[10], 'spread', 'pv', 'in_flight', 'bytes')
    local plain, ids, leases, n = c[1] == ARGV[8] and not c[3], {}, {}, 0
    local bytes = tonumber(c[4]) or 0
    local at, last = REST, '' -- ids grow, so none is there twice
    while plain and at <= #ARGV do
        local kind, _, id, lease = sub(ARGV[at], 1, 1)
        if kind == 'A' then
            _, _, id, lease = get('>c1Bc14c8', ARGV[at])
            plain, last = id > last, id
            n = n + 1
            ids[n], leases[n] = id, lease
        elseif kind == 'a' then
            _, lease = get('>Bc8', ARGV[at], 3)
            local till = at + string.byte(ARGV[at], 3)
            while at < till do
                at, n, id = at + 1, n + 1, ARGV[at + 1]
                plain, last = plain and id > last, id
                ids[n], leases[n] = id, lease
            end
        else
            plain = false
        end
        at = at + 1
    end
    local hs = plain and call('HMGET', HEAD, unpack(ids)) or {}
    local was, lease, size -- a header that was looked at: jobs of one push have the same one
    for i = 1, plain and n or 0 do
        local h = hs[i]
        if h ~= was or leases[i] ~= lease then
            was, lease = h, leases[i]
            plain = h and sub(h, 1, 1) == 'p' and sub(h, 29, 36) == lease
            if not plain then
                break
            end
            local flags, _, _, _, _, ends, _, _, _, bytes_of = get('>BI4I4I7I4I7c8I7I7I3', h, 2)
            plain, size = flags % 64 < 32 and ends > now, bytes_of
            if not plain then
                break
            end
        end
        bytes = bytes - size
    end
    if plain then
        local vers = c[2] and fmt('%08x', tonumber(c[2])) or '00000000'
        call('HSET', META, KIND .. NODE, OP .. put('>I2I2', 8, 0) .. vers .. put('>I2I2', 1, 2) .. 'Op')
        call('HSET', KEYS[10], 'bytes', fmt('%d', max(bytes, 0)))
        call('ZREM', KEYS[8], unpack(ids))
        call('HDEL', HEAD, unpack(ids))
        call('HDEL', BODY, unpack(ids))
        return {'OK', fmt('%014x', now), vers, '', 'Op'}
    end
end
--== all others

if kept then
    local reply, rest = recall(kept)
    return unpack_to(reply, rest, 1)
end
local list, why = topics('dead_keep', 'dead_max', 'in_flight', 'max_bytes')
if not list then
    return why
end

local kinds, tops, ids, leases, places, at = {}, {}, {}, {}, {}, REST
while at <= #ARGV do
    local n = #ids + 1
    if sub(ARGV[at], 1, 1) == 'a' then
        local topic, count, lease = get('>BBc8', ARGV[at], 2)
        for i = 1, count do
            kinds[n], tops[n], ids[n], leases[n], places[n], n = 'A', topic, ARGV[at + i], lease, at, n + 1
        end
        at = at + 1 + count
    else
        kinds[n], tops[n], ids[n], leases[n] = get('>c1Bc14c8', ARGV[at])
        places[n] = at
        at = at + (kinds[n] == 'E' and 3 or 1)
    end
end
local hs = call('HMGET', HEAD, unpack(ids))

local function priority(j, what, from)
    if sub(what, from, from) ~= 'k' then
        j.prio = num(what, from, from + 7)
    end
end

local act = {}

function act.A(j)
    j.gone = true
    return 'Op'
end

function act.C(j, what)
    if j.set == 'p' and sub(what, 25, 25) ~= '1' then
        return 'S' .. header(j)
    end
    j.gone = true
    local ready = j.set == 's' and j.due <= now
    return 'O' .. (ready and 'r' or j.set)
end

function act.R(j, what)
    open(j).releases = j.releases + 1
    if sub(what, 25, 25) == 'd' then
        priority(j, what, 40)
        retire(j, base, num(what, 26, 39))
    else
        priority(j, what, 26)
        retire(j, base)
    end
    return (j.set == 'd' and 'D' or 'O') .. header(j)
end

function act.G(j)
    j.ver, j.attempts = j.ver + 1, max(j.attempts - 1, 0)
    wait_until(j, j.due)
    return 'O' .. header(j)
end

function act.D(j)
    leave(j)
    return (j.set == 'd' and 'D' or 'O') .. header(j)
end

function act.V(j, what)
    if j.set == 'p' or j.set == 'd' then
        return 'S' .. header(j)
    end
    return act.B(j, what)
end

function act.B(j, what)
    priority(j, what, 25)
    open(j).buries = j.buries + 1
    j.ver = j.ver + 1
    die(j, WHY_BURIED)
    return 'O' .. header(j)
end

function act.T(j, what)
    local ttr, least = num(what, 25, 38), 0
    if ttr == 0 then -- a lease may have been asked for that is longer than the job's own
        ttr, least = open(j).ttr > 0 and j.ttr or 60000000, j.at
    end
    j.ver, j.at = j.ver + 1, max(least, base + max(ttr, num(what, 39, 52) or 0))
    return 'O' .. header(j)
end

function act.F(j)
    if not (j.set == 's' and j.due > now) then
        return 'S' .. header(j)
    end
    j.ver, open(j).delay = j.ver + 1, 0
    wait_until(j, now)
    return 'O' .. header(j)
end

function act.K(j, what)
    local delayed = j.set == 's' and j.due > now
    if j.set ~= 'd' and not delayed then
        return 'S' .. header(j)
    end
    -- beanstalkd goes on counting; but one that has used up its attempts would die at once.
    if j.set == 'd' and (sub(what, 25, 25) ~= '1' or open(j).why == WHY_RETRIES) then
        j.attempts = 0
    end
    open(j)
    j.ver, j.kicks, j.why = j.ver + 1, j.kicks + 1, 0
    wait_until(j, now)
    return 'O' .. header(j)
end

function act.H(j, what)
    if j.set == 'p' then
        return 'S' .. header(j)
    end
    local ttr = num(what, 25, 38)
    if ttr == 0 then
        ttr = open(j).ttr > 0 and j.ttr or 60000000
    end
    j.ver, j.attempts, open(j).why, j.due = j.ver + 1, j.attempts + 1, 0, math.min(j.due, now)
    j.set, j.lease, j.at = 'p', sub(what, 17, 24), base + ttr
    j.flags = j.flags - j.flags % 4 + j.flags % 2 + (sub(what, 39, 39) == '1' and 2 or 0)
    return 'O' .. header(j)
end

function act.E(j, what, tag, body)
    local mask = num(what, 25, 26)
    local function has(bit)
        return mask % (2 * bit) >= bit
    end
    if j.set == 'p' or j.set == 'd' then
        return 'S' .. header(j)
    end
    local old, key, text, plan = texts(open(j))
    if has(8) and is_heavy(j.t, #body, j.size) then
        return 'F'
    end
    j.ver = j.ver + 1
    if has(2) then
        j.prio = num(what, 56, 63)
    end
    if has(4) then
        j.ttr = num(what, 64, 77)
    end
    if has(16) then
        j.ttl = num(what, 78, 91)
    end
    if has(32) and tag ~= old then
        set_texts(j, tag, key, text, plan)
    end
    if has(8) then
        j.body, j.was_size, j.size = body, j.was_size or j.size, #body
    end
    if has(1) then
        local due
        due, j.delay = due_of(sub(what, 27, 27), num(what, 28, 41), num(what, 42, 55), base)
        wait_until(j, due)
    end
    return 'O' .. header(j)
end

local LEASED = {A = true, R = true, G = true, D = true, B = true, T = true}
local jobs, order, replies = {}, {}, {}
for i, id in ipairs(ids) do
    local j, kind = jobs[id], kinds[i]
    if not j and hs[i] then
        j = load(list[tops[i]], id, hs[i])
        if j.set == 'p' or j.flags >= 64 then
            settle(j)
        end
        jobs[id], order[#order + 1] = j, j
    end
    if not j or j.gone then
        replies[i] = 'N'
    elseif LEASED[kind] and (j.set ~= 'p' or j.lease ~= leases[i]) then
        replies[i] = 'L' .. header(j)
    else
        replies[i] = act[kind](j, ARGV[places[i]], ARGV[places[i] + 1], ARGV[places[i] + 2])
    end
end

for _, j in ipairs(order) do
    if j.was_set == 'p' and j.t.in_flight and (j.gone or j.set ~= 'p') then
        j.t.freed = true
    end
    if j.gone then
        forget(j)
    elseif j.ver ~= j.was_ver then
        keep(j, j.body)
    end
end
for _, t in ipairs(list) do
    trim(t)
end
local nodes, told = waiters(list)
local vers = versions(list)
commit(list, remember(vers, nodes, pack(replies)), told)
return {'OK', hex(now), vers, nodes, unpack(replies)}
