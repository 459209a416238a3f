-- Wake-ups of a node. KEYS: their list. ARGV: for how many seconds it stays if nobody takes from it, then what
-- the node is to hear. In one step, so that no list of a dead node is left; and also when memory is full,
-- for whoever empties it must hear. OK. Of a list that is very long only the end is kept.

local LIST = KEYS[1]
redis.call('RPUSH', LIST, unpack(ARGV, 2))
redis.call('LTRIM', LIST, -1000, -1)
redis.call('EXPIRE', LIST, ARGV[1])
return {'OK'}
