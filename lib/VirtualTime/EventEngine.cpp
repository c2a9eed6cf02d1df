// SPDX-License-Identifier: Apache-2.0
// In-order queues make every start time the maximum of a few end times. Tasks end in the order of
// time, since what shares a link depends on what is under way.
#include "autopar/VirtualTime/EventEngine.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

namespace autopar {
namespace {

std::string taskName(const VirtualProgram &program, size_t task) {
  return "task " + std::to_string(task) + " '" + program.tasks[task].name + "'";
}

Status verifyTask(const VirtualProgram &program, size_t at) {
  const VirtualTask &task = program.tasks[at];
  if (task.queues.empty())
    return Status::badInput(taskName(program, at) + ": is on no queue");
  for (int32_t queue : task.queues)
    if (queue < 0 || static_cast<size_t>(queue) >= program.queues.size())
      return Status::badInput(taskName(program, at) + ": queue " + std::to_string(queue) +
                              " does not exist");
  for (int32_t other : task.after)
    if (other < 0 || static_cast<size_t>(other) >= program.tasks.size())
      return Status::badInput(taskName(program, at) + ": waits for task " + std::to_string(other) +
                              ", which does not exist");
  if (!std::isfinite(task.durationUs) || task.durationUs < 0)
    return Status::badInput(taskName(program, at) + ": duration is negative or infinite");
  if (!std::isfinite(task.aloneUs) || task.aloneUs < 0)
    return Status::badInput(taskName(program, at) + ": a message of negative or infinite time");
  for (const SharedLinks::Use &use : task.path)
    if (task.aloneUs > 0 && (use.port < 0 || static_cast<size_t>(use.port) >= program.ports))
      return Status::badInput(taskName(program, at) + ": port " + std::to_string(use.port) +
                              " does not exist");
  for (const VirtualTask::Interruption &one : task.interrupts)
    if (one.queue < 0 || static_cast<size_t>(one.queue) >= program.queues.size() ||
        !std::isfinite(one.us) || one.us < 0)
      return Status::badInput(taskName(program, at) + ": an interruption of queue " +
                              std::to_string(one.queue) + ", which does not exist, or of a time " +
                              "that is negative or infinite");
  return Status::ok();
}

/// Who waits for whom: dependencies, and the predecessor on each queue.
struct WaitGraph {
  std::vector<std::vector<int32_t>> next;
  std::vector<int32_t> waiting;
};

WaitGraph buildWaitGraph(const VirtualProgram &program) {
  WaitGraph graph;
  graph.next.resize(program.tasks.size());
  graph.waiting.assign(program.tasks.size(), 0);
  std::vector<int32_t> last(program.queues.size(), -1);
  auto wait = [&](int32_t before, size_t task) {
    graph.next[static_cast<size_t>(before)].push_back(static_cast<int32_t>(task));
    ++graph.waiting[task];
  };
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    for (int32_t other : program.tasks[i].after)
      wait(other, i);
    for (int32_t queue : program.tasks[i].queues) {
      int32_t &before = last[static_cast<size_t>(queue)];
      if (before >= 0 && before != static_cast<int32_t>(i))
        wait(before, i);
      before = static_cast<int32_t>(i);
    }
  }
  return graph;
}

/// Follows unfinished predecessors until one repeats.
Status describeDeadlock(const VirtualProgram &program, const WaitGraph &graph) {
  std::vector<int32_t> blocker(program.tasks.size(), -1);
  size_t start = 0;
  for (size_t i = 0; i < program.tasks.size(); ++i)
    if (graph.waiting[i] > 0) {
      start = i;
      for (int32_t next : graph.next[i])
        blocker[static_cast<size_t>(next)] = static_cast<int32_t>(i);
    }
  std::vector<bool> seen(program.tasks.size(), false);
  while (!seen[start]) {
    seen[start] = true;
    start = static_cast<size_t>(blocker[start]);
  }
  std::string names = taskName(program, start);
  for (auto at = static_cast<size_t>(blocker[start]); at != start;
       at = static_cast<size_t>(blocker[at]))
    names += " waits for " + taskName(program, at);
  return Status::badInput("deadlock: " + names + " waits for " + taskName(program, start));
}

/// Tasks under way, in the order in which they end.
class Agenda {
public:
  explicit Agenda(const VirtualProgram &program)
      : program(program), links(program.ports), freeUs(program.queues.size(), 0) {}

