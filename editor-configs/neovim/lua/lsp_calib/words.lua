-- What the server answers, in sentences.
local M = {}
local badges = require('lsp_calib.badges')

local function is_given(value) return value ~= nil and value ~= vim.NIL and value ~= '' end

local function count(n, one, many) return ('%d %s'):format(n, n == 1 and one or many) end

--- Names and numbers of a table that are not 0, such as "3 accept, 1 reject"; '' if all are 0.
local function numbers(table_, order)
  local parts = {}
  for _, name in ipairs(order or vim.fn.sort(vim.tbl_keys(table_))) do
    if (table_[name] or 0) > 0 then table.insert(parts, ('%d %s'):format(table_[name], name)) end
  end
  return table.concat(parts, ', ')
end

--- Where a calibrator comes from, and its state where that is another word.
local function from(calibrator)
  local state = badges.words(calibrator.state)
  return state == calibrator.source and state or ('%s, %s'):format(calibrator.source, state)
end

function M.status(status)
  local lines = { is_given(status.message) and status.message or badges.words(status.state) }
  local function say(text) table.insert(lines, text) end
  if is_given(status.model) then say('Model: ' .. status.model .. '.') end
  if is_given(status.slow) then say(status.slow) end
  if is_given(status.calibrator) then
    local it = status.calibrator
    say(('Calibrator: %s, %s (%s).'):format(from(it), count(it.n, 'label', 'labels'), it.id))
  end
  if is_given(status.note) then say(status.note) end
  if is_given(status.certificate) and is_given(status.certificate.reason) then
    say('Certificate: ' .. status.certificate.reason)
  end
  local shown = numbers(status.tiers or {}, { 'accept', 'review', 'reject' })
  say(shown == '' and 'No suggestion was shown since the start.' or 'Shown since the start: ' .. shown .. '.')
  if (status.hidden or 0) > 0 then say(('Hidden, because none of them is sure enough (hideBelow): %d.'):format(status.hidden)) end
  local withheld = numbers(status.withheld or {})
  if withheld ~= '' then say('Answers with nothing to offer: ' .. withheld .. '.') end
  local latency = status.latencyMs or {}
  if is_given(latency.p50) then
    say(('Half of the answers came within %.0f ms, 95 %% within %.0f ms.'):format(latency.p50, latency.p95))
  end
  return table.concat(lines, '\n')
end

local function fit(result)
  local what = result.promoted and 'a new calibrator is in force' or 'the calibrator stays as it was'
  return ('%s: %s (%s).'):format(what, result.reason, count(result.n, 'label', 'labels'))
end

function M.refit(result)
  if type(result.languages) ~= 'table' then return fit(result) end
  local lines = {}
  for _, one in ipairs(result.languages) do table.insert(lines, one.language .. ': ' .. fit(one)) end
  return table.concat(lines, '\n')
end

--- Why a suggestion has its tier.
function M.why(suggestion)
  local text, tier = badges.text(suggestion)
  local it = suggestion.calibrator
  local calibrator = is_given(it) and ('The probability comes from calibrator %s (%s, %s).'):format(it.id,
    from(it), count(it.n, 'label', 'labels')) or 'No probability can be given.'
  local meaning, reason = badges.words(tier or suggestion.tier), is_given(suggestion.reason) and suggestion.reason or ''
  -- The reason of a rejected line says them with numbers, where there are any.
  local said = reason:find(meaning, 1, true) and reason or ('%s. %s'):format(meaning, reason)
  return ('%s: %s\n%s Model: %s.'):format(text or suggestion.tier, said, calibrator, suggestion.model)
end

--- Of the last request in a buffer. result: the answer of `lsp-calib.explain`.
function M.explain(result)
  return result and result.message
    or 'the last request for a completion here had a suggestion, or there was no request yet.'
end

function M.export(result)
  return ('%s exported to %s.'):format(count(result.n, 'suggestion was', 'suggestions were'), result.path)
end

function M.purge(result) return count(result.n, 'suggestion was', 'suggestions were') .. ' removed.' end

function M.pause(minutes)
  return 'paused ' .. (minutes and ('for %g minutes.'):format(minutes) or 'until :LspCalib resume.')
end

function M.insert(result) return result.applied and 'the summary is in place.' or nil end

return M
