-- The beanstalk port's pause of a topic, beside the one of its settings. ARGV[REST]: how long (us; 0: it
-- goes on). OK, now, versions, waiters.

local KIND = 'u'
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
call('HSET', t.conf, 'spread', t.spread, 'order', t.order, 'hold', dec(us > 0 and now + us or 0), 'hold_us',
     dec(us), 'holds', dec((t.holds or 0) + 1))
local nodes, told = waiters(list)
local vers = versions(list)
commit(list, remember(vers, nodes, ''), told)
return {'OK', hex(now), vers, nodes}
