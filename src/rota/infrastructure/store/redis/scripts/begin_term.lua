-- Begin a new reign. A term is at least as great as the milliseconds since 1970: when the server has lost its last writes,
-- the next one is still greater than those that it forgot.
-- KEYS[1]  leadership  hash: term, node
-- ARGV[1]  the node
-- Result: the term
local time = redis.call("TIME")
local last = tonumber(redis.call("HGET", KEYS[1], "term") or "0")
local term = math.max(last + 1, time[1] * 1000 + math.floor(time[2] / 1000))
redis.call("HSET", KEYS[1], "term", string.format("%.0f", term), "node", ARGV[1])
return term
