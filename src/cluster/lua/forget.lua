-- Forgets a topic of this slot, if it has no jobs, settings and waiters. OK, now, versions, '', 1: it is gone,
-- or was not there. It can be repeated without harm, so it keeps no reply.

local KIND = 'z'
--==

local list, why = topics('hold')
if not list then
    return why
end
local t = list[1]
local gone = t.is_new and t.pv == '0'
if not gone and t.pv == '0' and t.spread == '1' and (t.hold or 0) <= now and
    call('ZCARD', t.store) + call('ZCARD', t.ready) + call('ZCARD', t.prep) + call('ZCARD', t.dead) == 0 and
    #call('ZRANGE', t.wait, dec(now), '+inf', 'BYSCORE', 'LIMIT', 0, 1) == 0 then
    gone = true
end
if gone then
    call('ZREM', AGENDA, t.name)
    call('DEL', t.conf)
    call('DEL', t.wait)
end
return {'OK', hex(now), versions(list), '', gone and '1' or '0'}
