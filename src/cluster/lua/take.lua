-- Hands out jobs of one topic. ARGV[REST]: how many, lease (16), time to run (us; 0: the job's own),
-- tag, wait until (us; 0: does not wait), held by a connection (0 or 1).
--
-- OK, now, versions, waiters, next (when to ask again, or empty), more (1: at once); then for each
-- id, header, body. CLOCK: this server's clock is off, nothing is handed out.

local want, lease = tonumber(ARGV[REST]), ARGV[REST + 1]
local ttr, tag, wait = tonumber(ARGV[REST + 2]), ARGV[REST + 3], tonumber(ARGV[REST + 4])
local held = tonumber(ARGV[REST + 5])

-- What the call before, whose answer was lost, has handed out, as far as it still holds.
local function again(ids)
    local reply = {'OK', hex(now), '00000000', '', '', '1'}
    if #ids > 0 then
        local hs, bs = call('HMGET', HEAD, unpack(ids)), call('HMGET', BODY, unpack(ids))
        for i, id in ipairs(ids) do
            if hs[i] and sub(hs[i], 1, 1) == 'p' and sub(hs[i], 46, 61) == lease then
                reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = id, hs[i], bs[i] or ''
            end
        end
    end
    return reply
end

local done, known = begin('t')
if known then
    return again(done)
elseif done then
    return done
elseif clock_is_off() then
    return {'CLOCK', hex(now)}
end
local list, why = topics()
if not list then
    return why
end
local t = list[1]

-- How many it may be, and when there may be more.
local allowed, later = want, nil
if t.out > now then
    allowed, later = 0, t.out
end
if t.rate then
    local level = t.level or t.burst
    t.level_now = math.min(t.burst, level + math.max(now - t.level_at, 0) * t.rate / 1e9)
    if t.level_now < allowed then
        allowed = floor(t.level_now)
        later = now + math.ceil((1 - (t.level_now - allowed)) * 1e9 / t.rate)
    end
end

local function read(key, members)
    local ids, jobs = {}, {}
    for i, member in ipairs(members) do
        ids[i] = sub(member, -14)
    end
    if #ids > 0 then
        for i, h in ipairs(call('HMGET', HEAD, unpack(ids))) do
            local j = h and load(t, ids[i], h)
            if j and j.was_key == key and j.was_member == members[i] then
                settle(j)
                jobs[#jobs + 1] = j
            else
                drop_entry(t, key, members[i]) -- left behind by half a script
            end
        end
    end
    return jobs
end

local out = call('ZCARD', t.prep)
local ended = read(t.prep, call('ZRANGE', t.prep, '-inf', dec(now), 'BYSCORE', 'LIMIT', 0, 16))
local due = read(t.store, call('ZRANGE', t.store, '-inf', dec(now), 'BYSCORE', 'LIMIT', 0, want + 64))
local ready = read(t.ready, call('ZRANGE', t.ready, 0, (tag ~= '' and 512 or want) - 1))
local ahead = call('ZRANGE', t.store, '(' .. dec(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
local left = call('ZCOUNT', t.store, '-inf', dec(now)) - #due + call('ZCARD', t.ready) - #ready
if t.in_flight then
    allowed = math.max(0, math.min(allowed, t.in_flight - (out - #ended)))
end

local all, moved = {}, {}
for _, jobs in ipairs({ended, due, ready}) do
    for _, j in ipairs(jobs) do
        if j.set == 's' and j.due <= now then
            j.set = 'r'
        elseif j.set == 'r' and j.due > now then
            j.set = 's' -- the clock went back a little: it is not due any more
        end
        if j.set == 'r' then
            all[#all + 1] = j
        end
        if j.set ~= j.was_set then
            moved[#moved + 1] = j
        end
    end
end
table.sort(all, function(a, b)
    if a.prio ~= b.prio then
        return a.prio < b.prio
    elseif t.order == 'due' and a.due ~= b.due then
        return a.due < b.due
    end
    return a.id < b.id
end)

local chosen, ids, rest = {}, {}, left
for _, j in ipairs(all) do
    local _, its = split_names(j.names)
    if #chosen < allowed and (tag == '' or its == tag) then
        chosen[#chosen + 1], ids[#ids + 1] = j, j.id
        j.set, j.lease, j.ver, j.attempts = 'p', lease, j.ver + 1, j.attempts + 1
        j.at = now + (ttr > 0 and ttr or (j.ttr > 0 and j.ttr or t.ttr))
        j.flags = j.flags - floor(j.flags / 2) % 2 * 2 + 2 * held
        if j.was_set == 'r' or j.was_set == 'p' then
            moved[#moved + 1] = j
        end
    else
        rest = rest + 1
    end
end

local seen = {}
for _, j in ipairs(moved) do
    if not seen[j.id] then
        seen[j.id] = true
        keep(j)
    end
end
if #chosen > 0 and t.rate then
    t.level_new = t.level_now - #chosen
end
if t.soonest and rest == 0 and t.soonest <= now then
    t.soonest = nil -- all of it is handed out here
end
local nodes, told = waiters(list)
local bs = #ids > 0 and call('HMGET', BODY, unpack(ids)) or {}
local nxt = later
if ahead[2] then
    nxt = math.min(nxt or tonumber(ahead[2]), tonumber(ahead[2]))
end
for _, j in ipairs(ended) do
    if j.set == 's' then
        nxt = math.min(nxt or j.due, j.due)
    end
end
if #chosen == 0 and wait > now then
    call('ZADD', t.wait, dec(wait), NODE)
    for i = #told, 1, -1 do
        if told[i] == t.wait then
            table.remove(told, i) -- and it is told again when there is more
        end
    end
end
commit('t', list, ids, told)

local more = '0'
if rest > 0 and allowed == want and (#chosen == want or (left > 0 and tag == '')) then
    more = '1'
end
local reply = {'OK', hex(now), versions(list), nodes, nxt and hex(nxt) or '', more}
for i, j in ipairs(chosen) do
    reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = j.id, header(j), bs[i] or ''
end
return reply
