-- Forget attempts that have ended, and wake the scheduler: their workers have room. May be repeated.
-- KEYS[1]   scheduler:wake  list, at most one token
-- KEYS[2..] worker:<id>:inflight  set of task:attempt, of each worker
-- ARGV[1..] how many entries there are for each worker; then the entries, worker by worker
-- Result: nothing
local CHUNK = 1000 -- unpack fails near 8000
local position = #KEYS
for worker = 1, #KEYS - 1 do
  local stop = position + tonumber(ARGV[worker])
  while position < stop do
    local last = math.min(position + CHUNK, stop) - 1
    redis.call("SREM", KEYS[worker + 1], unpack(ARGV, position, last))
    position = last + 1
  end
end
if redis.call("EXISTS", KEYS[1]) == 0 then
  redis.call("RPUSH", KEYS[1], 1)
end
