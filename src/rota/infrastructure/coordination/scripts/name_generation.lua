-- Name the memory that a rebuild has filled; not if it was lost, or emptied by another rebuild, in the meantime.
-- May be repeated.
-- KEYS[1] generation:building  the rebuild under way    KEYS[2] generation
-- ARGV[1] the name
-- Result: nothing
if redis.call("GET", KEYS[1]) == ARGV[1] then
  redis.call("SET", KEYS[2], ARGV[1])
  redis.call("DEL", KEYS[1])
end
