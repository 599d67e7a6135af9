-- Let one present or future wait return. May be repeated: there is never more than one token.
-- KEYS[1] …:wake  list, at most one token
-- Result: nothing
if redis.call("EXISTS", KEYS[1]) == 0 then
  redis.call("RPUSH", KEYS[1], 1)
end