  /// When the task begins, which may be later where its queue is interrupted.
  double start(double now, int32_t number) {
    const VirtualTask &task = program.tasks[static_cast<size_t>(number)];
    double begin = now;
    if (task.aloneUs <= 0) {
      for (int32_t queue : task.queues)
        begin = std::max(begin, freeUs[static_cast<size_t>(queue)]);
      for (int32_t queue : task.queues)
        freeUs[static_cast<size_t>(queue)] = begin + task.durationUs;
      ends.push({begin + task.durationUs, number});
    } else {
      startMessage(now, number);
    }
    for (const VirtualTask::Interruption &one : task.interrupts) {
      double &free = freeUs[static_cast<size_t>(one.queue)];
      free = std::max(free, begin) + one.us;
    }
    return begin;
  }
  void startMessage(double now, int32_t number) {
    const VirtualTask &task = program.tasks[static_cast<size_t>(number)];
    auto flow = static_cast<size_t>(links.begin(now, task.aloneUs, task.path));
    sender.resize(std::max(sender.size(), flow + 1));
    sender[flow] = number;
  }
  /// The next task that ends, and when; -1 where none is under way.
  std::pair<double, int32_t> next() {
    auto isNextFlow = [&](double at) {
      return std::isfinite(at) && (ends.empty() || at <= ends.top().first);
    };
    // All bytes of a message have arrived; the rest of its task depends on nobody.
    for (double at = links.nextEnd(); isNextFlow(at); at = links.nextEnd())
      for (int32_t flow : links.finish(at)) {
        int32_t number = sender[static_cast<size_t>(flow)];
        ends.push({at + program.tasks[static_cast<size_t>(number)].durationUs, number});
      }
    if (ends.empty())
      return {0, -1};
    auto end = ends.top();
    ends.pop();
    return end;
  }

private:
  using End = std::pair<double, int32_t>;
  const VirtualProgram &program;
  SharedLinks links;
  std::vector<int32_t> sender; ///< by flow
  std::vector<double> freeUs;  ///< by queue
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
};

} // namespace

Result<VirtualRun> runVirtualTime(const VirtualProgram &program) {
  for (size_t i = 0; i < program.tasks.size(); ++i)
    AUTOPAR_RETURN_IF_ERROR(verifyTask(program, i));
  WaitGraph graph = buildWaitGraph(program);
  VirtualRun run;
  run.tasks.resize(program.tasks.size());
  run.timelines.resize(program.queues.size());
  Agenda agenda(program);
  for (size_t i = 0; i < program.tasks.size(); ++i)
    if (graph.waiting[i] == 0)
      run.tasks[i].startUs = agenda.start(0, static_cast<int32_t>(i));
  size_t done = 0;
  for (auto [now, at] = agenda.next(); at >= 0; std::tie(now, at) = agenda.next(), ++done) {
    run.tasks[static_cast<size_t>(at)].endUs = run.makespanUs = now;
    for (int32_t next : graph.next[static_cast<size_t>(at)])
      if (--graph.waiting[static_cast<size_t>(next)] == 0)
        run.tasks[static_cast<size_t>(next)].startUs = agenda.start(now, next);
  }
  if (done < program.tasks.size())
    return describeDeadlock(program, graph);
  for (size_t i = 0; i < program.tasks.size(); ++i) {
    std::vector<int32_t> queues = program.tasks[i].queues;
    std::sort(queues.begin(), queues.end());
    queues.erase(std::unique(queues.begin(), queues.end()), queues.end());
    for (int32_t queue : queues)
      run.timelines[static_cast<size_t>(queue)].push_back(static_cast<int32_t>(i));
  }
  return run;
}

} // namespace autopar
