-- New jobs. ARGV[REST]: the highest sequence number that the node has seen in this slot; then its
-- number. For each row of jobs that are alike: what, bodies; what = topic (1), on conflict (1: r, k, e),
-- d or a (1), delay or time (7), age (7), flags (1), priority (4), place of the key in it (2) and its
-- length (1), and then the end of the header: what stands there behind the size. Without a key (its length
-- is 0) there is a number in its place: so many bodies follow, all of one length. With one it is one.
-- D in the place of d: each has its own delay, age and length; in front of each body stand delay and age.
--
-- For each: N id due (new), R id header (replaced), K id header (kept), E id header (exists),
-- X id header (reserved), P (paused), F (the topic has as much as it may have). Or one for all, n time id:
-- all are new, their due times count from that time, and their numbers follow each other from this id on.
--
-- Adds memory.

local KIND = sub(ARGV[4], 1, 1) == '1' and 'P' or 'p' -- two of a node may be under way
--== one topic without limits, jobs without keys and ends, nobody waits

if not kept and slot_is[2] ~= life() then
    return {'CHECK'}
end

if not kept and TOPICS == 1 then
    local conf, seen, slot = KEYS[10], tonumber(ARGV[REST]), tonumber(ARGV[REST + 1])
    local c = call('HMGET', conf, 'spread', 'order', 'pv', 'bytes', 'in', 'max_jobs', 'max_bytes', 'ttr', 'ttl',
                   'retries', 'backoff')
    local plain = (not c[1] or c[1] == ARGV[8]) and not (c[5] or c[6] or c[7] or c[8] or c[9] or c[10] or c[11]) and
                      #call('ZRANGE', KEYS[11], '0', '0') == 0
    local order = c[2] or ARGV[9]
    local id = next_seq(seen) * 1024 + slot
    local from, vers = id, c[3] and fmt('%08x', tonumber(c[3])) or c[1] and '00000000' or 'ffffffff'
    local hs, bs, store, ready, n, bytes = {}, {}, {}, {}, 0, tonumber(c[4]) or 0
    local ks, kr, by_due, told = 0, 0, order == 'due', ''
    local at, till = REST + 2, plain and #ARGV or 0
    local many, head, tails = till - at > 16, nil, {} -- of four ids in a row only the last three digits differ
    while at < till do
        local what = ARGV[at]
        local kind, time, age, flags, prio, count, key_len = get('>c1I7I7BI4I2B', what, 3)
        if key_len > 0 or flags >= 64 then
            plain = false
            break
        end
        local mixed, step, rest = kind == 'D', 1, sub(what, 26)
        local h, due, score, front, delayed, urgent
        if mixed then
            step = 2
            delayed, urgent = put('>c1BI4I4', 's', flags, 1, prio), put('>c1BI4I4', 'r', flags, 1, prio)
        else
            local delay, size = time, #ARGV[at + 1]
            due = base - age + time
            if kind ~= 'd' then
                due, delay = max(time, base), max(time - base, 0)
            end
            h = put('>c1BI4I4I7I4I7I7I3', due <= now and 'r' or 's', flags, 1, prio, due, 0, now, delay, size) .. rest
            score, front = fmt('%d', due <= now and prio or due), due <= now and by_due and fmt('%014x', due)
            bytes = bytes + size * count
        end
        for i = at + step, at + step * count, step do
            local name, body = nil, ARGV[i]
            if many then
                local low = id % 4096
                if low < 1024 or not head then
                    head = fmt('%011x', (id - low) / 4096)
                end
                local tail = tails[low]
                if not tail then
                    tail = fmt('%03x', low)
                    tails[low] = tail
                end
                name = head .. tail
            else
                name = fmt('%014x', id)
            end
            if mixed then
                local delay, old = get('>I7I7', ARGV[i - 1])
                due = base - old + delay
                h = (due <= now and urgent or delayed) .. put('>I7I4I7I7I3', due, 0, now, delay, #body) .. rest
                score, front = fmt('%d', due <= now and prio or due), due <= now and by_due and fmt('%014x', due)
                bytes = bytes + #body
            end
            hs[n + 1], hs[n + 2], bs[n + 1], bs[n + 2] = name, h, name, body
            if due <= now then
                ready[kr + 1], ready[kr + 2] = score, front and front .. name or name
                kr = kr + 2
            else
                store[ks + 1], store[ks + 2] = score, name
                ks = ks + 2
            end
            id, n = id + 1024, n + 2
        end
        at = at + 1 + step * count
    end
    if plain and n > 0 then
        -- Redis keeps a hash of few short values as one string, which is searched from its front for
        -- each field. A value of 65 bytes makes a table of it; what is said last of a field holds.
        local wide = '.................................................................'
        if #hs[2] <= 64 then
            hs[n + 1], hs[n + 2], hs[n + 3], hs[n + 4] = hs[1], wide, hs[1], hs[2]
        end
        if #bs[2] <= 64 then
            bs[n + 1], bs[n + 2], bs[n + 3], bs[n + 4] = bs[1], wide, bs[1], bs[2]
        end
        call('HSET', HEAD, unpack(hs))
        call('HSET', BODY, unpack(bs))
        if not c[2] then
            call('HSET', conf, 'spread', ARGV[8], 'order', order, 'bytes', fmt('%d', bytes))
            call('ZADD', AGENDA, 'LT', fmt('%d', now + 86400000000), ARGV[7])
            told = '000000000000000000' -- its owner
        else
            call('HSET', conf, 'bytes', fmt('%d', bytes))
        end
        if ks > 0 then
            call('ZADD', KEYS[6], unpack(store))
        end
        if kr > 0 then
            call('ZADD', KEYS[7], unpack(ready))
        end
        if agrees and now > tmax + 1000000 then
            call('HSET', META, 'tmax', fmt('%d', now))
        end
        call('HSET', META, 'seq', fmt('%d', (id - slot) / 1024 - 1), KIND .. NODE,
             OP .. put('>I2I2', 8, #told) .. vers .. told .. 'n' .. put('>I7I7', base, from))
        return {'OK', fmt('%014x', now), vers, told, fmt('n%014x%014x', base, from)}
    end
end
--== all others

if kept then
    local reply, rest = recall(kept)
    if sub(rest, 1, 1) == 'l' then
        return unpack_to(reply, rest, 2)
    end
    local from, id = get('>I7I7', rest, 2)
    reply[5] = 'n' .. hex(from) .. hex(id)
    return reply
end
local list, why = topics('in', 'max_jobs', 'max_bytes', 'ttr', 'ttl', 'retries', 'backoff')
if not list then
    return why
end

local seen, slot = tonumber(ARGV[REST]), tonumber(ARGV[REST + 1])
local first = next_seq(seen)
seq = first - 1

-- Whom the keys name now, before anything is changed; later jobs of this call see earlier ones.
local fields, jobs = {}, {}
local holder = {} -- key -> id
local whats, given = {}, {} -- of each job: what, and its body
local at = REST + 2
while at < #ARGV do
    local what = ARGV[at]
    local from, len = get('>I2B', what, 23)
    if len > 0 then
        fields[#fields + 1] = list[string.byte(what)].name .. '\0' .. sub(what, from, from + len - 1)
        from = 1
    end
    local step = sub(what, 3, 3) == 'D' and 2 or 1
    for i = at + step, at + step * from, step do
        whats[#whats + 1] = step == 1 and what or sub(what, 1, 2) .. 'd' .. ARGV[i - 1] .. sub(what, 18)
        given[#given + 1] = ARGV[i]
    end
    at = at + 1 + step * from
end
if #fields > 0 then
    local owned = {}
    for i, id in ipairs(call('HMGET', KEY, unpack(fields))) do
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

local function replace(t, id, h, on)
    local old = type(jobs[id]) == 'table' and jobs[id] or load(t, id, jobs[id])
    settle(old)
    if on == 'k' then
        return nil, 'K' .. id .. header(old)
    elseif on == 'e' then
        return nil, 'E' .. id .. header(old)
    elseif old.set == 'p' then
        return nil, 'X' .. id .. header(old)
    end
    local j = open(fresh(t, id, h))
    if is_heavy(t, j.size, open(old).size) then
        return nil, 'F'
    end
    j.was_size = old.was_size or (old.was_set and old.size) or nil
    j.ver, j.created = old.ver + 1, old.created
    j.was_set, j.was_due, j.was_prio, j.was_at = old.was_set, old.was_due, old.was_prio, old.was_at
    j.was_expiry = old.was_expiry
    return j
end

local replies, order, all_new = {}, {}, true
for i, what in ipairs(whats) do
    local index, on, kind, time, age, flags, prio, key_at, key_len = get('>Bc1c1I7I7BI4I2B', what)
    local t = list[index]
    local field = key_len > 0 and t.name .. '\0' .. sub(what, key_at, key_at + key_len - 1)
    local id = field and holder[field]
    local due, delay = due_of(kind, time, age, base)
    local set = due <= now and 'r' or 's'
    local body = given[i]
    local size = #body
    local h = put('>c1BI4I4I7I4I7I7I3', set, flags, 1, prio, due, 0, now, delay, size) .. sub(what, 26)
    local reply
    if (t['in'] or 0) > now then
        reply, all_new = 'P', false
    elseif id and jobs[id] then
        local j, said = replace(t, id, h, on)
        if j then
            j.body, j.listed = body, true
            if type(jobs[id]) ~= 'table' or not jobs[id].listed then
                order[#order + 1] = id
            end
            jobs[id], said = j, 'R' .. id .. header(j)
        end
        reply, all_new = said, false
    elseif is_full(t) then
        reply, all_new = 'F', false
    elseif is_heavy(t, size, 0) then
        reply, all_new, t.count = 'F', false, t.count and t.count - 1
    else
        seq = seq + 1
        id = hex(seq * 1024 + slot)
        local text = hex(due)
        if field or flags >= 64 or gives(t) then
            local j = fresh(t, id, h)
            j.body, j.listed = body, true
            jobs[id], order[#order + 1] = j, id
            if field then
                holder[field] = id
                new_keys[#new_keys + 1], new_keys[#new_keys + 2] = field, id
            end
        else
            local n = #heads
            heads[n + 1], heads[n + 2] = id, h
            bodies[n + 1], bodies[n + 2] = id, body
            t.grown = t.grown + size
            if set == 's' then
                push_to(t.add, t.store, dec(due), id)
            else
                push_to(t.add, t.ready, dec(prio), t.order == 'due' and text .. id or id)
            end
            if not t.soonest or due < t.soonest then
                t.soonest = due
            end
        end
        reply = 'N' .. id .. text
    end
    replies[#replies + 1] = reply
end
for _, id in ipairs(order) do
    keep(jobs[id], jobs[id].body)
end

widen(heads)
widen(bodies)
if seq >= first then
    meta[1], meta[2] = 'seq', dec(seq)
end
local nodes, told = waiters(list)
local vers = versions(list)
local rest = all_new and 'n' .. put('>I7I7', base, first * 1024 + slot) or 'l' .. pack(replies)
commit(list, remember(vers, nodes, rest), told)
return {'OK', hex(now), vers, nodes, unpack(replies)}
