-- Which tasks' time has come by the server's clock, longest due first.
-- KEYS[1]  tasks:waiting or tasks:running  sorted set; score: due time in microseconds, member: id
-- ARGV[1]  how many at most
-- Result: ids
local time = redis.call("TIME")
local now = string.format("%.0f", time[1] * 1000000 + time[2])
return redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", now, "LIMIT", 0, ARGV[1])
