-- The beanstalk port's pause of a topic, beside the one of its settings. ARGV[REST]: how long (us; 0: it
-- goes on), whether it counts as a pause (1 or 0); and with a database what time it is by that, since claims go
-- by it. OK, now, versions, waiters.

local KIND = 'u'
local own = tonumber(ARGV[REST + 2])
local clock = own and {0, own} or call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local agrees = not own and math.abs(now - tonumber(ARGV[5])) <= 5000000
--==

if kept then
    return (recall(kept))
end
local list, why = topics('holds')
if not list then
    return why
end
local t, us = list[1], tonumber(ARGV[REST])
t.freed = us == 0
call('HSET', t.conf, 'hold', dec(us > 0 and now + us or 0), 'hold_us', dec(us), 'holds',
    dec((t.holds or 0) + tonumber(ARGV[REST + 1])))
if t.is_new then
    look_at(t, now + DAY) -- it is there from now on
end
local nodes, told = waiters(list)
local vers = versions(list)
commit(list, remember(vers, nodes, ''), told)
return {'OK', hex(now), vers, nodes}
