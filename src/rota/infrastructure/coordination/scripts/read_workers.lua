-- Read some fields of the workers asked about; and say who is on the list of workers.
-- Reads only. One answer, however many workers there are: the client reads answers one by one.
-- KEYS[1]   workers      set of ids
-- KEYS[2..] worker:<id>  hash, of each worker asked about
-- ARGV      the names of the fields
-- Result: {ids, {the fields' values, nil where there is none, of each worker}}
local found = {}
for i = 2, #KEYS do
  found[i - 1] = redis.call("HMGET", KEYS[i], unpack(ARGV))
end
return { redis.call("SMEMBERS", KEYS[1]), found }
