-- What scripts see: Redis's functions and libraries, which they can read and not change.
--
--   script --> globals: empty; writing is an error
--                |  reads what it lacks from
--              shown: the functions, the libraries, KEYS and ARGV
--                |  reads what it lacks from
--              absent: an error
--
-- A library is a userdata that reads from a table, because no function can write into a userdata. `getfenv`, `setfenv`
-- and `newproxy` are missing: a script would get at the tables behind. So are `string.dump` and code that is not text.

local host = ...
local pcall, xpcall, error, type, select, tostring = pcall, xpcall, error, type, select, tostring
local newproxy, getmetatable, setmetatable, loadstring = newproxy, getmetatable, setmetatable, loadstring
local collectgarbage, byte, find, gsub, concat = collectgarbage, string.byte, string.find, string.gsub, table.concat
local resume = coroutine.resume

local function deny()
  error('Attempt to modify a readonly table', 2)
end

local function read_only(entries)
  local shown = newproxy(true)
  local meta = getmetatable(shown)
  meta.__index, meta.__newindex, meta.__metatable = entries, deny, false
  return shown
end

local function copy(entries, changes)
  local copied = {}
  for name, value in pairs(entries) do copied[name] = value end
  for name, value in pairs(changes) do
    if value == host.removed then copied[name] = nil else copied[name] = value end
  end
  return copied
end

-- Errors. Those of functions of the host are objects, which scripts must not see; one of them ends the script, whatever
-- it does.

local function pass(ok, value, ...)
  if not ok and type(value) == 'userdata' then
    if host.must_stop(value) then error(value, 0) end
    value = host.caught(value)
  end
  return ok, value, ...
end

-- An error of a command is a table, and its text here.
local function pass_text(ok, value, ...)
  if not ok and type(value) == 'table' and type(value.err) == 'string' then value = value.err end
  return ok, value, ...
end

local function protected_call(...)
  return pass_text(pass(pcall(...)))
end

local function protected_call_with_handler(call, handler)
  return pass(xpcall(call, function(value)
    if type(value) == 'userdata' then
      if host.must_stop(value) then return value end
      value = host.caught(value)
    end
    return handler(value)
  end))
end

-- Code in scripts.

local function load_text(text, name)
  if (type(text) == 'string' or type(text) == 'number') and byte(text, 1) == 27 then
    return nil, 'code that is not text cannot be loaded'
  end
  return loadstring(text, name)
end

local function load_pieces(read, name)
  local pieces = {}
  for number = 1, math.huge do
    local piece = read()
    if piece == nil or piece == '' then break end
    pieces[number] = piece
  end
  return load_text(concat(pieces), name or '=(load)')
end

-- Collecting at other times would change the next scripts.
local function collect(option, ...)
  if option == nil or option == 'collect' or option == 'count' or option == 'step' then
    return collectgarbage(option or 'collect', ...)
  end
  return 0
end

-- Redis's functions.

local function raise(text)
  error({ err = 'ERR ' .. text }, 0)
end

local function reply_of(field, ...)
  local text = ...
  if select('#', ...) ~= 1 or type(text) ~= 'string' then
    return { err = 'ERR wrong number or type of arguments' }
  end
  if field == 'err' then
    text = gsub(gsub(text, '^%-', ''), '[\r\n]+$', '')
    if not find(text, ' ', 1, true) then text = 'ERR ' .. text end
  end
  return { [field] = text }
end

local redis = copy(host.redis, {
  LOG_DEBUG = 0, LOG_VERBOSE = 1, LOG_NOTICE = 2, LOG_WARNING = 3,
  REPL_NONE = 0, REPL_AOF = 1, REPL_SLAVE = 2, REPL_REPLICA = 2, REPL_ALL = 3,
  error_reply = function(...) return (reply_of('err', ...)) end,
  status_reply = function(...) return (reply_of('ok', ...)) end,
  replicate_commands = function() return true end,
  -- There are no replicas, and no log.
  set_repl = function(...)
    if select('#', ...) ~= 1 then raise('redis.set_repl() requires two arguments.') end
  end,
  log = function(...)
    local level = ...
    if select('#', ...) < 2 then raise('redis.log() requires two arguments or more.') end
    if not tonumber(level) then raise('First argument must be a number (log level).') end
    if tonumber(level) < 0 or tonumber(level) > 3 then raise('Invalid debug level.') end
  end,
})

-- What scripts see.

local shown = {
  _VERSION = _VERSION, assert = assert, collectgarbage = collect, error = error, gcinfo = gcinfo,
  getmetatable = getmetatable, ipairs = ipairs, load = load_pieces, loadstring = load_text, next = next, pairs = pairs,
  pcall = protected_call, rawequal = rawequal, rawget = rawget, rawset = rawset, select = select,
  setmetatable = setmetatable, tonumber = tonumber, tostring = tostring, type = type, unpack = unpack,
  xpcall = protected_call_with_handler,
  redis = read_only(redis),
  math = read_only(copy(math, host.math)),
  table = read_only(copy(table, {})),
  coroutine = read_only(copy(coroutine, { resume = function(...) return pass(resume(...)) end })),
  cjson = read_only(host.cjson), cmsgpack = read_only(host.cmsgpack), struct = read_only(host.struct),
  bit = read_only(host.bit),
}
local strings = copy(string, { dump = host.removed })
shown.string = read_only(strings)
shown._G = read_only(shown)

local of_strings = getmetatable('')
of_strings.__index, of_strings.__metatable = strings, false

local names = {}
for name in pairs(_G) do names[#names + 1] = name end
local globals = _G
for number = 1, #names do globals[names[number]] = nil end

setmetatable(globals, { __index = shown, __newindex = deny, __metatable = false })
setmetatable(shown, { __index = function(_, name)
  error("Script attempted to access nonexistent global variable '" .. tostring(name) .. "'", 2)
end })

local failed = host.failed
return shown, function(script) return xpcall(script, failed) end
