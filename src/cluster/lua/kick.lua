-- Brings back dead jobs of a topic, those that died first; if there is none, delayed ones. ARGV[REST]:
-- at most how many, 1: of the beanstalk port, d or s: only dead or only delayed ones. At the end of the
-- reply: d or s, and how many it were, in hex.

local KIND = 'k'
--==

if kept then
    local reply, rest = recall(kept)
    reply[5], reply[6] = sub(rest, 1, 1), sub(rest, 2)
    return reply
end
local list, why = topics('dead_keep')
if not list then
    return why
end
local t, most, beanstalk = list[1], tonumber(ARGV[REST]), ARGV[REST + 1] == '1'

local only = ARGV[REST + 2]
local key, set, members = t.dead, 'd', only ~= 's' and call('ZRANGE', t.dead, 0, most - 1) or {}
if #members == 0 and only ~= 'd' then
    key, set = t.store, 's'
    members = call('ZRANGE', t.store, '(' .. dec(now), '+inf', 'BYSCORE', 'LIMIT', 0, most)
end
local count = 0
if #members > 0 then
    for i, h in ipairs(call('HMGET', HEAD, unpack(members))) do
        local j = h and open(load(t, members[i], h))
        if j and j.set == set then
            if set == 'd' and (not beanstalk or j.why == WHY_RETRIES) then
                j.attempts = 0
            end
            j.ver, j.kicks, j.why = j.ver + 1, j.kicks + 1, 0
            wait_until(j, now)
            keep(j)
            count = count + 1
        else
            drop_entry(t, key, members[i])
        end
    end
end
local nodes, told = waiters(list)
local vers = versions(list)
commit(list, remember(vers, nodes, set .. hex(count)), told)
return {'OK', hex(now), vers, nodes, set, hex(count)}
