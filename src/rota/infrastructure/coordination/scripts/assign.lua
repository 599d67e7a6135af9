-- Put attempts into their workers' queues and wake those workers. May be repeated: an entry is then listed twice.
-- KEYS[2i-1]  worker:<id>:queue  list of task:attempt, oldest first, of worker i
-- KEYS[2i]    worker:<id>:wake   list, at most one token
-- ARGV[1]     how long to keep these keys without a sign of the worker, in milliseconds
-- ARGV[2..]   how many entries there are for each worker; then the entries, worker by worker
-- Result: nothing
local CHUNK = 1000 -- unpack fails near 8000
local workers = #KEYS / 2
local position = workers + 2
for worker = 1, workers do
  local queue, wake = KEYS[2 * worker - 1], KEYS[2 * worker]
  local stop = position + tonumber(ARGV[worker + 1])
  while position < stop do
    local last = math.min(position + CHUNK, stop) - 1
    redis.call("RPUSH", queue, unpack(ARGV, position, last))
    position = last + 1
  end
  redis.call("PEXPIRE", queue, ARGV[1])
  if redis.call("EXISTS", wake) == 0 then
    redis.call("RPUSH", wake, 1)
    redis.call("PEXPIRE", wake, ARGV[1])
  end
end
