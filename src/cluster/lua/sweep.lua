-- What nodes that are long dead have left in a slot's meta: the number and the answer of their last calls.
-- KEYS: meta. ARGV: uuid, run, then the names of those nodes: no call of theirs can still be on its way.
-- OK, and how many fields went.

local META = KEYS[1]
local got = redis.call('HMGET', META, 'uuid', 'run')
if not got[1] then
    return {'NOSLOT'}
elseif got[1] ~= ARGV[1] then
    return {'OTHER', got[1]}
elseif got[2] ~= ARGV[2] then
    return {'CHECK'}
end
local dead, old = {}, {}
for i = 3, #ARGV do
    dead[ARGV[i]] = true
end
for _, field in ipairs(redis.call('HKEYS', META)) do
    if #field == 17 and dead[string.sub(field, 2)] and #old < 1000 then
        old[#old + 1] = field -- a letter and a name
    end
end
if #old > 0 then
    redis.call('HDEL', META, unpack(old))
end
return {'OK', tostring(#old)}
