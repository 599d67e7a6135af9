-- Name the memory that a rebuild has filled; not if it was lost, or emptied by another rebuild, in the meantime, nor if
-- another server has taken over, which may lack some of what was written. May be repeated.
-- KEYS[1] generation:building  the rebuild under way: a name, a blank, and the run of the server that it was begun on
-- KEYS[2] generation           the same
-- ARGV[1] the name
-- Result: nothing
local function run() -- of this server as primary: another one after a failover or a restart
  local said = redis.pcall("INFO", "replication")
  return type(said) == "string" and string.match(said, "master_replid:(%x+)") or "unknown"
end

local named = ARGV[1] .. " " .. run()
if redis.call("GET", KEYS[1]) == named then
  redis.call("SET", KEYS[2], named)
  redis.call("DEL", KEYS[1])
end
