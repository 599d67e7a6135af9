-- Take ready tasks, level by level in the given order, each oldest first.
-- May be repeated: what a lost answer carried is gone from the queue, and found again by the reconciler.
-- KEYS[1..10] queue:normal, queue:1, … queue:urgent  lists for priorities 0 to 9, oldest first: an id, or an id, a blank
--             and what it brings along
-- KEYS[11]    workers:changes  counter
-- ARGV[1]     how many at most    ARGV[2..] priorities in the order to take from
-- Result: {entries, {priority and oldest entry left, in turn, for each priority that has some}, counter or nil}
local limit = tonumber(ARGV[1])
local ids = {}
for i = 2, #ARGV do
  if #ids >= limit then
    break
  end
  for _, id in ipairs(redis.call("LPOP", KEYS[ARGV[i] + 1], limit - #ids) or {}) do
    ids[#ids + 1] = id
  end
end
local heads = {}
for level = 1, 10 do
  local head = redis.call("LINDEX", KEYS[level], 0)
  while head and not string.find(head .. " ", "^%d+ ") do -- no id, and it would hide those behind it
    redis.call("LPOP", KEYS[level])
    head = redis.call("LINDEX", KEYS[level], 0)
  end
  if head then
    heads[#heads + 1] = level - 1
    heads[#heads + 1] = head
  end
end
return { ids, heads, redis.call("GET", KEYS[11]) }
