-- What the scripts of a slot have in common. tools/make-lua puts in front of each script those
-- paragraphs of this file that define a name which it uses, and no others: a function is made anew by
-- each call, and must be thrown away again. A script that has a quick way for what nearly all calls are
-- has two parts, and what only the second one uses stands between them. See doc/cluster.md for keys and
-- replies, header.c for headers. KIND is the script's own letter, for what it keeps of its answers.
--
-- A script reads all that it needs, decides on jobs in tables, and then commits: first what is
-- added, then what is removed, and no key is touched after a remove that may have emptied it.
-- While Redis moves a hash slot, a key that vanishes inside a script makes the next command on it
-- fail, and the first half would stay.
--
-- KEYS: meta, headers, bodies, keys, agenda; then seven for each topic.
-- ARGV: uuid, run, node, op, wall us, number of topics; then name, spread, order for each topic.

local call, sub, fmt, floor, max = redis.call, string.sub, string.format, math.floor, math.max

local put, get = struct.pack, struct.unpack

local META, HEAD, BODY, KEY, AGENDA = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

local NODE, OP = ARGV[3], ARGV[4]

local TOPICS = tonumber(ARGV[6])

local REST = 7 + 3 * TOPICS -- where the script's own arguments begin

local NO_LEASE = '\0\0\0\0\0\0\0\0'

local OWNER = '000000000000000000' -- of the slot, among those who are to be told

local DAY = 86400000000

local USUAL, NO_END = 4294967295, 4294967294 -- retries

local WHY_EXPIRED, WHY_BURIED, WHY_RETRIES = 3, 4, 5

local clock = call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- Is that also the time that the caller's wall clock has? Then ids may count from it: ms since 2024.
local agrees = math.abs(now - tonumber(ARGV[5])) <= 5000000
local ms = agrees and floor(now / 1000) - 1704067200000 or 0

-- Is this slot ours to change? Then when was the latest time seen, and which is the last number that an
-- id has; new due times count from base, never behind a time that was seen before; and if this very
-- call was answered before, what was kept of that. The latest time is of clocks that agree with their
-- caller's; if it is far ahead of such a one all the same, both were wrong, and it is forgotten. If the
-- two do not agree, the later one is the base: it is late if that one is wrong, and not early.
local slot_is = call('HMGET', META, 'uuid', 'run', 'tmax', 'seq', KIND .. NODE)
if not slot_is[1] then
    return {'NOSLOT'}
elseif slot_is[1] ~= ARGV[1] then
    return {'OTHER', slot_is[1]}
elseif slot_is[2] ~= ARGV[2] then
    return {'CHECK'}
end
local tmax, seq = tonumber(slot_is[3]) or 0, tonumber(slot_is[4]) or 0
if agrees and tmax > now + 10000000 then
    tmax = 0
end
local base = max(now, tmax)
if not agrees then
    base = max(base, tonumber(ARGV[5]))
end
local kept = slot_is[5]
if kept and sub(kept, 1, 14) > OP then
    return {'STALE'} -- it came late, and a newer one was answered
end
kept = kept and sub(kept, 1, 14) == OP and sub(kept, 15)

-- Which life of which server this is: a primary has a replication id of its own from each start and each
-- promotion on. What a connection was told goes stale when its server is demoted and promoted again, and
-- that life may have forgotten ids: so whoever makes ids asks.
local function life()
    local info = call('INFO', 'replication')
    local _, at = string.find(info, 'master_replid:', 1, true)
    return at and string.match(info, '^%x+', at + 1) or ''
end

-- The number of the next id. seen: the highest that the node knows of. If that is above the last one,
-- some were undone, and others may know of higher ones.
local function next_seq(seen)
    return max(seq + 1, ms, seen > seq and seen + 1048576 or 0)
end

-- Lua prints numbers with 14 digits: ids and times leave as hex, or by %d, which has 64 bits.
local function hex(n)
    return fmt('%014x', n)
end

local function num(s, from, to)
    return tonumber(sub(s, from, to), 16)
end

local function dec(n)
    return fmt('%d', n)
