-- End exactly this holding of a lock; a newer one is left alone.
-- KEYS[1] lock:<name>  hash with a TTL: node, lease (the owner and the fence)
-- ARGV[1] owner        ARGV[2] fence
-- Result: 1, or 0 when it was over
local current = redis.call("HMGET", KEYS[1], "node", "lease")
if current[1] ~= ARGV[1] or current[2] ~= ARGV[2] then
  return 0
end
return redis.call("DEL", KEYS[1])
