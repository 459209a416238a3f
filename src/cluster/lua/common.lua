-- What every script of a slot begins with: tools/make-lua puts this in front of it. See
-- doc/cluster.md for keys, header and replies.
--
-- A script reads all that it needs, decides on jobs in tables, and then commits: first what is
-- added, then what is removed, and no key is touched after a remove that may have emptied it.
-- While Redis moves a hash slot, a key that vanishes inside a script makes the next command on it
-- fail, and the first half would stay.
--
-- KEYS: meta, headers, bodies, keys, agenda; then seven for each topic.
-- ARGV: uuid, run, node, op, wall us, number of topics; then name, spread, order for each topic.

local call, sub, fmt, floor = redis.call, string.sub, string.format, math.floor
local META, HEAD, BODY, KEY, AGENDA = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local NODE, OP = ARGV[3], ARGV[4]
local TOPICS = tonumber(ARGV[6])
local REST = 7 + 3 * TOPICS -- where the script's own arguments begin
local NO_LEASE = '0000000000000000'
local WHY_EXPIRED, WHY_BURIED, WHY_RETRIES = 3, 4, 5

local clock = call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local base = now -- new due times count from here: never behind a time that was seen before
local tmax = 0

-- Lua prints numbers with 14 digits: ids and times leave as hex, or by %.0f.
local function hex(n)
    return fmt('%014x', n)
end

local function num(s, from, to)
    return tonumber(sub(s, from, to), 16)
end

local function dec(n)
    return fmt('%.0f', n)
end

-- Strings one behind the other, each with its length: what is kept of a reply.
local function pack(list)
    local out = {}
    for i, s in ipairs(list) do
        out[i] = #s .. ':' .. s
    end
    return table.concat(out)
end

