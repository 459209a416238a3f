-- Changes jobs by id. For each: what, and for E tag and body, too; what = kind, topic (2 hex), id (14),
-- lease (16), and behind that:
--
--     A ack       -
--     C cancel    1: reserved or not
--     R release   d delay (14) | b; k | priority (8)      b: by the backoff, k: the priority it has
--     G give back -                                       as if it had never been handed out
--     B bury      k | priority (8)
--     T touch     ttr (14), 0: as before
--     F fire      -
--     K kick      1: of the beanstalk port
--     E edit      mask (2: due 1, priority 2, ttr 4, body 8, ttl 16, tag 32), d | a, time (14), age (14),
--                 priority (8), ttr (14), ttl (14)
--
-- For each: O and the header, or for A and C the set it was in (s, r, p, d); D header: it died of that
-- release; N: there is none; L header: the lease is lost; S header: another state is in the way.

local done = begin('e')
if done then
    return done
end
local list, why = topics()
if not list then
    return why
end

local ids, at = {}, REST
while at <= #ARGV do
    ids[#ids + 1] = sub(ARGV[at], 4, 17)
    at = at + (sub(ARGV[at], 1, 1) == 'E' and 3 or 1)
end
local jobs = {}
for i, h in ipairs(call('HMGET', HEAD, unpack(ids))) do
    jobs[ids[i]] = h or nil
end

local function due_of(what, from)
    local time, age = num(what, from + 1, from + 14), num(what, from + 15, from + 28)
    if sub(what, from, from) == 'd' then
        return base - age + time, time
    end
    return math.max(time, base), math.max(time - base, 0)
end

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
    if j.set == 'p' and sub(what, 34, 34) ~= '1' then
        return 'S' .. header(j)
    end
    j.gone = true
    local ready = j.set == 's' and j.due <= now
    return 'O' .. (ready and 'r' or j.set)
end

function act.R(j, what)
    j.releases = j.releases + 1
    if sub(what, 34, 34) == 'd' then
        priority(j, what, 49)
        retire(j, base, num(what, 35, 48))
    else
        priority(j, what, 35)
        retire(j, base)
    end
    return (j.set == 'd' and 'D' or 'O') .. header(j)
end

function act.G(j)
    j.ver, j.attempts = j.ver + 1, math.max(j.attempts - 1, 0)
    wait_until(j, j.due)
    return 'O' .. header(j)
end

function act.B(j, what)
    priority(j, what, 34)
    j.ver, j.buries = j.ver + 1, j.buries + 1
    die(j, WHY_BURIED)
    return 'O' .. header(j)
end

function act.T(j, what)
    local ttr = num(what, 34, 47)
    if ttr == 0 then
        ttr = j.ttr > 0 and j.ttr or j.t.ttr
    end
    j.ver, j.at = j.ver + 1, now + ttr
    return 'O' .. header(j)
end

function act.F(j)
    if not (j.set == 's' and j.due > now) then
        return 'S' .. header(j)
    end
    j.ver, j.delay = j.ver + 1, 0
    wait_until(j, now)
    return 'O' .. header(j)
end

function act.K(j, what)
    local delayed = j.set == 's' and j.due > now
    if j.set ~= 'd' and not delayed then
        return 'S' .. header(j)
    end
    -- beanstalkd goes on counting; but one that has used up its attempts would die at once.
    if j.set == 'd' and (sub(what, 34, 34) ~= '1' or j.why == WHY_RETRIES) then
        j.attempts = 0
    end
    j.ver, j.kicks, j.why, j.delay = j.ver + 1, j.kicks + 1, 0, 0
    wait_until(j, now)
    return 'O' .. header(j)
end

function act.E(j, what, tag, body)
    local mask = num(what, 34, 35)
    local function has(bit)
        return floor(mask / bit) % 2 == 1
    end
    if j.set == 'p' or j.set == 'd' then
        return 'S' .. header(j)
    end
    j.ver = j.ver + 1
    if has(2) then
        j.prio = num(what, 65, 72)
    end
    if has(4) then
        j.ttr = num(what, 73, 86)
    end
    if has(16) then
        j.ttl = num(what, 87, 100)
        j.flags = j.flags - floor(j.flags / 4) % 2 * 4 + (j.ttl > 0 and 4 or 0)
        j.ttl = j.ttl > 0 and j.ttl or j.t.ttl
    end
    if has(32) then
        local name, _, key, text = split_names(j.names)
        j.names = join_names(name, tag, key, text)
    end
    if has(8) then
        j.body = body
    end
    if has(1) then
        local due
        due, j.delay = due_of(what, 36)
        wait_until(j, due)
    end
    return 'O' .. header(j)
end

local LEASED = {A = true, R = true, G = true, B = true, T = true}

local function change(what, tag, body)
    local kind, id, lease = sub(what, 1, 1), sub(what, 4, 17), sub(what, 18, 33)
    local j = jobs[id]
    if j and type(j) == 'string' then
        j = load(list[num(what, 2, 3)], id, j)
        jobs[id] = j
        local ver = j.ver
        settle(j)
        j.changed = j.ver ~= ver
    end
    if not j or j.gone then
        return 'N'
    end
    if LEASED[kind] and (j.set ~= 'p' or j.lease ~= lease) then
        return 'L' .. header(j)
    end
    local said = act[kind](j, what, tag, body)
    j.changed = j.changed or sub(said, 1, 1) ~= 'S'
    return said
end

local replies, order, seen = {}, {}, {}
at = REST
while at <= #ARGV do
    local what = ARGV[at]
    local id = sub(what, 4, 17)
    replies[#replies + 1] = change(what, ARGV[at + 1], ARGV[at + 2])
    if not seen[id] then
        seen[id], order[#order + 1] = true, id
    end
    at = at + (sub(what, 1, 1) == 'E' and 3 or 1)
end

for _, id in ipairs(order) do
    local j = jobs[id]
    if j and j.was_set == 'p' and j.t.in_flight and (j.gone or j.set ~= 'p') then
        j.t.freed = true
    end
    if j and j.gone then
        forget(j)
    elseif j and j.changed then
        keep(j, j.body)
    end
end
local nodes, told = waiters(list)
local reply = {'OK', hex(now), versions(list), nodes, unpack(replies)}
commit('e', list, reply, told)
return reply