end

-- A reply that is to be given again: strings one behind the other, each with its length and how often
-- it comes in a row.
local function pack(list)
    local out, i = {}, 1
    while i <= #list do
        local s, times = list[i], 1
        while list[i + times] == s do
            times = times + 1
        end
        out[#out + 1] = put('>I2I2', times, #s) .. s
        i = i + times
    end
    return table.concat(out)
end

local function unpack_to(list, s, at)
    while at <= #s do
        local times, len, from = get('>I2I2', s, at)
        at = from + len
        for _ = 1, times do
            list[#list + 1] = sub(s, from, at - 1)
        end
    end
    return list
end

-- What is kept of a reply: versions, waiters and the script's own; and the reply's beginning from that.
local function remember(versions, nodes, rest)
    return put('>I2I2', #versions, #nodes) .. versions .. nodes .. rest
end

local function recall(kept)
    local a, b, at = get('>I2I2', kept)
    return {'OK', hex(now), sub(kept, at, at + a - 1), sub(kept, at + a, at + a + b - 1)},
           sub(kept, at + a + b)
end

-- Is the clock of this server one to hand out by?
local function clock_is_off()
    return not agrees or now < tmax - 1000000
end

-- The topics of the call, with those of their settings in this slot that the script names; nil and the
-- reply when one of them was made with another spread.
local function topics(...)
    local list, names = {}, {...}
    for i = 1, TOPICS do
        local k, a = 7 * i - 2, 3 * i + 4
        local t = {
            name = ARGV[a], spread = ARGV[a + 1],
            store = KEYS[k + 1], ready = KEYS[k + 2], prep = KEYS[k + 3], dead = KEYS[k + 4],
            conf = KEYS[k + 5], wait = KEYS[k + 6], expiry = KEYS[k + 7],
            add = {}, drop = {}, stray = {},
        }
        local c = call('HMGET', t.conf, 'spread', 'order', 'pv', 'bytes', ...)
        if c[1] and c[1] ~= t.spread then
            return nil, {'SPREAD', t.name, c[1]}
        end
        t.is_new, t.order, t.pv = not c[2], c[2] or ARGV[a + 2], c[3] or '0'
        t.bytes, t.grown = tonumber(c[4]) or 0, 0 -- of bodies, and how many more it will be
        for n, name in ipairs(names) do
            t[name] = tonumber(c[n + 4]) or c[n + 4]
        end
        if t.dead_keep == false then
            t.dead_keep = 2592000000000 -- thirty days
        elseif t.dead_keep == 9007199254740991 then
            t.dead_keep = nil -- for ever
        end
        list[i] = t
    end
    return list
end

-- The rest of a job's header, which most steps do not need.
local function open(j)
    if j.created then
        return j
    end
    local h, at = j.h, j.rest
    j.created, j.delay, j.size, at = get('>I7I7I3', h, at)
    j.ttr, j.ttl, j.retries = 0, 0, USUAL
    if j.flags % 16 >= 8 then
        j.ttr, j.ttl, j.retries, at = get('>I7I7I4', h, at)
    end
    j.timeouts, j.releases, j.buries, j.kicks, j.why = 0, 0, 0, 0, 0
    if j.flags % 32 >= 16 then
        j.timeouts, j.releases, j.buries, j.kicks, j.why, at = get('>I4I4I4I4B', h, at)
    end
    j.names = sub(h, at)
    return j
end

-- When it expires, or nil: it was handed out, it is dead, or has no end.
local function expires(j)
    if j.flags >= 64 and j.attempts == 0 and (j.set == 's' or j.set == 'r') then
        return j.due + open(j).ttl
    end
end

-- A job from its header as it stands; what is changed of it afterwards is committed by keep.
local function load(t, id, h)
    local set, flags, ver, prio, due, attempts, rest = get('>c1BI4I4I7I4', h)
    local at, lease = 0, NO_LEASE
    if set == 'p' or set == 'd' then
        at, lease, rest = get('>I7c8', h, rest)
    end
    local j = {
        t = t, id = id, h = h, rest = rest, set = set, flags = flags, ver = ver, prio = prio,
        due = due, attempts = attempts, at = at, lease = lease, was_set = set, was_ver = ver,
        was_due = due, was_prio = prio, was_at = at,
    }
    if flags >= 64 then
        j.was_expiry = expires(j)
    end
    return j
end

-- And the header of a job. What nobody has opened stays as it was.
local function header(j)
    local tail
    if j.created then
        local own, past = '', ''
        j.flags = j.flags % 8 + (j.flags % 64 >= 32 and 32 or 0)
        if j.ttr > 0 or j.ttl > 0 or j.retries ~= USUAL then
            j.flags = j.flags + 8 + (j.ttl > 0 and 64 or 0)
            own = put('>I7I7I4', j.ttr, j.ttl, j.retries)
        end
        if j.timeouts > 0 or j.releases > 0 or j.buries > 0 or j.kicks > 0 or j.why > 0 then
            j.flags = j.flags + 16
            past = put('>I4I4I4I4B', j.timeouts, j.releases, j.buries, j.kicks, j.why)
        end
        tail = put('>I7I7I3', j.created, j.delay, j.size) .. own .. past .. j.names
    else
        tail = sub(j.h, j.rest)
    end
    if j.set == 'p' or j.set == 'd' then
        return put('>c1BI4I4I7I4I7', j.set, j.flags, j.ver, j.prio, j.due, j.attempts, j.at) ..
                   j.lease .. tail
    end
    return put('>c1BI4I4I7I4', j.set, j.flags, j.ver, j.prio, j.due, j.attempts) .. tail
end

-- Its tag, key and backoff; the schedule that waits for its end.
local function texts(j)
    if j.flags % 64 < 32 then
        return '', '', '', ''
    end
    local names = open(j).names
    local a, b, c, at = get('>BBI2', names, 2 + string.byte(names))
    return sub(names, at, at + a - 1), sub(names, at + a, at + a + b - 1),
           sub(names, at + a + b, at + a + b + c - 1), sub(names, at + a + b + c)
end

local function set_texts(j, tag, key, backoff, plan)
    local long = tag ~= '' or key ~= '' or backoff ~= '' or plan ~= ''
    j.names = sub(j.names, 1, 1 + string.byte(j.names)) ..
                  (long and put('>BBI2', #tag, #key, #backoff) .. tag .. key .. backoff .. plan or '')
    j.flags = j.flags % 32 + (long and 32 or 0) + (j.flags >= 64 and 64 or 0)
end

-- Which is handed out first.
local function before(a, b)
    if a.prio ~= b.prio then
        return a.prio < b.prio
    elseif a.t.order == 'due' and a.due ~= b.due then
        return a.due < b.due
    end
    return a.id < b.id
end

-- Where it stands: key, member, score.
local function place(t, id, set, due, prio, at)
    if set == 's' then
        return t.store, id, due
    elseif set == 'r' then
        return t.ready, (t.order == 'due') and hex(due) .. id or id, prio
    elseif set == 'p' then
        return t.prep, id, at
    end
    return t.dead, id, at
end

-- A due time and the delay that it is, from what was asked: d and a delay, or a and a time.
local function due_of(kind, time, age, from)
    if kind == 'd' then
        return from - age + time, time
    end
    return max(time, from), max(time - from, 0)
end

-- Waiting from this due time on.
local function wait_until(j, due)
    j.due, j.at, j.lease = due, 0, NO_LEASE
    j.set = due <= now and 'r' or 's'
end

local function die(j, why)
    open(j).why = why
    j.set, j.at, j.lease = 'd', now, NO_LEASE
end

local function is_last(j)
    local most = open(j).retries
    if most == NO_END then
        return false
    elseif most == USUAL then
        most = j.flags % 2 == 1 and -1 or 16 -- of the beanstalk port: no end
    end
    return most >= 0 and j.attempts > most
end

-- How long it waits after its last attempt: l<us>,<us>... or e<base>,<factor/100>,<max>,<jitter/1000>
local function backoff(j)
    local _, _, text = texts(j)
    if text == '' then
        text = j.flags % 2 == 1 and 'l0' or 'e1000000,200,3600000000,100'
    end
    local n, list = max(j.attempts, 1), {}
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
    wait_until(j, delay > 0 and max(from + delay, now) or j.due)
end

-- Its connection is gone: as it was, but handed out once more.
local function leave(j)
    j.ver = j.ver + 1
    if is_last(j) then
        return die(j, WHY_RETRIES)
    end
    wait_until(j, j.due)
end

-- What time has done to a job that nobody has looked at since.
local function settle(j)
    if j.set == 'p' and j.at <= now then
        local delay = open(j).delay
        j.timeouts = j.timeouts + 1
        retire(j, j.at, j.flags % 4 >= 2 and 0 or nil) -- held by a connection: back at once
        j.delay = j.flags % 4 >= 2 and delay or j.delay
    elseif j.flags >= 64 and (expires(j) or now + 1) <= now then
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

-- What commit writes: fields of the meta, and of the other hashes of the slot; names of what goes; entries of
-- the agenda for occurrences that ended, each behind its time.
local meta, heads, bodies, new_keys, gone, gone_keys, ends = {}, {}, {}, {}, {}, {}, {}

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

-- Housekeeping must look at the topic then, at the latest.
local function look_at(t, at)
    if not t.look or at < t.look then
        t.look = at
    end
end

-- It lives no more: the schedule that made it, if there is one that waits for that, will hear of it.
local function ended(j)
    local _, _, _, name = texts(j)
    if name ~= '' then
        ends[#ends + 1], ends[#ends + 2] = dec(now), '!' .. j.id .. name
    end
end

-- Would a body of so many bytes be too much, in place of one of so many?
local function is_heavy(t, more, less)
    t.planned = t.planned or 0
    if t.max_bytes and more > less and t.bytes + t.planned + more - less > t.max_bytes then
        return true
    end
    t.planned = t.planned + more - less
    return false
end

-- It was dead and is that no more, or is gone: of the topic's dead ones there is one less.
local function undie(j)
    local t = j.t
    t.left = t.left or {}
    t.left[j.id], t.undied = true, (t.undied or 0) + 1
end

-- This is how the job is from now on; body nil: as it was. A new body: was_size is that of the old one.
local function keep(j, body)
    local t, id, n = j.t, j.id, #heads
    heads[n + 1], heads[n + 2] = id, header(j)
    if body then
        n = #bodies
        bodies[n + 1], bodies[n + 2] = id, body
        t.grown = t.grown + #body - (j.was_size or 0)
    end
    local key, member, score = place(t, id, j.set, j.due, j.prio, j.at)
    local is_there = false
    if j.was_set then
        local was_key, was_member, was_score = place(t, id, j.was_set, j.was_due, j.was_prio, j.was_at)
        is_there = key == was_key and member == was_member and score == was_score
        if key ~= was_key or member ~= was_member then
            push_to(t.drop, was_key, was_member)
        end
        if j.was_set == 'd' and j.set ~= 'd' then
            undie(j)
        end
    end
    if not is_there then
        push_to(t.add, key, dec(score), member)
    end
    local expiry = expires(j)
    if expiry then
        if expiry ~= j.was_expiry then
            push_to(t.add, t.expiry, dec(expiry), id)
        end
        look_at(t, expiry)
    elseif j.was_expiry then
        push_to(t.drop, t.expiry, id)
    end
    if j.set == 'p' then
        look_at(t, j.at)
    elseif j.set == 'd' then
        if t.dead_keep then
            look_at(t, j.at + t.dead_keep)
        end
        if j.was_set ~= 'd' then
            t.died = (t.died or 0) + 1
            ended(j)
        end
    elseif j.was_set ~= 's' or j.due ~= j.was_due then -- else who waits knows its due time
        t.soonest = math.min(t.soonest or j.due, j.due)
    end
end

-- Do the topic's settings give what its new jobs do not have themselves?
local function gives(t)
    return t.ttr or t.ttl or t.retries or t.backoff
end

-- A new job, from its header, and with what they give: it keeps that whatever they say later.
local function fresh(t, id, h)
    local j = load(t, id, h)
    j.was_set, j.was_expiry = nil, nil
    if gives(t) then
        local tag, key, text, plan = texts(open(j))
        if text == '' and t.backoff then
            set_texts(j, tag, key, t.backoff, plan)
        end
        j.ttr = j.ttr > 0 and j.ttr or t.ttr or 0
        j.ttl = j.ttl > 0 and j.ttl or t.ttl or 0
        if j.retries == USUAL and t.retries then
            j.retries = t.retries < 0 and NO_END or t.retries
        end
        header(j) -- which sets the flags
    end
    return j
end

-- May one more be made?
local function is_full(t)
    if not t.max_jobs then
        return false
    end
    t.count = (t.count or call('ZCARD', t.store) + call('ZCARD', t.ready) + call('ZCARD', t.prep) +
                  call('ZCARD', t.dead)) + 1
    return t.count > t.max_jobs
end

-- Redis keeps a hash of few short values as one string, which is searched from its front for each field. A
-- value of 65 bytes makes a table of it; what is said last of a field holds.
local function widen(hash)
    if hash[2] and #hash[2] <= 64 then
        local n = #hash
        hash[n + 1], hash[n + 2], hash[n + 3], hash[n + 4] = hash[1], string.rep('.', 65), hash[1], hash[2]
    end
end

-- It is gone.
local function forget(j)
    local t, _, key = j.t, texts(j)
    local was_key, was_member = place(t, j.id, j.was_set, j.was_due, j.was_prio, j.was_at)
    gone[#gone + 1] = j.id
    t.grown = t.grown - (j.was_size or open(j).size)
    if key ~= '' then
        gone_keys[#gone_keys + 1] = t.name .. '\0' .. key
    end
    push_to(t.drop, was_key, was_member)
    if j.was_expiry then
        push_to(t.drop, t.expiry, j.id)
    end
    if j.was_set ~= 'd' then
        ended(j)
    else
        undie(j)
    end
end

-- A topic may have only so many dead jobs: if others have died the oldest go, but for those that this call
-- has to do with. What is still too much (more died at once than there may be, or there may be fewer now) is for
-- the slot's owner, at once.
local function trim(t)
    local left = t.undied or 0
    local over = t.dead_max and t.died and call('ZCARD', t.dead) + t.died - left - t.dead_max or 0
    if over <= 0 then
        return
    end
    local ids = call('ZRANGE', t.dead, 0, math.min(over, 128) + left - 1)
    for i, h in ipairs(#ids > 0 and call('HMGET', HEAD, unpack(ids)) or {}) do
        local j = h and load(t, ids[i], h)
        if not j or j.set ~= 'd' then
            drop_entry(t, t.dead, ids[i])
        elseif not (t.left and t.left[j.id]) then
            forget(j)
            over = over - 1
        end
    end
    if over > 0 then
        look_at(t, now)
        t.over = true
    end
end

local function each(list, command)
    for key, args in pairs(list) do
        call(command, key, unpack(args))
    end
end

-- The next entries of a set behind this one (empty: from the beginning): ids, members, and the score of
-- the last one, if there may be more. An entry that stays is met once, whatever comes and goes meanwhile.
local function walk(key, score, member, count)
    local low, ids, members = 0, {}, {}
    if score ~= '' then
        low = call('ZCOUNT', key, '-inf', '(' .. score)
        local high = low + call('ZCOUNT', key, score, score)
        while low < high do
            local middle = floor((low + high) / 2)
            if call('ZRANGE', key, middle, middle)[1] <= member then
                low = middle + 1
            else
                high = middle
            end
        end
    end
    local entries = call('ZRANGE', key, low, low + count - 1, 'WITHSCORES')
    for i = 1, #entries, 2 do
        ids[#ids + 1], members[#members + 1] = sub(entries[i], -14), entries[i]
    end
    return ids, members, #ids == count and entries[#entries] or nil
end

-- Is it used for the first time? From then on it is on the agenda.
local function is_first(t)
    return t.is_new and (t.look or t.level_new or next(t.add)) ~= nil
end

-- Who waits for a topic of which a job is to be had sooner than they know: two digits for the
-- topic, sixteen for the node. Told of a job that is there they ask, and wait anew if they got none;
-- told of one that is due later they only know when to ask, and stay where they are. Who has not asked
-- anew in his time is dead, or waits no more. Last the slot's owner, who has no name here, if a schedule is
-- to hear of an end, or if the agenda, which may have been empty, gets a topic.
local function waiters(list)
    local out, told, owner = {}, {}, #ends > 0
    for i, t in ipairs(list) do
        owner = owner or is_first(t) or t.over
        local all = (t.freed or t.soonest) and call('ZRANGE', t.wait, 0, -1, 'WITHSCORES') or {}
        local nodes, over = {}, {}
        for at = 1, #all, 2 do
            local to = tonumber(all[at + 1]) > now and nodes or over
            to[#to + 1] = all[at]
        end
        local wake = #nodes > 0 and (t.freed or t.soonest <= now)
        if #nodes > 0 and not wake then
            local first = call('ZRANGE', t.store, 0, 0, 'WITHSCORES')
            wake = not first[1] or t.soonest <= tonumber(first[2])
        end
        if wake then
            for _, node in ipairs(nodes) do
                out[#out + 1] = fmt('%02x', i) .. node
            end
        end
        if wake and (t.freed or t.soonest <= now) then
            told[#told + 1] = t.wait
        else
            for _, node in ipairs(over) do
                if node ~= NODE then -- which may be about to say until when it waits
                    push_to(t.drop, t.wait, node)
                end
            end
        end
    end
    if owner then
        out[#out + 1] = OWNER
    end
    return table.concat(out), told
end

-- Of the settings of each topic; ffffffff: it was not there.
local function versions(list)
    local out = {}
    for i, t in ipairs(list) do
        out[i] = t.is_new and t.pv == '0' and 'ffffffff' or fmt('%08x', tonumber(t.pv))
    end
    return table.concat(out)
end

-- Adds, then removes. keeps: what a repeat of this call is to be answered from.
local function commit(list, keeps, told)
    if #heads > 0 then
        call('HSET', HEAD, unpack(heads))
    end
    if #bodies > 0 then
        call('HSET', BODY, unpack(bodies))
    end
    if #new_keys > 0 then
        call('HSET', KEY, unpack(new_keys))
    end
    for _, t in ipairs(list) do
        if is_first(t) then
            call('HSET', t.conf, 'spread', t.spread, 'order', t.order)
            look_at(t, now + DAY) -- is it still needed?
        end
        if t.level_new then
            call('HSET', t.conf, 'level', fmt('%.17g', t.level_new), 'level_at', dec(now))
        end
        if t.grown ~= 0 then
            call('HSET', t.conf, 'bytes', dec(max(t.bytes + t.grown, 0)))
        end
        each(t.add, 'ZADD')
        if t.look then
            call('ZADD', AGENDA, 'LT', dec(t.look), t.name)
        end
    end
    if #ends > 0 then
        call('ZADD', AGENDA, unpack(ends))
    end
    local n = #meta
    if agrees and now > tmax + 1000000 then
        meta[n + 1], meta[n + 2], n = 'tmax', dec(now), n + 2
    end
    if keeps then
        meta[n + 1], meta[n + 2], n = KIND .. NODE, OP .. keeps, n + 2
    end
    if n > 0 then
        call('HSET', META, unpack(meta))
    end
    for _, t in ipairs(list) do
        drop_strays(t)
        each(t.drop, 'ZREM')
    end
    if #gone > 0 then
        call('HDEL', HEAD, unpack(gone))
        call('HDEL', BODY, unpack(gone))
    end
    if #gone_keys > 0 then
        call('HDEL', KEY, unpack(gone_keys))
    end
    for _, key in ipairs(told) do
        call('DEL', key)
    end
end