local function unpack_from(s, at)
    local list = {}
    while at <= #s do
        local colon = string.find(s, ':', at, true)
        local len = tonumber(sub(s, at, colon - 1))
        list[#list + 1] = sub(s, colon + 1, colon + len)
        at = colon + len + 1
    end
    return list
end

-- nil: go on. Else the reply: this slot is not ours to change, or it was answered before.
local function begin(kind)
    local got = call('HMGET', META, 'uuid', 'run', 'tmax', kind .. NODE)
    if not got[1] then
        return {'NOSLOT'}
    elseif got[1] ~= ARGV[1] then
        return {'OTHER', got[1]}
    elseif got[2] ~= ARGV[2] then
        return {'CHECK'}
    end
    tmax = tonumber(got[3]) or 0
    base = math.max(now, tmax)
    if got[4] and sub(got[4], 1, 14) == OP then
        return unpack_from(got[4], 15), true
    elseif got[4] and sub(got[4], 1, 14) > OP then
        return {'STALE'} -- it came late, and a newer one was answered
    end
    return nil
end

-- Is the clock of this server one to hand out by?
local function clock_is_off()
    return now < tmax - 1000000 or math.abs(now - tonumber(ARGV[5])) > 5000000
end

-- A topic and its settings in this slot; nil and why: it was made with others.
local function topic(i)
    local k, a = 5 + (i - 1) * 7, 7 + (i - 1) * 3
    local t = {
        index = i, name = ARGV[a],
        store = KEYS[k + 1], ready = KEYS[k + 2], prep = KEYS[k + 3], dead = KEYS[k + 4],
        conf = KEYS[k + 5], wait = KEYS[k + 6], expiry = KEYS[k + 7],
        add = {}, drop = {}, stray = {},
    }
    local c = call('HMGET', t.conf, 'spread', 'order', 'pv', 'ttr', 'retries', 'backoff', 'ttl',
                   'out', 'in', 'in_flight', 'rate', 'burst', 'level', 'level_at', 'dead_keep',
                   'dead_max')
    if c[1] and c[1] ~= ARGV[a + 1] then
        return nil, {'SPREAD', t.name, c[1]}
    end
    t.is_new = not c[1]
    t.spread, t.order = ARGV[a + 1], c[2] or ARGV[a + 2]
    t.pv = c[3] or '0'
    t.ttr = tonumber(c[4]) or 60000000
    t.retries, t.backoff = tonumber(c[5]), c[6]
    t.ttl = tonumber(c[7]) or 0
    t.out, t.into = tonumber(c[8]) or 0, tonumber(c[9]) or 0 -- paused until
    t.in_flight = tonumber(c[10])
    t.rate, t.burst = tonumber(c[11]), tonumber(c[12])
    t.level, t.level_at = tonumber(c[13]), tonumber(c[14]) or 0
    t.dead_keep, t.dead_max = tonumber(c[15]), tonumber(c[16])
    return t
end

-- All topics of the call; nil and the reply when one of them cannot be used.
local function topics()
    local list = {}
    for i = 1, TOPICS do
        local t, why = topic(i)
        if not t then
            return nil, why
        end
        list[i] = t
    end
    return list
end

-- A job from its header, or from nothing.
local function parse(id, h)
    return {
        id = id, set = sub(h, 1, 1), ver = num(h, 2, 9), prio = num(h, 10, 17),
        due = num(h, 18, 31), at = num(h, 32, 45), lease = sub(h, 46, 61),
        attempts = num(h, 62, 69), timeouts = num(h, 70, 77), releases = num(h, 78, 85),
        buries = num(h, 86, 93), kicks = num(h, 94, 101), why = num(h, 102, 102),
        delay = num(h, 103, 116), ttr = num(h, 117, 130), ttl = num(h, 131, 144),
        retries = sub(h, 145, 152), flags = num(h, 153, 154), created = sub(h, 155, 168),
        names = sub(h, 169),
    }
end

local function header(j)
    return fmt('%s%08x%08x%014x%014x%s%08x%08x%08x%08x%08x%x%014x%014x%014x%s%02x%s%s', j.set,
               j.ver, j.prio, j.due, j.at, j.lease, j.attempts, j.timeouts, j.releases, j.buries,
               j.kicks, j.why, j.delay, j.ttr, j.ttl, j.retries, j.flags, j.created, j.names)
end

-- The last part of a header: four lengths, and then topic, tag, key and backoff.
local function join_names(name, tag, key, backoff)
    return fmt('%02x%02x%02x%03x', #name, #tag, #key, #backoff) .. name .. tag .. key .. backoff
end

local function split_names(s)
    local a, b, c, d = num(s, 1, 2), num(s, 3, 4), num(s, 5, 6), num(s, 7, 9)
    return sub(s, 10, 9 + a), sub(s, 10 + a, 9 + a + b), sub(s, 10 + a + b, 9 + a + b + c),
           sub(s, 10 + a + b + c, 9 + a + b + c + d)
end

-- Where it stands: key, member, score.
local function place(t, j)
    if j.set == 's' then
        return t.store, j.id, j.due
    elseif j.set == 'r' then
        return t.ready, (t.order == 'due') and hex(j.due) .. j.id or j.id, j.prio
    elseif j.set == 'p' then
        return t.prep, j.id, j.at
    end
    return t.dead, j.id, j.at
end

-- When it expires, or nil: it was handed out, it is dead, or has no end.
local function expires(j)
    if j.ttl > 0 and j.attempts == 0 and (j.set == 's' or j.set == 'r') then
        return j.due + j.ttl
    end
end

-- The job with this header as it stands; what is changed of it afterwards is committed by keep.
local function load(t, id, h)
    local j = parse(id, h)
    j.t = t
    j.was_key, j.was_member, j.was_score = place(t, j)
    j.was_expiry = expires(j)
    j.was_set = j.set
    return j
end

-- Waiting from this due time on.
local function wait_until(j, due)
    j.due, j.at, j.lease = due, 0, NO_LEASE
    j.set = due <= now and 'r' or 's'
end

local function die(j, why)
    j.set, j.why, j.at, j.lease = 'd', why, now, NO_LEASE
end

local function is_last(j)
    local most = j.t.retries
    if j.retries ~= 'ffffffff' then
        most = j.retries == 'fffffffe' and -1 or tonumber(j.retries, 16)
    elseif not most then
        most = j.flags % 2 == 1 and -1 or 16 -- of the beanstalk port: no end
    end
    return most >= 0 and j.attempts > most
end

-- How long it waits after its last attempt: l<us>,<us>... or e<base>,<factor/100>,<max>,<jitter/1000>
local function backoff(j)
    local _, _, _, text = split_names(j.names)
    if text == '' then
        text = j.t.backoff or (j.flags % 2 == 1 and 'l0' or 'e1000000,200,3600000000,100')
    end
    local n, list = math.max(j.attempts, 1), {}
    for part in string.gmatch(sub(text, 2), '[^,]+') do
        list[#list + 1] = tonumber(part)
    end
    if sub(text, 1, 1) == 'l' then
        return list[math.min(n, #list)]
    end
    local us = list[1]
    for _ = 2, n do
        us = us * list[2] / 100
        if us >= list[3] then
            break
        end
    end
    us = floor(math.min(us, list[3]))
    -- Any number will do for the jitter, but for one that all jobs of a moment share.
    local dice = (num(j.id, 7, 14) % 1048576 * 1103515245 + n * 12345 + now % 1048576 * 31) % 2147483648
    return us + floor(us * list[4] / 1000 * (dice / 2147483648))
end

-- Handed out and not finished: its lease ran out, or it was released. delay nil: by the backoff.
local function retire(j, from, delay)
    j.ver = j.ver + 1
    if is_last(j) then
        return die(j, WHY_RETRIES)
    end
    delay = delay or backoff(j)
    j.delay = delay
    wait_until(j, delay > 0 and math.max(from + delay, now) or j.due)
end

-- What time has done to a job that nobody has looked at since.
local function settle(j)
    if j.set == 'p' and j.at <= now then
        j.timeouts = j.timeouts + 1
        retire(j, j.at)
    elseif (expires(j) or now + 1) <= now then
        j.ver = j.ver + 1
        die(j, WHY_EXPIRED)
    end
end

local function push_to(list, key, a, b)
    local of = list[key]
    if not of then
        of = {}
        list[key] = of
    end
    of[#of + 1] = a
    if b then
        of[#of + 1] = b
    end
end

local heads, drop_heads, bodies, drop_keys, new_keys = {}, {}, {}, {}, {}

-- The entry of a set that no header stands behind: half a script left it.
local function drop_entry(t, key, member)
    push_to(t.stray, key, member)
end

-- But for those that the same call puts there by right.
local function drop_strays(t)
    for key, members in pairs(t.stray) do
        local placed = {}
        for i = 2, #(t.add[key] or {}), 2 do
            placed[t.add[key][i]] = true
        end
        for _, member in ipairs(members) do
            if not placed[member] then
                push_to(t.drop, key, member)
            end
        end
    end
end

local function keep_expiry(t, j, expiry)
    if expiry and expiry ~= j.was_expiry then
        push_to(t.add, t.expiry, dec(expiry), j.id)
    elseif j.was_expiry and not expiry then
        push_to(t.drop, t.expiry, j.id)
    end
end

-- This is how the job is from now on; body nil: as it was.
local function keep(j, body)
    local t = j.t
    local key, member, score = place(t, j)
    push_to(heads, HEAD, j.id, header(j))
    if body then
        push_to(bodies, BODY, j.id, body)
    end
    if key ~= j.was_key or member ~= j.was_member or score ~= j.was_score then
        push_to(t.add, key, dec(score), member)
    end
    if j.was_key and (key ~= j.was_key or member ~= j.was_member) then
        push_to(t.drop, j.was_key, j.was_member)
    end
    keep_expiry(t, j, expires(j))
    if (j.set == 's' or j.set == 'r') and (j.was_set ~= 's' or j.set == 's') then
        t.soonest = math.min(t.soonest or j.due, j.due)
    end
    local look = expires(j) or (j.set == 'p' and j.at) or
                     (j.set == 'd' and t.dead_keep and j.at + t.dead_keep)
    if look then
        t.look = math.min(t.look or look, look)
    end
end

-- It is gone.
local function forget(j)
    local _, _, key = split_names(j.names)
    push_to(drop_heads, HEAD, j.id)
    push_to(drop_heads, BODY, j.id)
    if key ~= '' then
        push_to(drop_keys, KEY, j.t.name .. '\0' .. key)
    end
    push_to(j.t.drop, j.was_key, j.was_member)
    keep_expiry(j.t, j, nil)
end

local function each(list, command)
    for key, args in pairs(list) do
        call(command, key, unpack(args))
    end
end

-- Who waits for a topic of which a job is to be had sooner than they know: two digits for the
-- topic, sixteen for the node. They are to be told, once.
local function waiters(list)
    local out, told = {}, {}
    for i, t in ipairs(list) do
        local wake = t.freed
        if t.soonest and not wake then
            local first = call('ZRANGE', t.store, 0, 0, 'WITHSCORES')
            wake = t.soonest <= now or not first[1] or t.soonest <= tonumber(first[2])
        end
        if wake then
            local nodes = call('ZRANGE', t.wait, 0, -1)
            for _, node in ipairs(nodes) do
                out[#out + 1] = fmt('%02x', i) .. node
            end
            if #nodes > 0 then
                told[#told + 1] = t.wait
            end
        end
    end
    return table.concat(out), told
end

local function versions(list)
    local out = {}
    for i, t in ipairs(list) do
        out[i] = fmt('%08x', tonumber(t.pv))
    end
    return table.concat(out)
end

-- Adds, then removes. reply: what a repeat of this call is to be told.
local function commit(kind, list, reply, told)
    each(heads, 'HSET')
    each(bodies, 'HSET')
    each(new_keys, 'HSET')
    for _, t in ipairs(list) do
        if t.is_new and (next(t.add) or t.level) then
            call('HSET', t.conf, 'spread', t.spread, 'order', t.order)
        end
        if t.level_new then
            call('HSET', t.conf, 'level', fmt('%.17g', t.level_new), 'level_at', dec(now))
        end
        each(t.add, 'ZADD')
        if t.look then
            call('ZADD', AGENDA, 'LT', dec(t.look), t.name)
        end
    end
    if now > tmax + 1000000 then
        call('HSET', META, 'tmax', dec(now))
    end
    if reply then
        call('HSET', META, kind .. NODE, OP .. pack(reply))
    end
    for _, t in ipairs(list) do
        drop_strays(t)
        each(t.drop, 'ZREM')
    end
    each(drop_heads, 'HDEL')
    each(drop_keys, 'HDEL')
    for _, key in ipairs(told) do
        call('DEL', key)
    end
end

