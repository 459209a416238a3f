-- How many slots a topic has, before its first job. KEYS: meta and settings of the topic, in the first of its
-- slots, which it has whatever its spread is: so one step decides. ARGV: uuid, spread.
--
-- OK; or SPREAD, so many: that was fixed, by the first job or by somebody else; or OTHER, uuid. A repeat is
-- answered as the first time.

local META, conf = KEYS[1], KEYS[2]
local uuid = redis.call('HGET', META, 'uuid')
if uuid and uuid ~= ARGV[1] then
    return {'OTHER', uuid}
end
local spread = redis.call('HGET', conf, 'spread')
if spread and spread ~= ARGV[2] then
    return {'SPREAD', spread}
end
redis.call('HSET', conf, 'spread', ARGV[2])
return {'OK'}
