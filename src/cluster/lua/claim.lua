-- Claims jobs of one topic for a node, which then asks the database whether they are to be had: the row
-- decides. ARGV[REST]: what time it is by the database, how many, tag, wait until (us; 0: does not wait), how
-- many of those that time has changed, the version of the topic's settings that the node knows, and how many
-- bytes of bodies there may be (but one job always). How many is 0: only what time has changed; so the slot's
-- owner looks after a topic.
--
-- A claim ends after three seconds, if no image of the row (index.lua) comes before: then the entry is to be
-- claimed again. It is a lease that is none: the version and all else of the header are as they were.
--
-- OK, now, versions, waiters, next (when to ask again, or empty), more (1: at once), loaded, how many wait,
-- about how many bytes their bodies have; then all jobs in one text: C (claimed) or E (its lease has ended, or it has expired: time has changed the
-- row) and id of each. What is kept of the answer: those.

local KIND = 'q'
local now, agrees = tonumber(ARGV[REST]), false
--==

local list, why = topics('out', 'hold', 'in_flight', 'rate', 'burst', 'level', 'level_at', 'loaded')
if not list then
    return why
end
local t, want, tag = list[1], tonumber(ARGV[REST + 1]), ARGV[REST + 2]
local wait, most = tonumber(ARGV[REST + 3]), tonumber(ARGV[REST + 4])
local loaded = hex(t.loaded or 0)
local left = call('ZCARD', t.store) + call('ZCARD', t.ready)
local room, bytes = tonumber(ARGV[REST + 6]), 0

local function size_of(j)
    return (get('>I3', j.h, j.rest + 14)) -- behind two times
end

