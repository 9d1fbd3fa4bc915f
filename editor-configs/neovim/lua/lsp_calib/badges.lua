-- What tiers and states look like. The server says it; what stands here is for one that sends nothing.
local M = {}

local marks = {
  accept = { mark = '●', color = 'green' },
  review = { mark = '▲', color = 'yellow' },
  reject = { mark = '✗', color = 'red' },
  starting = { mark = '◌', color = 'blue', words = 'starting' },
  stopped = { mark = '✗', color = 'red', words = 'not running' },
}
-- Names of colours become the colour scheme's own.
local theme = { green = 'DiagnosticOk', yellow = 'DiagnosticWarn', amber = 'DiagnosticWarn', orange = 'DiagnosticWarn',
  red = 'DiagnosticError', blue = 'DiagnosticInfo' }

--- The highlight group of a tier.
function M.group(tier) return 'LspCalib' .. tier:sub(1, 1):upper() .. tier:sub(2) end

--- Define the highlight groups, except those that the user or the colour scheme has defined.
function M.set_highlights()
  for _, tier in ipairs({ 'accept', 'review', 'reject' }) do
    local hex = tostring(marks[tier].color):match('^#%x%x%x%x%x%x$')
    local hl = hex and { fg = hex } or { link = theme[marks[tier].color] or 'Comment' }
    vim.api.nvim_set_hl(0, M.group(tier), vim.tbl_extend('error', hl, { default = true }))
  end
end

--- Take the marks that a server has sent with its capabilities.
function M.take(capabilities)
  local told = vim.tbl_get(capabilities or {}, 'experimental', 'lspCalib', 'badges')
  for name, badge in pairs(type(told) == 'table' and told or {}) do
    if type(badge) == 'table' then marks[name] = vim.tbl_extend('force', marks[name] or {}, badge) end
  end
  M.set_highlights()
end

--- The mark of a tier or state, '' if it has none.
function M.mark(name) return marks[name] and marks[name].mark or '' end

--- The words for a tier or state; its name if there are none.
function M.words(name) return marks[name] and marks[name].words or name end

--- Tier, words and probability of a suggestion: of a block, how far its lines are to accept, if they are not all.
function M.verdict(suggestion)
  local through = 0
  local lines = type(suggestion.lines) == 'table' and suggestion.lines or {}
  while lines[through + 1] and lines[through + 1].tier == 'accept' do through = through + 1 end
  if through == 0 or through == #lines then return suggestion.tier, suggestion.tier, suggestion.confidence end
  return 'accept', 'accept through line ' .. through, lines[through].confidence
end

--- The badge of a suggestion and its tier; nil if the tier is not known.
function M.text(suggestion)
  local tier, words, confidence = M.verdict(suggestion)
  if not marks[tier] then return end
  local text = ('%s %s'):format(M.mark(tier), words)
  if type(confidence) == 'number' then text = text .. (' %.0f %%'):format(100 * confidence) end
  return text, tier
end

return M
