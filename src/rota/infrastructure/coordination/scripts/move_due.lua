-- Make delayed tasks ready that are due. Wakes the scheduler if there are any. May be repeated. What is no member is
-- dropped when it is due.
-- KEYS[1]     scheduler:wake  list, at most one token
-- KEYS[2]     queue:delayed   sorted set; score: due time in microseconds, member: priority:id
-- KEYS[3..12] queue:normal, queue:1, … queue:urgent  lists for priorities 0 to 9, oldest first
-- ARGV[1]     now, in microseconds    ARGV[2] how many at most
-- Result: {number moved, score of the next one or nil}
local CHUNK = 1000 -- unpack fails near 8000
local due = redis.call("ZRANGEBYSCORE", KEYS[2], "-inf", ARGV[1], "LIMIT", 0, ARGV[2])
local ready, moved = {}, 0
for _, member in ipairs(due) do
  local level, id = string.match(member, "^(%d):(%d+)$")
  if level then
    ready[level] = ready[level] or {}
    table.insert(ready[level], id)
    moved = moved + 1
  end
end
for level, ids in pairs(ready) do
  for first = 1, #ids, CHUNK do
    redis.call("RPUSH", KEYS[tonumber(level) + 3], unpack(ids, first, math.min(first + CHUNK - 1, #ids)))
  end
end
for first = 1, #due, CHUNK do
  redis.call("ZREM", KEYS[2], unpack(due, first, math.min(first + CHUNK - 1, #due)))
end
if moved > 0 and redis.call("EXISTS", KEYS[1]) == 0 then
  redis.call("RPUSH", KEYS[1], 1)
end
return { moved, redis.call("ZRANGE", KEYS[2], 0, 0, "WITHSCORES")[2] or false }
