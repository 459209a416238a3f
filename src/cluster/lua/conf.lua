-- The settings of a topic in this slot. ARGV[REST]: their version; then names and values, an empty one
-- means: none; and with a database, behind them, what time it is by that: who waits does so by it. An older
-- version than the one that is there changes nothing. Spread and order are not fixed by settings: see fix.lua.

local KIND = 'c'
local own = (#ARGV - REST) % 2 == 1 and tonumber(ARGV[#ARGV])
local clock = own and {0, own} or call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local agrees = not own and math.abs(now - tonumber(ARGV[5])) <= 5000000
--==

local list, why = topics()
if not list then
    return why
end
local t = list[1]
local unset = {}
if tonumber(ARGV[REST]) > tonumber(t.pv) then
    local set = {'pv', ARGV[REST]}
    for at = REST + 1, #ARGV - 1, 2 do
        if ARGV[at + 1] ~= '' then
            set[#set + 1], set[#set + 2] = ARGV[at], ARGV[at + 1]
        else
            unset[#unset + 1] = ARGV[at]
        end
    end
    call('HSET', t.conf, unpack(set))
    t.pv, t.freed = ARGV[REST], true -- who waits may have been held back by the old ones
    t.over = not own and call('ZCARD', t.dead) > 0 -- there may be more than may be kept now
    if t.over then
        look_at(t, now)
    end
end
local nodes, told = waiters(list)
if #unset > 0 then
    call('HDEL', t.conf, unpack(unset))
end
commit(list, nil, told)
return {'OK', hex(now), versions(list), nodes}
