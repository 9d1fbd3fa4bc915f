-- Keys are set on request only: <Tab> belongs to many plugins.
local M = {}
M.SUGGESTED = { accept = '<Tab>', word = '<M-Right>', line = '<M-Down>', next = '<M-n>', prev = '<M-p>', dismiss = '<M-e>' }
M.set_by_setup = {}

local actions = {
  accept = { 'accept', 'Accept the suggestion' },
  word = { 'accept_word', 'Accept the next word of the suggestion' },
  line = { 'accept_line', 'Accept the next line of the suggestion' },
  next = { 'next', 'Next suggestion' },
  prev = { 'prev', 'Previous suggestion' },
  dismiss = { 'dismiss', 'Dismiss the suggestion' },
}

--- Map keys in insert mode; where there is no suggestion, each does what it does otherwise.
--- keys: 'suggested', or a table such as { accept = '<C-y>' }.
function M.set(keys)
  for name, key in pairs(keys == 'suggested' and M.SUGGESTED or keys or {}) do
    local action = actions[name]
    if not action then error(('lsp_calib: there is no key %q; there are accept, word, line, next, prev, dismiss'):format(name)) end
    if key then
      M.set_by_setup[name] = key
      vim.keymap.set('i', key, function()
        if require('lsp_calib')[action[1]]() then return '' end
        local jumps = name == 'accept' and key == '<Tab>' and vim.snippet.active({ direction = 1 })
        return jumps and '<Cmd>lua vim.snippet.jump(1)<CR>' or key
      end, { expr = true, desc = action[2] })
    end
  end
end

return M
