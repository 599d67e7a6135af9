-- Take a lock, unless another owner holds it. May be repeated: the same owner gets a new fence, and the earlier one is over.
-- KEYS[1] lock:<name>      hash with a TTL: node, lease (the owner and the fence)
-- KEYS[2] locks:last       the last fence given, of any name; never expires
-- ARGV[1] owner            ARGV[2] ttl in milliseconds
-- Result: the fence, or nil while another owner holds it
local owner = redis.call("HGET", KEYS[1], "node")
if owner and owner ~= ARGV[1] then
  return false
end
local time = redis.call("TIME")
local fence = tonumber(time[1]) * 1000000 + tonumber(time[2]) -- below 2^53 until 2255: exact
local last = tonumber(redis.call("GET", KEYS[2]) or 0)
if fence <= last then
  fence = last + 1
end
local text = string.format("%.0f", fence) -- tostring would write 1.8e+15
redis.call("SET", KEYS[2], text)
redis.call("HSET", KEYS[1], "node", ARGV[1], "lease", text)
redis.call("PEXPIRE", KEYS[1], ARGV[2])
return text
