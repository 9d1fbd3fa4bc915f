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

--- Grey ghost text, also where a terminal has no 24-bit colours: Neovim's own scheme names none for it then, and it would
--- look as if it had been typed.
local function hint()
  local found = vim.api.nvim_get_hl(0, { name = 'ComplHint', link = false })
  if not vim.o.termguicolors and not found.ctermfg then
    found.ctermfg, found.default = 'DarkGrey', nil
    vim.api.nvim_set_hl(0, 'ComplHint', found)
  end
  return found
end

--- The group of what stands behind the part of a suggestion that can be trusted: a quarter of its colour is the background's,
--- the rest that of the ghost text.
local function unsure()
  local shown = hint()
  local back = vim.api.nvim_get_hl(0, { name = 'Normal', link = false }).bg
  local dimmed = { italic = true, ctermfg = shown.ctermfg, cterm = { italic = true } }
  if shown.fg and back then
    local function mixed(shift) return math.floor((3 * (bit.rshift(shown.fg, shift) % 256) + bit.rshift(back, shift) % 256) / 4) end
    dimmed.fg = ('#%02x%02x%02x'):format(mixed(16), mixed(8), mixed(0))
  end
  return dimmed
end

--- The highlight group of a tier.
function M.group(tier) return 'LspCalib' .. tier:sub(1, 1):upper() .. tier:sub(2) end

--- Define the highlight groups, except those that the user or the colour scheme has defined.
function M.set_highlights()
  for _, tier in ipairs({ 'accept', 'review', 'reject' }) do
    local hex = tostring(marks[tier].color):match('^#%x%x%x%x%x%x$')
    local hl = hex and { fg = hex } or { link = theme[marks[tier].color] or 'Comment' }
    vim.api.nvim_set_hl(0, M.group(tier), vim.tbl_extend('error', hl, { default = true }))
  end
  vim.api.nvim_set_hl(0, 'LspCalibUnsure', vim.tbl_extend('error', unsure(), { default = true }))
  vim.api.nvim_set_hl(0, 'LspCalibBlockFaint', { link = 'LspCalibUnsure', default = true })
  local faint = vim.api.nvim_get_hl(0, { name = 'Comment', link = false })
  vim.api.nvim_set_hl(0, 'LspCalibEditFaint', { link = 'Comment', default = true })
  vim.api.nvim_set_hl(0, 'LspCalibEditOld', { fg = faint.fg, ctermfg = faint.ctermfg, strikethrough = true,
    cterm = { strikethrough = true }, default = true })
  vim.api.nvim_set_hl(0, 'LspCalibEditPlace', { underline = true, cterm = { underline = true }, default = true })
  vim.api.nvim_set_hl(0, 'LspCalibEditNew', { link = 'DiffAdd', default = true })
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

--- Tier, words and probability of a suggestion: of a block, those of its first line, and how far they hold.
function M.verdict(suggestion)
  local lines = suggestion.lines or {}
  local tier, through = (lines[1] or suggestion).tier, 0
  while lines[through + 1] and lines[through + 1].tier == tier do through = through + 1 end
  if through == #lines then return tier, tier, suggestion.confidence end
  return tier, ('%s through line %d'):format(tier, through), lines[through].confidence
end

--- The byte behind so many units of a line, at most its last one. encoding: a server's, "utf-16" unless given.
function M.bytes_of(text, units, encoding)
  encoding = encoding or 'utf-16'
  if encoding == 'utf-8' then return math.min(units, #text) end
  if vim.fn.has('nvim-0.11') == 1 then return vim.str_byteindex(text, encoding, units, false) end
  local utf32, utf16 = vim.str_utfindex(text)
  return vim.str_byteindex(text, math.min(units, encoding == 'utf-16' and utf16 or utf32), encoding == 'utf-16')
end

--- The word that ends the part that can be trusted, of a line that is not to be accepted as a whole; nil if that part
--- is too short to take, or there is none.
function M.sure_word(suggestion)
  local sure, first = suggestion.sure, suggestion.lines and suggestion.lines[1] or suggestion
  if first.tier == 'accept' or type(sure) ~= 'table' or sure['end'] < 4 then return end
  local part = suggestion.text:sub(1, M.bytes_of(suggestion.text, sure['end']))
  return part:match('([%w_\128-\255]+)$') or part:match('[^%w_%s\128-\255]+$')
end

--- A probability in whole percent. What is not certain reads neither 0 nor 100 %.
local function percent(probability)
  if probability > 0 and probability < 0.005 then return '<1 %' end
  return probability >= 0.995 and probability < 1 and '>99 %' or ('%.0f %%'):format(100 * probability)
end

--- The badge of a suggestion and its tier; nil if the tier is not known.
function M.text(suggestion)
  local tier, words, confidence = M.verdict(suggestion)
  if not marks[tier] then return end
  local text = ('%s %s'):format(M.mark(tier), words)
  if type(confidence) == 'number' then text = ('%s %s'):format(text, percent(confidence)) end
  local word = M.sure_word(suggestion)
  return word and ('%s, sure up to %s'):format(text, word) or text, tier
end

return M
