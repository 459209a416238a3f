-- Brings back dead jobs of a topic, those that died first; if there is none, delayed ones. ARGV[REST]:
-- at most how many, 1: of the beanstalk port. The last item of the reply: how many it were, in hex.

local done = begin('k')
if done then
    return done
end
local list, why = topics()
if not list then
    return why
end
local t, most, beanstalk = list[1], tonumber(ARGV[REST]), ARGV[REST + 1] == '1'

local key, members = t.dead, call('ZRANGE', t.dead, 0, most - 1)
if #members == 0 then
    key = t.store
    members = call('ZRANGE', t.store, '(' .. dec(now), '+inf', 'BYSCORE', 'LIMIT', 0, most)
end
local count = 0
if #members > 0 then
    for i, h in ipairs(call('HMGET', HEAD, unpack(members))) do
        local j = h and load(t, members[i], h)
        if j and j.was_key == key then
            if j.set == 'd' and (not beanstalk or j.why == WHY_RETRIES) then
                j.attempts = 0
            end
            j.ver, j.kicks, j.why, j.delay = j.ver + 1, j.kicks + 1, 0, 0
            wait_until(j, now)
            keep(j)
            count = count + 1
        else
            drop_entry(t, key, members[i])
        end
    end
end
local nodes, told = waiters(list)
local reply = {'OK', hex(now), versions(list), nodes, hex(count)}
commit('k', list, reply, told)
return reply
