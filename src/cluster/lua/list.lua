-- Jobs of one set of a topic, without bodies; nothing is written. ARGV[REST]: set (s, r, p, d); where to go
-- on: score and member (empty: at the beginning); entries to look at; jobs to give; states that are wanted
-- (2 delayed, 4 ready, 8 reserved, 16 dead); due from, due to (0: no end); only behind this: due time (of
-- dead ones: time of death) and id (empty: all); tag (empty: any).
--
-- OK, now, versions, '', score, member (where to go on; empty: all were looked at), then id and header of each, by
-- due time (time of death) and id. Store and dead are in that order, so when enough were found the rest is
-- behind them; ready and prep are not: of what was looked at the first are given, and all must be looked at.
--
-- What time did to a job is told as if it had been done; but one that is dead by that is not told at all until
-- housekeeping has moved it.

local is = call('HGET', META, 'uuid')
if not is then
    return {'NOSLOT'}
elseif is ~= ARGV[1] then
    return {'OTHER', is}
end
local list, why = topics()
if not list then
    return why
end
local t, set, score, member = list[1], ARGV[REST], ARGV[REST + 1], ARGV[REST + 2]
local look, most, states = tonumber(ARGV[REST + 3]), tonumber(ARGV[REST + 4]), tonumber(ARGV[REST + 5])
local due_from, due_to = tonumber(ARGV[REST + 6]), tonumber(ARGV[REST + 7])
local after, after_id, tag = tonumber(ARGV[REST + 8]), ARGV[REST + 9], ARGV[REST + 10]
local in_order = set == 's' or set == 'd'

if in_order and score == '' and after_id ~= '' then
    score, member = dec(after), after_id
elseif set == 's' and score == '' and due_from > 0 then
    score, member = dec(due_from), '' -- behind nothing: from there on
end
local key = ({s = t.store, r = t.ready, p = t.prep, d = t.dead})[set]
local ids, members, more = walk(key, score, member, look)

local function state(j)
    if j.set == 's' and j.due > now then
        return 2
    end
    return ({s = 4, r = 4, p = 8, d = 16})[j.set]
end

local function at(j)
    return set == 'd' and j.at or j.due
end

local function is_wanted(j)
    local bit = state(j)
    return states % (2 * bit) >= bit and (j.set == 'd') == (set == 'd') and j.due >= due_from and
               (due_to == 0 or j.due < due_to) and
               (after_id == '' or at(j) > after or (at(j) == after and j.id > after_id)) and
               (tag == '' or texts(j) == tag)
end

local jobs = {}
if #ids > 0 then
    for i, h in ipairs(call('HMGET', HEAD, unpack(ids))) do
        local j = h and load(t, ids[i], h)
        if j and j.set == set then
            if set == 's' and due_to > 0 and j.due >= due_to then
                more = nil
                break
            end
            settle(j)
            if is_wanted(j) then
                jobs[#jobs + 1] = j
            end
            if in_order and #jobs == most and i < #ids then
                more, members[#members] = dec(set == 's' and j.was_due or j.was_at), ids[i]
                break
            end
        end
    end
end
if not in_order then
    table.sort(jobs, function(a, b)
        if a.due ~= b.due then
            return a.due < b.due
        end
        return a.id < b.id
    end)
end
local reply = {'OK', hex(now), versions(list), '', more or '', more and members[#members] or ''}
for i = 1, math.min(most, #jobs) do
    reply[#reply + 1], reply[#reply + 2] = jobs[i].id, header(jobs[i])
end
return reply
