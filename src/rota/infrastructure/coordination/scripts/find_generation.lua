-- The name of the present memory, if it got that name in this run of this server. After a failover the server is another
-- one, and may lack the last writes, or many: replicas follow at their own pace. After a restart so may the same one.
-- KEYS[1] generation  a name, a blank, and the run of the server that it was named on
-- Result: the name, or nil
local said = redis.pcall("INFO", "replication")
local run = type(said) == "string" and string.match(said, "master_replid:(%x+)") or "unknown"
local name, named_on = string.match(redis.call("GET", KEYS[1]) or "", "^(.*) (%S+)$")
return named_on == run and name or false
