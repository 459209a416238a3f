-- The settings of a topic in this slot. ARGV[REST]: their version; then names and values, an empty one
-- means: none. An older version than the one that is there changes nothing. Spread and order are not
-- fixed by settings: see fix.lua.

local KIND = 'c'
--==

local list, why = topics()
if not list then
    return why
end
local t = list[1]
local unset = {}
if tonumber(ARGV[REST]) > tonumber(t.pv) then
    local set = {'pv', ARGV[REST]}
    for at = REST + 1, #ARGV, 2 do
        if ARGV[at + 1] ~= '' then
            set[#set + 1], set[#set + 2] = ARGV[at], ARGV[at + 1]
        else
            unset[#unset + 1] = ARGV[at]
        end
    end
    call('HSET', t.conf, unpack(set))
    t.pv, t.freed = ARGV[REST], true -- who waits may have been held back by the old ones
end
local nodes, told = waiters(list)
if #unset > 0 then
    call('HDEL', t.conf, unpack(unset))
end
commit(list, nil, told)
return {'OK', hex(now), versions(list), nodes}
