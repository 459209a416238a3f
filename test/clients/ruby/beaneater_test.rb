# The whole API of beaneater against the server on a port: ruby beaneater_test.rb PORT
# Prints "ok NAME" for each part; the first wrong answer ends it.
require 'beaneater'

KEYS = %w[current_jobs_urgent current_jobs_ready current_jobs_reserved current_jobs_delayed
          current_jobs_buried cmd_put cmd_peek cmd_peek_ready cmd_peek_delayed cmd_peek_buried
          cmd_reserve cmd_reserve_with_timeout cmd_delete cmd_release cmd_use cmd_watch cmd_ignore
          cmd_bury cmd_kick cmd_touch cmd_stats cmd_stats_job cmd_stats_tube cmd_list_tubes
          cmd_list_tube_used cmd_list_tubes_watched cmd_pause_tube job_timeouts total_jobs
          max_job_size current_tubes current_connections current_producers current_workers
          current_waiting total_connections pid version rusage_utime rusage_stime uptime
          binlog_oldest_index binlog_current_index binlog_records_migrated
          binlog_records_written binlog_max_size draining id hostname os platform].freeze
JOB_KEYS = %w[id tube state pri age delay ttr time_left file reserves timeouts releases buries
              kicks].freeze

def same(got, want)
  raise "got #{got.inspect}, want #{want.inspect}" unless got == want
end

def fails(kind)
  yield
rescue kind
  nil
else
  raise "no #{kind}"
end

def part(name)
  yield
  puts "ok #{name}"
end

port = Integer(ARGV[0])
client = Beaneater.new("127.0.0.1:#{port}")
other = Beaneater.new("127.0.0.1:#{port}")
tube = client.tubes['ruby.work']

part 'put and reserve' do
  late = tube.put('late', pri: 1000)
  soon = tube.put("first \x00\xff\r\nline".b, pri: 10, ttr: 33)
  same late[:status], 'INSERTED'
  job = tube.reserve
  same job.id, soon[:id]
  same job.body.b, "first \x00\xff\r\nline".b
  same [job.pri, job.ttr, job.delay, job.tube], [10, 33, 0, 'ruby.work']
  same job.reserved?, true
  same job.exists?, true
  job.delete
  same job.exists?, false
  fails(Beaneater::NotFoundError) { job.delete }
  tube.reserve(1) { |found| same found.body, 'late' }.delete
end

part 'reserve with a timeout' do
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  fails(Beaneater::TimedOutError) { tube.reserve(0) }
  fails(Beaneater::TimedOutError) { tube.reserve(1) }
  waited = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
  raise "waited #{waited}" if waited < 0.99
end

part 'delay' do
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  id = tube.put('later', delay: 1)[:id]
  same tube.peek(:delayed).id, id
  same client.jobs.find(id).stats.state, 'delayed'
  job = tube.reserve(10)
  same job.id, id
  raise 'early' if Process.clock_gettime(Process::CLOCK_MONOTONIC) - start < 0.99
  job.delete
end

part 'release, touch, bury, kick' do
  id = tube.put('round')[:id]
  job = tube.reserve(5)
  job.touch
  job.release(pri: 7, delay: 60)
  same job.stats.to_h.slice('state', 'pri', 'delay', 'releases'),
       'state' => 'delayed', 'pri' => 7, 'delay' => 60, 'releases' => 1
  fails(Beaneater::JobNotReserved) { job.touch }
  job.kick
  same job.stats.state, 'ready'
  same tube.peek(:ready).id, id
  job = tube.reserve(5)
  job.bury(pri: 5)
  same tube.peek(:buried).id, id
  same job.stats.state, 'buried'
  same tube.kick(10)[:status], 'KICKED'
  same client.jobs[id].stats.kicks, 2
  job = tube.reserve(5)
  job.release(delay: 0)
  tube.reserve(5).delete
  fails(Beaneater::NotFoundError) { job.kick }
  same client.jobs.find(id), nil
end

part 'a job of another connection' do
  id = tube.put('mine')[:id]
  job = tube.reserve(5)
  theirs = other.jobs.find(id)
  fails(Beaneater::NotFoundError) { theirs.delete }
  fails(Beaneater::NotFoundError) { other.connection.transmit("touch #{id}") }
  job.release(delay: 60)
  theirs.delete
  same job.exists?, false
end

part 'deadline soon, time to run' do
  tube.put('short', ttr: 1)
  job = tube.reserve(5)
  fails(Beaneater::DeadlineSoonError) { tube.reserve(5) }
  job.touch
  job.delete
end

part 'watch, ignore, use' do
  client.tubes.watch!('ruby.a', 'ruby.b')
  same client.tubes.watched.map(&:name).sort, %w[ruby.a ruby.b]
  client.tubes.ignore('ruby.a')
  fails(Beaneater::NotIgnoredError) { client.tubes.ignore('ruby.b') }
  client.tubes.watch('ruby.a')
  client.tubes.use('ruby.c')
  same client.tubes.used.name, 'ruby.c'
  same client.tubes.all.map(&:name).sort & %w[default ruby.a ruby.b ruby.c ruby.work],
       %w[default ruby.a ruby.b ruby.c]
  fails(Beaneater::InvalidTubeName) { client.tubes.watch('ruby a!') }
end

part 'pause' do
  id = tube.put('paused')[:id]
  tube.pause(60)
  same tube.stats.pause, 60
  fails(Beaneater::TimedOutError) { tube.reserve(0) }
  tube.pause(0)
  same tube.reserve(5).id, id
  client.jobs.find(id).delete
  fails(Beaneater::NotFoundError) { client.tubes['ruby.nowhere'].pause(1) }
end

part 'stats' do
  stats = client.stats
  same KEYS - stats.keys, []
  same stats.max_job_size, 65_535
  same stats.total_jobs, 7
  same stats.current_connections, 2
  tube.put('x')
  same tube.stats.to_h.slice('name', 'current_jobs_ready', 'current_jobs_buried'),
       'name' => 'ruby.work', 'current_jobs_ready' => 1, 'current_jobs_buried' => 0
  same JOB_KEYS - tube.peek(:ready).stats.keys, []
  fails(Beaneater::NotFoundError) { client.tubes['ruby.nowhere'].stats }
end

part 'clear' do
  tube.put('y', delay: 60)
  tube.clear
  same %i[ready delayed buried].map { |state| tube.peek(state) }, [nil, nil, nil]
end

part 'limits' do
  id = tube.put('z' * 65_535)[:id]
  same client.jobs.find(id).body, 'z' * 65_535
  fails(Beaneater::JobTooBigError) { tube.put('z' * 65_536) }
  client.jobs.find(id).delete
end

part 'worker' do
  done = []
  3.times { |i| tube.put("job #{i}") }
  tube.put('fails')
  Thread.new do
    sleep 0.01 until other.tubes['ruby.work'].stats.current_jobs_buried == 1
    other.tubes['ruby.work'].put('stop')
  end
  client.jobs.register('ruby.work') do |job|
    raise 'as told' if job.body == 'fails'
    raise Beaneater::AbortProcessingError if job.body == 'stop'

    done << job.body
  end
  client.jobs.process!(reserve_timeout: 10)
  same done, ['job 0', 'job 1', 'job 2']
  same tube.peek(:buried).body, 'fails'
end

client.close
other.close
puts 'ok all'
