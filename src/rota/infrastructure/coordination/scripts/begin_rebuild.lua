-- Empty the queues of waiting tasks and mark that a rebuild fills them. The memory has no name until it is done.
-- KEYS[1] generation:building    KEYS[2..] generation, and the queues to empty
-- ARGV[1] the name that the memory will have
-- Result: nothing
local function run() -- of this server as primary: another one after a failover or a restart
  local said = redis.pcall("INFO", "replication")
  return type(said) == "string" and string.match(said, "master_replid:(%x+)") or "unknown"
end

for key = 2, #KEYS do
  redis.call("UNLINK", KEYS[key])
end
redis.call("SET", KEYS[1], ARGV[1] .. " " .. run())
