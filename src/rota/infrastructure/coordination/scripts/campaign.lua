-- Become leader, if nobody is. May be repeated: while the first try leads, the second does not win.
-- KEYS[1] scheduler:leader   hash with a TTL: node, lease
-- KEYS[2] scheduler:lease    the last number given; never expires
-- KEYS[3] scheduler:vacancy  list of tokens left by a resignation, which is over now
-- ARGV[1] node id            ARGV[2] ttl in milliseconds
-- Result: the number of the lease, or nil while another lease runs
if redis.call("EXISTS", KEYS[1]) == 1 then
  return false
end
local time = redis.call("TIME")
local lease = tonumber(time[1]) * 1000000 + tonumber(time[2]) -- below 2^53 until 2255: exact
local last = tonumber(redis.call("GET", KEYS[2]) or 0)
if lease <= last then
  lease = last + 1
end
local text = string.format("%.0f", lease) -- tostring would write 1.8e+15
redis.call("SET", KEYS[2], text)
redis.call("HSET", KEYS[1], "node", ARGV[1], "lease", text)
redis.call("PEXPIRE", KEYS[1], ARGV[2])
redis.call("DEL", KEYS[3])
return text
