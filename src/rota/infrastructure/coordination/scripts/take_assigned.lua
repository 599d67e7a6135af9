-- Take from a worker's queue, whose token has been taken before; what is taken is in flight. May be repeated: what a
-- lost answer carried is in flight.
-- KEYS[1] worker:<id>:queue     list of task:attempt, oldest first
-- KEYS[2] worker:<id>:inflight  set of task:attempt
-- KEYS[3] worker:<id>:wake      list, at most one token
-- ARGV[1] how many at most      ARGV[2] how long to keep KEYS[2..3] without a sign of the worker, in milliseconds
-- Result: the entries that were not in flight before; what is no entry is dropped
local limit = tonumber(ARGV[1])
local entries = {}
while #entries < limit do
  local popped = redis.call("LPOP", KEYS[1], limit - #entries)
  if not popped then
    break
  end
  for _, entry in ipairs(popped) do
    if string.find(entry, "^%d+:%d+$") and redis.call("SADD", KEYS[2], entry) == 1 then
      entries[#entries + 1] = entry
    end
  end
end
if #entries > 0 then
  redis.call("PEXPIRE", KEYS[2], ARGV[2])
end
if redis.call("EXISTS", KEYS[1]) == 0 then
  redis.call("DEL", KEYS[3]) -- or the next take would be woken to find nothing
elseif redis.call("EXISTS", KEYS[3]) == 0 then
  redis.call("RPUSH", KEYS[3], 1) -- for the next take, which finds more
  redis.call("PEXPIRE", KEYS[3], ARGV[2])
end
return entries
