-- Forget attempts that have ended, taken or not, and wake the scheduler: their workers have room. May be repeated.
-- KEYS[1]     scheduler:wake  list, at most one token
-- KEYS[3i-1]  worker:<id>:queue     list of task:attempt, oldest first, of worker i
-- KEYS[3i]    worker:<id>:inflight  set of task:attempt
-- KEYS[3i+1]  worker:<id>:wake      list, at most one token
-- ARGV[1..]   how many entries there are for each worker; then the entries, worker by worker
-- Result: nothing
local CHUNK = 1000 -- unpack fails near 8000
local workers = (#KEYS - 1) / 3
local position = workers + 1

local function strike(queue, wake, last)
  for i = position, last do
    redis.call("LREM", queue, 1, ARGV[i])
  end
  if redis.call("EXISTS", queue) == 0 then
    redis.call("DEL", wake) -- or the next take would be woken to find nothing
  end
end

for worker = 1, workers do
  local queue, inflight, wake = KEYS[3 * worker - 1], KEYS[3 * worker], KEYS[3 * worker + 1]
  local stop = position + tonumber(ARGV[worker])
  while position < stop do
    local last = math.min(position + CHUNK, stop) - 1
    local found = redis.call("SREM", inflight, unpack(ARGV, position, last))
    if found <= last - position then -- seldom: an entry stands in one of the two
      strike(queue, wake, last)
    end
    position = last + 1
  end
end
if redis.call("EXISTS", KEYS[1]) == 0 then
  redis.call("RPUSH", KEYS[1], 1)
end
