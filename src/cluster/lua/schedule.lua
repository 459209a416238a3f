-- Adds memory.
-- A schedule of this slot: it is set, moved on, or ends; with the job that it makes, if it makes one. The last
-- of KEYS: schedules. ARGV[REST]: what, name, the stamp that it must have (empty: there is none), then
--
--     s set       its new stamp, held (h or -), live (k: as it is, n: none, j: the job that is made), state, the
--                 definition (empty: as it is), next tick (us; empty: none), entry of the agenda that is done
--                 (empty: none), highest sequence number that the node has seen, slot; and if a job is made what and
--                 body, as push has them, with an exact due time
--     r run       a job beside all ticks: the stamp and all up to the job are empty but for seen and slot
--     l later     an entry of the agenda with which nothing can be done now, and for how long (us): it would stand
--                 in the way of others
--     g gone      the entry of the agenda that is done; a stamp of * is any
--
-- A schedule is two fields: d<name>: its definition; s<name>: stamp (30), held (1), live (14: the id of the
-- occurrence that lives, or 0), state. Each change has a stamp that no other one has: so a tick is made once, by
-- whoever read the state before it first, however many owners there are.
--
-- O id due (of the job, else 0): done; C: the stamp is another one; P, F: the topic takes no job now, or no more;
-- then, of a tick, the schedule is held, and on the agenda again in a second.

local KIND = 's'
--==

if kept then
    local reply, rest = recall(kept)
    return unpack_to(reply, rest, 1)
end
local list, why = topics('in', 'max_jobs', 'max_bytes', 'ttr', 'ttl', 'retries', 'backoff')
if not list then
    return why
end
local t, PLAN, what, name, stamp = list[1], KEYS[#KEYS], ARGV[REST], ARGV[REST + 1], ARGV[REST + 2]
local is = call('HGET', PLAN, 's' .. name) or ''
local mark, done, id, due = '@' .. name, {}, hex(0), 0

local function answer(said)
    local nodes, told = waiters(list)
    local vers = versions(list)
    commit(list, remember(vers, nodes, pack({said})), told)
    if #done > 0 then
        call('ZREM', AGENDA, unpack(done))
    end
    return {'OK', hex(now), vers, nodes, said}
end

if what == 'l' then
    call('ZADD', AGENDA, dec(now + tonumber(ARGV[REST + 4])), ARGV[REST + 3])
    return answer('O' .. id .. id)
end
if sub(is, 1, 30) ~= stamp and stamp ~= '*' and what ~= 'r' then
    return answer('C')
end
if what == 'g' then
    done = {mark, ARGV[REST + 3] ~= '' and ARGV[REST + 3] or nil}
    local said = answer('O' .. id .. id)
    call('HDEL', PLAN, 's' .. name, 'd' .. name)
    return said
end

local at = REST + 3
local next_stamp, held, live, state, def, nxt, entry = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3],
                                                       ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
if what == 's' and entry ~= '' and clock_is_off() then
    return {'CLOCK', hex(now)}
end
local job, body = ARGV[at + 9], ARGV[at + 10]
if job and slot_is[2] ~= life() then
    return {'CHECK'}
end
if job then
    local kind, time, _, flags, prio = get('>c1I7I7BI4', job, 3)
    local no = (t['in'] or 0) > now and 'P' or (is_full(t) or is_heavy(t, #body, 0)) and 'F'
    if no then
        if what == 's' then
            call('HSET', PLAN, 's' .. name, sub(is, 1, 30) .. 'h' .. sub(is, 32))
            call('ZADD', AGENDA, dec(now + 1000000), mark)
        end
        return answer(no)
    end
    seq = next_seq(tonumber(ARGV[at + 7]))
    meta[1], meta[2] = 'seq', dec(seq)
    id, due = hex(seq * 1024 + tonumber(ARGV[at + 8])), kind == 'a' and time or now
    keep(fresh(t, id, put('>c1BI4I4I7I4I7I7I3', due <= now and 'r' or 's', flags, 1, prio, due, 0, now, 0, #body) ..
                      sub(job, 26)), body)
end
if what == 's' then
    live = live == 'j' and id or live == 'k' and sub(is, 32, 45) or hex(0)
    call('HSET', PLAN, 's' .. name, next_stamp .. held .. live .. state)
    if def ~= '' then
        call('HSET', PLAN, 'd' .. name, def)
    end
    if nxt ~= '' then
        call('ZADD', AGENDA, nxt, mark)
    else
        done[1] = mark
    end
    if entry ~= '' and entry ~= mark then
        done[#done + 1] = entry
    end
end
return answer('O' .. id .. hex(due))
