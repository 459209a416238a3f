-- How many jobs of topics are due in each step ahead; nothing is written. ARGV[REST]: from (us), step (us),
-- steps. OK, now, versions, '', and one text: 14 hex digits for each step.

local is = call('HGET', META, 'uuid')
if not is then
    return {'NOSLOT'}
elseif is ~= ARGV[1] then
    return {'OTHER', is}
end
local list, why = topics()
if not list then
    return why
end
local from, step, steps = tonumber(ARGV[REST]), tonumber(ARGV[REST + 1]), tonumber(ARGV[REST + 2])
local out = {}
for i = 1, steps do
    local low, high, sum = dec(from + (i - 1) * step), '(' .. dec(from + i * step), 0
    for _, t in ipairs(list) do
        sum = sum + call('ZCOUNT', t.store, low, high)
    end
    out[i] = hex(sum)
end
return {'OK', hex(now), versions(list), '', table.concat(out)}
