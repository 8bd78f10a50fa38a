-- For wrk: the request that was asked for, with a parameter that nobody knows at its end. With
-- "changing" it is another one each time, with "header" a header is instead; else nothing changes.

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
