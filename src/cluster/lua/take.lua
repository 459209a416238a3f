-- Hands out jobs of one topic. ARGV[REST]: how many, lease (8 bytes), time to run (us; 0: the job's
-- own), tag, wait until (us; 0: does not wait), held by a connection (0 or 1), the lease is at least so
-- long (us), how many bytes of bodies there may be (but one job always), and the number of the last call
-- that was heard.
--
-- How many is 0: what a call behind that one has handed out, of which nobody will ever hear, goes back as
-- if it had not been. It must be of the same topic.
--
-- OK, now, versions, waiters, next (when to ask again, or empty), more (1: at once); then for each
-- id, header, body. CLOCK: this server's clock is off, nothing is handed out. What is kept of the answer:
-- the lease, and the ids.

local KIND = 't'
--== one topic that is not held back; what is due is all in ready or can all be handed out

local want, lease = tonumber(ARGV[REST]), ARGV[REST + 1]
local ttr, tag, wait = tonumber(ARGV[REST + 2]), ARGV[REST + 3], tonumber(ARGV[REST + 4])
local held, least, room = tonumber(ARGV[REST + 5]), tonumber(ARGV[REST + 6]), tonumber(ARGV[REST + 7])

local off = now < tmax - 1000000 or not agrees
if not kept and not off and tag == '' and want > 0 then
    local conf, store, ready, prep, till = KEYS[10], KEYS[6], KEYS[7], KEYS[8], fmt('%d', now)
    local c = call('HMGET', conf, 'spread', 'order', 'pv', 'out', 'hold', 'in_flight', 'rate')
    local ends, first = call('ZRANGE', prep, '0', '0', 'WITHSCORES'), {}
    local plain = c[1] == ARGV[8] and not (c[4] or c[5] or c[6] or c[7]) and tonumber(ends[2] or 1e300) > now
    local by_due = c[2] == 'due'
    local from, set, members, due = ready, 'r', {}, {}
    if plain then
        members, first = call('ZRANGE', ready, '0', ARGV[REST]), call('ZRANGE', store, '0', '0', 'WITHSCORES')
    end
    if first[2] and tonumber(first[2]) <= now then
        due, first = call('ZRANGE', store, '-inf', till, 'BYSCORE', 'LIMIT', '0', want + 1), nil
    end
    if #due > 0 then
        plain = #members == 0 and #due <= want
        from, set, members, by_due = store, 's', due, false
    end
    local more = #members > want
    members[want + 1] = nil
    local ids, n = members, #members
    if by_due then
        ids = {}
        for i = 1, n do
            ids[i] = sub(members[i], 15)
        end
    end
    local hs, add, at, at_text, last, bytes = {}, {}, nil, nil, -1, 0
    local heads_of = plain and n > 0 and call('HMGET', HEAD, unpack(ids)) or {}
    local was, is, size, text -- a header, and what it will be: jobs of one push have the same one
    for i = 1, plain and n or 0 do
        local h = heads_of[i]
        if h ~= was then
            plain = h and sub(h, 1, 1) == set
            if not plain then
                break
            end
            local flags, ver, prio, is_due, attempts, _, _, bytes_of = get('>BI4I4I7I4I7I7I3', h, 2)
            local mine = ttr
            if mine == 0 and flags % 16 >= 8 then
                mine = get('>I7', h, 39)
            end
            if mine == 0 then
                mine = 60000000
            end
            mine = now + max(mine, least)
            if not at then
                at, at_text = mine, fmt('%d', mine)
            end
            -- Anything out of the ordinary is for the other way: two times, an end, out of order, early.
            plain = mine == at and flags < 64 and prio >= last and is_due <= now
            if not plain then
                break
            end
            is = put('>c1BI4I4I7I4I7', 'p', flags - flags % 4 + flags % 2 + 2 * held, ver + 1, prio, is_due,
                     attempts + 1, at) .. lease .. sub(h, 22)
            was, last, size, text = h, prio, bytes_of, by_due and fmt('%014x', is_due)
        end
        plain = not by_due or sub(members[i], 1, 14) == text
        if not plain then
            break
        end
        bytes = bytes + size
        if bytes > room and i > 1 then -- that is enough for one answer: the rest stays
            n, more = i - 1, true
            break
        end
        hs[2 * i - 1], hs[2 * i], add[2 * i - 1], add[2 * i] = ids[i], is, at_text, ids[i]
    end
    if plain then
        local bs = n > 0 and call('HMGET', BODY, unpack(ids, 1, n)) or {}
        local nxt, vers = more and now or nil, c[3] and fmt('%08x', tonumber(c[3])) or '00000000'
        if not more then
            first = first or call('ZRANGE', store, '(' .. till, '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
            nxt = math.min(tonumber(first[2] or 1e300), tonumber(ends[2] or 1e300), n > 0 and at or 1e300)
            nxt = nxt < 1e300 and nxt or nil
        end
        local reply = {'OK', fmt('%014x', now), vers, '', nxt and fmt('%014x', nxt) or '', more and '1' or '0'}
        for i = 1, n do
            reply[3 * i + 4], reply[3 * i + 5], reply[3 * i + 6] = ids[i], hs[2 * i], bs[i] or ''
        end
        if n < want and not more and wait > now then
            call('ZADD', KEYS[11], fmt('%d', wait), NODE)
        end
        if n > 0 then
            call('HSET', HEAD, unpack(hs, 1, 2 * n))
            call('ZADD', prep, unpack(add, 1, 2 * n))
            call('ZADD', AGENDA, 'LT', at_text, ARGV[7])
        end
        if now > tmax + 1000000 then
            call('HSET', META, 'tmax', till)
        end
        call('HSET', META, KIND .. NODE,
             OP .. put('>I2I2', 8, 0) .. vers .. lease .. table.concat(ids, '', 1, n))
        if n > 0 then
            call('ZREMRANGEBYRANK', from, '0', fmt('%d', n - 1)) -- they are its first ones, and all of them go
        end
        return reply
    end
end
--== all others

if kept then
    -- What the call before, whose answer was lost, has handed out, as far as it still holds.
    local reply, rest = recall(kept)
    local ids = {}
    reply[5], reply[6] = '', '1'
    for at = 9, #rest, 14 do
        ids[#ids + 1] = sub(rest, at, at + 13)
    end
    if #ids > 0 then
        local hs, bs = call('HMGET', HEAD, unpack(ids)), call('HMGET', BODY, unpack(ids))
        for i, id in ipairs(ids) do
            local n = #reply
            if hs[i] and sub(hs[i], 1, 1) == 'p' and sub(hs[i], 29, 36) == lease then
                reply[n + 1], reply[n + 2], reply[n + 3] = id, hs[i], bs[i] or ''
            end
        end
    end
    return reply
elseif off and want > 0 then
    return {'CLOCK', hex(now)}
end
local list, why = topics('dead_keep', 'dead_max', 'out', 'hold', 'in_flight', 'rate', 'burst', 'level',
                         'level_at')
if not list then
    return why
end
local t = list[1]

if want == 0 then
    local ids, last, rest = {}, slot_is[5] or '', ''
    if sub(last, 1, 14) > ARGV[REST + 8] then
        rest = select(2, recall(sub(last, 15)))
    end
    for at = 9, #rest, 14 do
        ids[#ids + 1] = sub(rest, at, at + 13)
    end
    for i, h in ipairs(#ids > 0 and call('HMGET', HEAD, unpack(ids)) or {}) do
        local j = h and load(t, ids[i], h)
        if j and j.set == 'p' and j.lease == sub(rest, 1, 8) then
            j.ver, j.attempts = j.ver + 1, max(j.attempts - 1, 0)
            wait_until(j, j.due)
            keep(j)
            t.freed = t.freed or t.in_flight
        end
    end
    local nodes, told = waiters(list)
    local vers = versions(list)
    commit(list, remember(vers, nodes, lease), told)
    return {'OK', hex(now), vers, nodes, '', '0'}
end

-- How many it may be, and when there may be more.
local allowed, later = want, nil
local paused = max(t.out or 0, t.hold or 0)
if paused > now then
    allowed, later = 0, paused
end
if t.rate then
    local level = t.level or t.burst
    t.level_now = math.min(t.burst, level + max(now - (t.level_at or 0), 0) * t.rate / 1e9)
    if t.level_now < allowed then
        allowed = floor(t.level_now)
        later = now + math.ceil((1 - (t.level_now - allowed)) * 1e9 / t.rate)
    end
end

local all, moved, ended = {}, {}, {}

-- The jobs behind these entries of a set, as they are now: all that could be handed out, and those
-- that are not any more where they were.
local function read(key, set, members)
    local ids, by_due = {}, set == 'r' and t.order == 'due'
    if #members == 0 then
        return
    end
    for i, member in ipairs(members) do
        ids[i] = by_due and sub(member, 15) or member
    end
    for i, h in ipairs(call('HMGET', HEAD, unpack(ids))) do
        local j = h and load(t, ids[i], h)
        if not j or j.set ~= set or (by_due and num(members[i], 1, 14) ~= j.due) then
            drop_entry(t, key, members[i]) -- left behind by half a script
        else
            j.key, j.member = key, members[i]
            if set == 'p' then
                ended[#ended + 1] = j
            end
            if set == 'p' or j.flags >= 64 then
                settle(j)
            end
            if j.set == 's' and j.due <= now then
                j.set = 'r'
            elseif j.set == 'r' and j.due > now then
                j.set = 's' -- the clock went back a little: it is not due any more
            end
            if j.set == 'r' then
                all[#all + 1] = j
            elseif j.set ~= set then
                moved[#moved + 1] = j
            end
        end
    end
end

local till, most = dec(now), tag ~= '' and 512 or want
local in_ready = call('ZRANGE', t.ready, 0, most)
local in_store = call('ZRANGE', t.store, '-inf', till, 'BYSCORE', 'LIMIT', 0, want + 65)
local in_prep = call('ZRANGE', t.prep, '-inf', till, 'BYSCORE', 'LIMIT', 0, 16)
local left = in_ready[most + 1] or in_store[want + 65] -- more than is looked at
in_ready[most + 1], in_store[want + 65] = nil, nil
read(t.ready, 'r', in_ready)
read(t.store, 's', in_store)
read(t.prep, 'p', in_prep)
if t.in_flight then
    allowed = max(0, math.min(allowed, t.in_flight - (call('ZCARD', t.prep) - #ended)))
end

for i = 2, #all do
    if not before(all[i - 1], all[i]) then -- as a rule they are in order, and sorting is dear
        table.sort(all, before)
        break
    end
end

-- Which of them, as far as there is room for their bodies.
local ids, bs, cut = {}, {}, false
for _, j in ipairs(all) do
    if #ids < allowed and (tag == '' or texts(j) == tag) then
        ids[#ids + 1] = j.id
    end
end
local bytes, k, n = 0, 0, #ids
while k < n do
    local some = call('HMGET', BODY, unpack(ids, k + 1, math.min(k + (bytes < 8192 * k and 8 or 1), n)))
    for i = 1, #some do
        bytes = bytes + #(some[i] or '')
        if bytes > room and k + i > 1 then
            n, cut = k + i - 1, true
            break
        end
        bs[ids[k + i]] = some[i] or ''
    end
    k = k + #some
end

local hs, rest = {}, left and 1 or 0
local at, at_text
ids = {}
for _, j in ipairs(all) do
    if bs[j.id] then
        local own = ttr
        if own == 0 and j.flags % 16 >= 8 then
            own = open(j).ttr
        end
        if own == 0 then
            own = 60000000
        end
        j.set, j.lease, j.ver, j.attempts = 'p', lease, j.ver + 1, j.attempts + 1
        j.flags = j.flags - j.flags % 4 + j.flags % 2 + 2 * held
        j.at = now + max(own, least)
        if j.at ~= at then
            at, at_text = j.at, dec(j.at)
            look_at(t, at)
        end
        local n, h = #ids, header(j)
        ids[n + 1], hs[n + 1] = j.id, h
        heads[2 * n + 1], heads[2 * n + 2] = j.id, h
        push_to(t.add, t.prep, at_text, j.id)
        if j.was_set ~= 'p' then
            push_to(t.drop, j.key, j.member)
        end
        if j.was_expiry then
            push_to(t.drop, t.expiry, j.id)
        end
    else
        rest = rest + 1
        if j.was_set ~= 'r' then
            moved[#moved + 1] = j
        end
    end
end
for _, j in ipairs(moved) do
    keep(j)
end
if #ids > 0 and t.rate then
    t.level_new = t.level_now - #ids
end

-- When there may be more: now, or when the first is due or the first lease ends.
local more = cut or (rest > 0 and allowed == want and (#ids == want or (left and tag == '')))
local nxt = more and now or later
local function sooner(when)
    nxt = math.min(nxt or when, when)
end
if not more then
    for _, key in ipairs({t.store, t.prep}) do
        local ahead = call('ZRANGE', key, '(' .. till, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
        if ahead[2] then
            sooner(tonumber(ahead[2]))
        end
    end
    for _, j in ipairs(moved) do
        if j.set == 's' then
            sooner(j.due) -- it was not in the store when that was looked at
        end
    end
    if t.look then
        sooner(t.look)
    end
end
trim(t)
local nodes, told = waiters(list)
if #ids < want and not cut and wait > now then
    call('ZADD', t.wait, dec(wait), NODE)
    told = {} -- and it is told again when there is more
end
local vers = versions(list)
commit(list, remember(vers, nodes, lease .. table.concat(ids)), told)

local reply = {'OK', hex(now), vers, nodes, nxt and hex(nxt) or '', more and '1' or '0'}
for i, id in ipairs(ids) do
    reply[3 * i + 4], reply[3 * i + 5], reply[3 * i + 6] = id, hs[i], bs[id]
end
return reply
