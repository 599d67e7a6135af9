-- Tell the listeners batches of events, and remember them for those who come back. A repeat is heard twice.
-- KEYS[1]   task:events:log   stream: a batch in each entry; its id is the place of the batch: the number of its last
--                             event, and the microsecond, which is another one should the number be used again
-- KEYS[2]   task:events:last  the number of the last event
-- KEYS[3]   task:events       channel: arrays of that place and the events of a batch
-- ARGV[1]   how many events to remember, or a few more
-- ARGV[2..] for each batch how many events it has, and a JSON array of them
-- Result: nothing
local function format(number)
  return string.format("%.0f", number) -- Lua would round to 14 digits
end

local now = redis.call("TIME")
local now_us = now[1] * 1000000 + now[2]
for i = 2, #ARGV, 2 do
  local count, events = tonumber(ARGV[i]), ARGV[i + 1]
  local last = redis.call("INCRBY", KEYS[2], count)
  if last == count then -- the memory is new: count on from the clock, far above what was used before
    last = now_us + count
    redis.call("SET", KEYS[2], format(last))
    redis.call("DEL", KEYS[1])
  end
  local place = format(last) .. "-" .. format(now_us)
  redis.call("XADD", KEYS[1], "MINID", "~", format(last - ARGV[1]), place, "events", events)
  redis.call("PUBLISH", KEYS[3], '["' .. place .. '",' .. string.sub(events, 2))
end
