-- Delete the oldest occurrences of a schedule. May be repeated.
-- KEYS[1]  occurrences                   sorted set of the schedules that have some; score: the oldest one's time
-- KEYS[2]  occurrences:<tenant>:<type>   sorted set; score: target time in microseconds
-- ARGV[1]  only those before this time    ARGV[2] how many at most    ARGV[3] tenant:type
-- Result: how many were deleted
local count = math.min(redis.call("ZCOUNT", KEYS[2], "-inf", "(" .. ARGV[1]), tonumber(ARGV[2]))
if count > 0 then
  redis.call("ZREMRANGEBYRANK", KEYS[2], 0, count - 1)
end
local oldest = redis.call("ZRANGE", KEYS[2], 0, 0, "WITHSCORES")
if oldest[2] then
  redis.pcall("ZADD", KEYS[1], oldest[2], ARGV[3]) -- refused by a full server: then it is only looked at once more
else
  redis.call("ZREM", KEYS[1], ARGV[3])
end
return count
