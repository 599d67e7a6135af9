-- Tell the listeners, in order. May be repeated: they then hear it twice.
-- KEYS[1]   task:events  channel
-- ARGV[1..] messages, JSON
-- Result: nothing
for i = 1, #ARGV do
  redis.call("PUBLISH", KEYS[1], ARGV[i])
end
