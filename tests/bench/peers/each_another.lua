-- For wrk: append an unknown parameter to the request. With "changing" its value differs each
-- time; with "header" an unknown header differs each time instead; with "same" nothing changes.

local target, kind, number = "", "", 0

function init(args)
   target = wrk.path .. "&unknown="
   kind = args[1]
end

function request()
   if kind ~= "same" then
      number = number + 1
   end
   local text = string.format("%09d", number)
   if kind == "header" then
      wrk.headers["X-Unknown"] = text
      text = "000000000"
   end
   return wrk.format(nil, target .. text)
end