if kept then
    -- What the call before, whose answer was lost, has claimed, as far as it still is.
    local reply, rest = recall(kept)
    local ids, out = {}, {}
    for at = 1, #rest, 15 do
        ids[#ids + 1] = sub(rest, at + 1, at + 14)
    end
    for i, h in ipairs(#ids > 0 and call('HMGET', HEAD, unpack(ids)) or {}) do
        local j = h and load(t, ids[i], h)
        if j and j.set == 'p' and j.lease == NO_LEASE then
            out[#out + 1], bytes = sub(rest, 15 * i - 14, 15 * i), bytes + size_of(j)
        end
    end
    reply[5], reply[6], reply[7], reply[8] = '', '1', loaded, hex(left)
    reply[9], reply[10] = hex(bytes), table.concat(out)
    return reply
end

-- How many it may be, and when there may be more. A slot that has older settings than there are, as it was
-- emptied, hands out nothing: they may say that the topic is paused.
local allowed, later = want, nil
if tonumber(t.pv) < tonumber(ARGV[REST + 5]) then
    allowed, later = 0, now + 50000
end
local paused = max(t.out or 0, t.hold or 0)
if paused > now then
    allowed, later = 0, later or paused
end
if t.rate then
    local level = t.level or t.burst
    t.level_now = math.min(t.burst, level + max(now - (t.level_at or 0), 0) * t.rate / 1e9)
    if t.level_now < allowed then
        allowed = floor(t.level_now)
        later = now + math.ceil((1 - (t.level_now - allowed)) * 1e9 / t.rate)
    end
end

-- What can be claimed; what is not any more where it was; what time has changed.
local all, moved, over, back = {}, {}, {}, 0

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
        elseif (set == 'p' and j.lease ~= NO_LEASE) or (j.was_expiry or now + 1) <= now then
            if #over < most then
                over[#over + 1] = j
            end
        elseif j.due > now then
            if set ~= 's' then
                j.set, j.at = 's', 0
                moved[#moved + 1] = j
            end
        else
            j.set, back = 'r', back + (set == 'p' and 1 or 0)
            all[#all + 1] = j
        end
    end
end

local till, look = dec(now), tag ~= '' and 512 or want
local behind -- there is more than is looked at
if want > 0 then
    local in_ready = call('ZRANGE', t.ready, 0, look)
    local in_store = call('ZRANGE', t.store, '-inf', till, 'BYSCORE', 'LIMIT', 0, want + 65)
    behind = in_ready[look + 1] or in_store[want + 65]
    in_ready[look + 1], in_store[want + 65] = nil, nil
    read(t.ready, 'r', in_ready)
    read(t.store, 's', in_store)
end
read(t.prep, 'p', call('ZRANGE', t.prep, '-inf', till, 'BYSCORE', 'LIMIT', 0, most))
if t.in_flight then
    allowed = max(0, math.min(allowed, t.in_flight - (call('ZCARD', t.prep) - back)))
end
for i = 2, #all do
    if not before(all[i - 1], all[i]) then
        table.sort(all, before)
        break
    end
end

-- Those that have expired, and that nobody asks for.
local ended = want == 0 and call('ZRANGE', t.expiry, '-inf', till, 'BYSCORE', 'LIMIT', 0, most) or {}
for i, h in ipairs(#ended > 0 and call('HMGET', HEAD, unpack(ended)) or {}) do
    local j = h and load(t, ended[i], h)
    if not j or not j.was_expiry then
        drop_entry(t, t.expiry, ended[i])
    elseif #over < most then
        over[#over + 1] = j
    end
end

local out, claims, rest, cut = {}, 0, 0, false

local function waits(set)
    return (set == 's' or set == 'r') and 1 or 0
end

local function put_back(j)
    left = left + waits(j.set) - waits(j.was_set)
    keep(j)
end

local function claim(j, letter)
    j.set, j.lease, j.at = 'p', NO_LEASE, now + 3000000
    out[#out + 1] = letter .. j.id
    put_back(j)
end

-- Is there room for its body? If not, it is left for the next call, as is all behind it.
local function fits(j)
    local size = size_of(j)
    cut = cut or (want > 0 and #out > 0 and bytes + size > room)
    bytes = bytes + (cut and 0 or size)
    return not cut
end

for _, j in ipairs(over) do
    if fits(j) then
        claim(j, 'E')
    end
end
for _, j in ipairs(all) do
    if claims < allowed and (tag == '' or texts(j) == tag) and fits(j) then
        claim(j, 'C')
        claims = claims + 1
    else
        rest = rest + 1
        if j.was_set ~= 'r' then
            moved[#moved + 1] = j
        end
    end
end
for _, j in ipairs(moved) do
    put_back(j)
end
if claims > 0 and t.rate then
    t.level_new = t.level_now - claims
end

-- When there may be more: now, or when the first is due, or the first claim or lease ends.
local more = want > 0 and allowed == want and
                 ((claims == want and (rest > 0 or behind)) or (claims < want and behind and tag == ''))
more = more or cut or #over == most
local nxt = more and now or later
local function sooner(when)
    nxt = math.min(nxt or when, when)
end
local function first_of(key)
    local ahead = call('ZRANGE', key, '(' .. till, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    if ahead[2] then
        sooner(tonumber(ahead[2]))
    end
end
if not more and want > 0 then
    first_of(t.store)
end
if not more then
    first_of(t.prep)
end
if want == 0 then
    first_of(t.expiry)
end
for _, j in ipairs(moved) do
    if j.set == 's' then
        sooner(j.due) -- it was not in the store when that was looked at
    end
end
if t.look then
    sooner(t.look)
end

local nodes, told = waiters(list)
if claims < want and not cut and wait > now then
    call('ZADD', t.wait, dec(wait), NODE)
    told = {} -- and it is told again when there is more
end
local vers = versions(list)
local stays = not t.is_new or is_first(t)
if want == 0 then
    t.look = nil
    if nxt or stays then -- as in tend.lua
        call('ZADD', AGENDA, dec(nxt or now + DAY), t.name)
    end
end
commit(list, remember(vers, nodes, table.concat(out)), told)
if want == 0 and not nxt and not stays then
    call('ZREM', AGENDA, t.name)
end
return {'OK', hex(now), vers, nodes, nxt and hex(nxt) or '', more and '1' or '0', loaded, hex(left),
        hex(bytes), table.concat(out)}
