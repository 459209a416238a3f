-- Does this Redis take new things? Nothing is done: one that is full (maxmemory), cannot write its disk or
-- misses replicas refuses the script as a whole. KEYS: any of that server. OK.
--
-- Adds memory. That is what is asked; it adds none.

return {'OK'}
