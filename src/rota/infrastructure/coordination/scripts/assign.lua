-- Put attempts into their workers' queues and wake those workers. May be repeated: what is queued or in flight is not
-- queued again.
-- KEYS[3i-2]  worker:<id>:queue     list of task:attempt, oldest first, of worker i
-- KEYS[3i-1]  worker:<id>:inflight  set of task:attempt
-- KEYS[3i]    worker:<id>:wake      list, at most one token
-- ARGV[1]     how long to keep these keys without a sign of the worker, in milliseconds
-- ARGV[2..]   how many entries there are for each worker; then the entries, worker by worker
-- Result: nothing
local CHUNK = 1000 -- unpack fails near 8000
local workers = #KEYS / 3
local position = workers + 2

local function find_new(queued, inflight, count)
  local known, new = {}, {}
  for _, entry in ipairs(queued) do
    known[entry] = true
  end
  for first = position, position + count - 1, CHUNK do
    local last = math.min(first + CHUNK, position + count) - 1
    local taken = redis.call("SMISMEMBER", inflight, unpack(ARGV, first, last))
    for i = first, last do
      local entry = ARGV[i]
      if not known[entry] and taken[i - first + 1] == 0 then
        known[entry] = true
        new[#new + 1] = entry
      end
    end
  end
  return new
end

for worker = 1, workers do
  local queue, inflight, wake = KEYS[3 * worker - 2], KEYS[3 * worker - 1], KEYS[3 * worker]
  local count = tonumber(ARGV[worker + 1])
  local queued = redis.call("LRANGE", queue, 0, -1)
  local new = find_new(queued, inflight, count)
  position = position + count
  for first = 1, #new, CHUNK do
    redis.call("RPUSH", queue, unpack(new, first, math.min(first + CHUNK - 1, #new)))
  end
  redis.call("PEXPIRE", queue, ARGV[1])
  if #queued + #new > 0 and redis.call("EXISTS", wake) == 0 then
    redis.call("RPUSH", wake, 1)
    redis.call("PEXPIRE", wake, ARGV[1])
  end
end
