-- Jobs as they are now; nothing is written. ARGV[REST]: 1: with bodies; then ids, each with the number
-- of its topic (2 hex) before it. For each: header or empty; body or empty.
--
-- What time did to a job that nobody has touched since is told as if it had been done.

local got = call('HGET', META, 'uuid')
if not got then
    return {'NOSLOT'}
elseif got ~= ARGV[1] then
    return {'OTHER', got}
end
local list, why = topics()
if not list then
    return why
end
local ids = {}
for at = REST + 1, #ARGV do
    ids[#ids + 1] = sub(ARGV[at], 3)
end
local hs = call('HMGET', HEAD, unpack(ids))
local bs = ARGV[REST] == '1' and call('HMGET', BODY, unpack(ids)) or {}
local reply = {'OK', hex(now), versions(list), ''}
for i, h in ipairs(hs) do
    if h then
        local j = load(list[num(ARGV[REST + i], 1, 2)], ids[i], h)
        settle(j)
        h = header(j)
    end
    reply[#reply + 1], reply[#reply + 2] = h or '', bs[i] or ''
end
return reply
