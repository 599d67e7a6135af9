-- Take from a worker's queue; what is taken is in flight. May be repeated: what a lost answer carried is in flight.
-- KEYS[1] worker:<id>:queue     list of task:attempt, oldest first
-- KEYS[2] worker:<id>:inflight  set of task:attempt
-- KEYS[3] worker:<id>:wake      list, at most one token
-- ARGV[1] how many at most      ARGV[2] how long to keep KEYS[2] without a sign of the worker, in milliseconds
-- Result: the entries
local CHUNK = 1000 -- unpack fails near 8000
if tonumber(ARGV[1]) < 1 then
  return {}
end
local entries = redis.call("LPOP", KEYS[1], ARGV[1]) or {}
for first = 1, #entries, CHUNK do
  redis.call("SADD", KEYS[2], unpack(entries, first, math.min(first + CHUNK - 1, #entries)))
end
if #entries > 0 then
  redis.call("PEXPIRE", KEYS[2], ARGV[2])
  if redis.call("EXISTS", KEYS[1]) == 0 then
    redis.call("DEL", KEYS[3]) -- or the next take would be woken to find nothing
  end
end
return entries
