-- A page of all that a slot has, in no order, so that it can be compared with rows. ARGV[REST]: what time it is
-- by the database, where to go on (0: at the beginning), about how many. What is there from the first page to
-- the last is met; some twice. HSCAN is of one key and looks at so many buckets: this is no walk through all of
-- them. Writes nothing.
--
-- OK, now, '', '', where to go on (0: that was all), then id and header of each.

local KIND = 'n'
local now = tonumber(ARGV[REST])
--==

assert(slot_is) -- of this store, and with a life of the server that the node knows
local list, why = topics()
if not list then
    return why
end
local page = call('HSCAN', HEAD, ARGV[REST + 1], 'COUNT', ARGV[REST + 2])
local reply = {'OK', hex(now), versions(list), '', page[1]}
for i, text in ipairs(page[2]) do
    reply[5 + i] = text
end
return reply
