-- End exactly this lease and wake the standbys. May be repeated: a newer lease is left alone.
-- KEYS[1] scheduler:leader   hash with a TTL: node, lease
-- KEYS[2] scheduler:vacancy  list of tokens with a TTL, one for each standby to take
-- ARGV[1] node id            ARGV[2] lease
-- ARGV[3] number of tokens   ARGV[4] their ttl in milliseconds
-- Result: nothing
local current = redis.call("HMGET", KEYS[1], "node", "lease")
if current[1] ~= ARGV[1] or current[2] ~= ARGV[2] then
  return
end
redis.call("DEL", KEYS[1], KEYS[2])
for _ = 1, tonumber(ARGV[3]) do
  redis.call("RPUSH", KEYS[2], ARGV[2])
end
redis.call("PEXPIRE", KEYS[2], ARGV[4])
