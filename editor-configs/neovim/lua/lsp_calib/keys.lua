-- Keys are set on request only: <Tab> belongs to many plugins.
local M = {}
M.SUGGESTED = { accept = '<Tab>', word = '<M-Right>', line = '<M-Down>', sure = '<M-s>', next = '<M-n>', prev = '<M-p>',
  dismiss = '<M-e>', go = '<M-j>', apply = '<M-l>' }
M.set_by_setup = {}

-- By name: the function of lsp_calib, what it is for, and in which modes; insert mode alone unless said. All but trigger
-- have a suggested key.
M.actions = {
  trigger = { 'trigger', 'Ask for a suggestion, and for alternatives' },
  accept = { 'accept', 'Accept the suggestion' },
  word = { 'accept_word', 'Accept the next word of the suggestion' },
  line = { 'accept_line', 'Accept the next line of the suggestion' },
  sure = { 'accept_sure', 'Accept the part of the suggestion that can be trusted' },
  next = { 'next', 'Next suggestion' },
  prev = { 'prev', 'Previous suggestion' },
  dismiss = { 'dismiss', 'Dismiss the suggestion, or the next edit', { 'i', 'n' } },
  go = { 'go', 'Go to the next edit; there, apply it', { 'i', 'n' } },
  apply = { 'apply', 'Apply the next edit, and go on', { 'i', 'n' } },
}

-- By mode and key, as Neovim reads it: our mapping's function, and the mapping that it took the place of.
local ours, replaced = {}, {}

--- The mapping of a key that ours takes the place of; nil if there is none.
--- Not one of a buffer: that stays, and goes before ours.
local function earlier(mode, raw)
  for _, map in ipairs(vim.api.nvim_get_keymap(mode)) do
    if map.lhsraw == raw or map.lhsrawalt == raw then
      -- A second setup() finds the first one's.
      if map.callback and map.callback == ours[mode .. raw] then return replaced[mode .. raw] end
      return map
    end
  end
end

--- Text with <Names> of keys as the value of an expression mapping: Neovim itself escapes a byte 0x80 in it.
local function typed(text) return (vim.keycode(text):gsub('\128\254X', '\128')) end

--- Whether a key is pressed with Alt. raw: the key, as Neovim reads it.
local function has_alt(raw)
  local modifiers = raw:match('^\128\252(.)')
  return modifiers ~= nil and bit.band(modifiers:byte(), 8) ~= 0
end

--- What a key that nobody has mapped does without us, as keys.
local function unmapped(name, key, raw)
  if name == 'accept' and key == '<Tab>' and vim.snippet.active({ direction = 1 }) then
    return typed('<Cmd>lua vim.snippet.jump(1)<CR>')
  end
  if not has_alt(raw) then return raw end
  -- Neovim reads an Alt key as <Esc> and the key: it would end insert mode, and then run a command that nobody meant,
  -- such as `s`, which removes a character. So it does nothing, or asks for the first of the alternatives.
  if name == 'next' then require('lsp_calib').trigger() end
  return ''
end

--- What a key does without us, as keys. map: its earlier mapping.
local function otherwise(name, mode, key, raw, map)
  if not map then return unmapped(name, key, raw) end
  if map.expr == 1 then
    local found
    if map.callback then found = map.callback() else found = vim.api.nvim_eval(typed(map.rhs)) end
    -- As in Neovim, what is no text is no keys.
    found = type(found) == 'string' and found or type(found) == 'number' and tostring(found) or ''
    return map.replace_keycodes == 1 and typed(found) or found
  end
  -- In an expression a function may not change text.
  if map.callback then
    local quoted = ('%q'):format(key):gsub('<', '<lt>')
    return typed(("<Cmd>lua require('lsp_calib.keys').earlier('%s', %s)<CR>"):format(mode, quoted))
  end
  return typed(map.rhs)
end

--- Call the function that a key was mapped to before setup().
function M.earlier(mode, key) replaced[mode .. vim.keycode(key)].callback() end

--- Does what a key is for. The keys that are left to do: '' if nothing is, nil where there is nothing to do it with.
local function act(name)
  if name ~= 'go' and name ~= 'apply' then return require('lsp_calib')[M.actions[name][1]]() and '' or nil end
  -- In an expression a function may not change text.
  return require('lsp_calib.next_edit').is_offered() and typed(("<Cmd>lua require('lsp_calib').%s()<CR>"):format(name)) or nil
end

local function map_in(mode, name, key)
  local raw = vim.keycode(key)
  local map = earlier(mode, raw)
  replaced[mode .. raw] = map
  ours[mode .. raw] = function() return act(name) or otherwise(name, mode, key, raw, map) end
  vim.keymap.set(mode, key, ours[mode .. raw], {
    expr = true,
    replace_keycodes = false,
    -- Keys that were mapped again still are. A mapping of the key to itself ends there, as Neovim has it.
    remap = map ~= nil and (map.noremap == 0 or map.script == 1) and not (map.callback and map.expr == 0),
    silent = map ~= nil and map.silent == 1,
    desc = M.actions[name][2],
  })
end

--- Map keys; where there is nothing that one is for, it does what it was mapped to before. An Alt key without an earlier
--- mapping then does nothing, and another key what Neovim does with it.
--- keys: 'suggested', or a table such as { accept = '<C-y>' }.
function M.set(keys)
  for name, key in pairs(keys == 'suggested' and M.SUGGESTED or keys or {}) do
    local action = M.actions[name]
    if not action then
      error(('lsp_calib: there is no key %q; there are trigger, accept, word, line, sure, next, prev, dismiss, go, apply'):format(name))
    end
    if key then
      M.set_by_setup[name] = key
      for _, mode in ipairs(action[3] or { 'i' }) do map_in(mode, name, key) end
    end
  end
end

return M
