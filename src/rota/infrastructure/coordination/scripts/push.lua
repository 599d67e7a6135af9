-- Queue tasks: ready ones by priority, the others until they are due. Wakes the scheduler when something is ready or
-- the next due time has come closer. May be repeated: a ready id is then listed twice, a delayed one is not.
-- KEYS[1]     scheduler:wake  list, at most one token
-- KEYS[2]     queue:delayed   sorted set; score: due time in microseconds, member: priority:id
-- KEYS[3..12] queue:normal, queue:1, … queue:urgent  lists for priorities 0 to 9, oldest first
-- ARGV[1..10] how many entries there are for each priority
-- ARGV[11..]  the entries, priority by priority: an id, or an id, a blank and what it brings along; then score and
--             member of each delayed task in turn
-- Result: the length of each list that something was added to, in the order of the priorities
local CHUNK = 1000 -- even; unpack fails near 8000
local position = 11

local function append(command, key, count)
  local stop, answer = position + count, 0
  while position < stop do
    local last = math.min(position + CHUNK, stop) - 1
    answer = redis.call(command, key, unpack(ARGV, position, last))
    position = last + 1
  end
  return answer
end

local function next_due()
  return tonumber(redis.call("ZRANGE", KEYS[2], 0, 0, "WITHSCORES")[2]) or math.huge
end

local lengths = {}
for level = 1, 10 do
  local count = tonumber(ARGV[level])
  if count > 0 then
    lengths[#lengths + 1] = append("RPUSH", KEYS[level + 2], count)
  end
end
local wakes = position > 11
if position <= #ARGV then
  local before = next_due()
  append("ZADD", KEYS[2], #ARGV - position + 1)
  wakes = wakes or next_due() < before
end
if wakes and redis.call("EXISTS", KEYS[1]) == 0 then
  redis.call("RPUSH", KEYS[1], 1)
end
return lengths
