-- Prolong exactly this lease, of the leader or of a lock. May be repeated.
-- KEYS[1] scheduler:leader, or lock:<name>  hash with a TTL: node, lease
-- ARGV[1] node id, or owner                 ARGV[2] lease    ARGV[3] ttl in milliseconds
-- Result: 1, or 0 when this lease is over
local current = redis.call("HMGET", KEYS[1], "node", "lease")
if current[1] ~= ARGV[1] or current[2] ~= ARGV[2] then
  return 0
end
return redis.call("PEXPIRE", KEYS[1], ARGV[3])
