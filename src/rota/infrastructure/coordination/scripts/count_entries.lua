-- Count what waits, and what the workers asked about have been handed; and say who is on the list of workers.
-- Reads only. One answer, however many workers there are: the client reads answers one by one.
-- KEYS[1]     workers        set of ids
-- KEYS[2]     queue:delayed  sorted set
-- KEYS[3..12] queue:normal, queue:1, … queue:urgent  lists for priorities 0 to 9
-- KEYS[13..]  worker:<id>:queue and worker:<id>:inflight in turn, a list and a set, of each worker asked about
-- Result: {ids, {ready at each priority}, delayed, {assigned and in flight, in turn, of each worker}}
local FIRST = 13
local ready, held = {}, {}
for i = 3, FIRST - 1 do
  ready[i - 2] = redis.call("LLEN", KEYS[i])
end
for i = FIRST, #KEYS, 2 do
  held[#held + 1] = redis.call("LLEN", KEYS[i])
  held[#held + 1] = redis.call("SCARD", KEYS[i + 1])
end
return { redis.call("SMEMBERS", KEYS[1]), ready, redis.call("ZCARD", KEYS[2]), held }
