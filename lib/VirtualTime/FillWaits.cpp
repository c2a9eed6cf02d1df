// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/VirtualTime/FillWaits.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

using namespace autopar;

namespace {

/// What is shorter is not worth a kernel that keeps its operands.
constexpr double kLeastWaitUs = 10;
constexpr std::array<double, 4> kLeastWaitsUs = {64 * kLeastWaitUs, 16 * kLeastWaitUs,
                                                 4 * kLeastWaitUs, kLeastWaitUs};
/// How far back kernels are looked for.
constexpr size_t kReach = 1024;
/// How many of them are tried, and how many others may go with one.
constexpr size_t kMostTries = 4, kMostOfGroup = 8;

template <typename Range, typename Value>
bool contains(const Range &range, const Value &value) {
  return std::find(range.begin(), range.end(), value) != range.end();
}

/// Bytes that are kept up to some of the places, added up over ranges of them (Fenwick 1994): steps
/// of many micro-batches keep something at thousands.
class KeptBytes {
public:
  explicit KeptBytes(size_t places) : sums(places + 1, 0) {}
  void add(size_t to, int64_t bytes) {
    total += bytes;
    for (size_t i = to + 1; i < sums.size(); i += i & -i)
      sums[i] += bytes;
  }
  /// Of the places behind one.
  int64_t behind(size_t place) const {
    int64_t upTo = 0;
    for (size_t i = place + 1; i > 0; i -= i & -i)
      upTo += sums[i];
    return total - upTo;
  }

private:
  std::vector<int64_t> sums;
  int64_t total = 0;
};

class Filler {
public:
  Filler(const std::vector<QueuedTask> &all, int64_t mostBytes)
      : mostBytes(mostBytes), tasks(all.size()), order(all.size()), moved(all.size() + 1) {
    for (const QueuedTask &task : all)
      queues = std::max<size_t>(queues, task.queue + 1);
    lasts.resize((all.size() + 1) * queues);
    for (size_t i = 0; i < all.size(); ++i) {
      Task &own = tasks[i];
      own.given = &all[i];
      own.place = i;
      order[i] = &own;
      for (int32_t earlier : all[i].before) {
        own.before.push_back(&tasks[earlier]);
        tasks[earlier].after.push_back(&own);
      }
    }
  }

  FilledWaits run() {
    startFrom(0, order.size());
    double endUs = lastEndUs();
    // There are often fewer kernels than waits: the longest first.
    for (double leastUs : kLeastWaitsUs)
      for (size_t place = 0; place < order.size(); ++place) {
        start(place);
        while (order[place]->waitUs > leastUs && fill(place)) {
        }
      }
    FilledWaits filled;
    for (const Task *task : order)
      filled.order.push_back(static_cast<int32_t>(task - tasks.data()));
    filled.savedUs = endUs - lastEndUs();
    return filled;
  }

private:
  static constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

  struct Task {
    const QueuedTask *given = nullptr;
    size_t place = 0; ///< as it stands
    std::vector<Task *> before, after;
    double startUs = 0, waitUs = 0, endUs = 0;
    Task *previous = nullptr;       ///< of its queue
    Task *previousKernel = nullptr; ///< of a collective
    bool isMoved = false;
    /// Its group is refused, whatever waits, where what is waited for stands here or later: the
    /// later that stands, the more have to go along. That kernels changed places since is
    /// neglected.
    size_t hopelessFrom = kNowhere;

    bool isKernel() const { return given->queue == QueuedTask::kCompute; }
  };

  double lastEndUs() const {
    double us = 0;
    for (const Task &task : tasks)
      us = std::max(us, task.endUs);
    return us;
  }

  /// Whoever ends last of those that a task depends on.
  static Task *lastBefore(const Task &task) {
    auto last = std::max_element(task.before.begin(), task.before.end(),
                                 [](Task *a, Task *b) { return a->endUs < b->endUs; });
    return last == task.before.end() ? nullptr : *last;
  }

  /// Starts what stands at a place when its queue and all that it depends on are through.
  void start(size_t place) {
    Task &own = *order[place];
    int32_t queue = own.given->queue;
    Task **before = lasts.data() + place * queues, **behind = before + queues;
    std::copy(before, behind, behind);
    own.previous = nullptr;
    if (queue != QueuedTask::kNone)
      own.previous = std::exchange(behind[queue], &own);
    double freeUs = own.previous ? own.previous->endUs : 0;
    Task *last = lastBefore(own);
    own.startUs = std::max(freeUs, last ? last->endUs : 0);
    if (queue == QueuedTask::kCommunication)
      if ((own.previousKernel = before[QueuedTask::kCompute]))
        own.startUs = std::max(own.startUs, own.previousKernel->endUs);
    own.endUs = own.startUs + own.given->us;
    own.waitUs = own.isKernel() ? own.startUs - freeUs : 0;
  }

  void startFrom(size_t from, size_t end) {
    for (size_t place = from; place < end; ++place) {
      order[place]->place = place;
      start(place);
    }
  }

  /// The kernel that would have to end earlier for `waiting` to start earlier.
  static Task *kernelBehind(const Task &waiting) {
    Task *cause = lastBefore(waiting);
    while (cause && !cause->isKernel()) {
      if (Task *kernel = cause->previousKernel; kernel && kernel->endUs >= cause->startUs)
        return kernel;
      Task *last = lastBefore(*cause);
      cause = last && last->endUs >= cause->startUs ? last : cause->previous;
    }
    return cause;
  }

  /// A kernel with those that need it before what others wait for, in order.
  struct Group {
    std::vector<Task *> kernels;
    double us = 0;
    size_t to = 0; ///< the place that they may go before
  };

  /// Moves what fits best into the wait at a place, if anything makes that shorter.
  bool fill(size_t place) {
    std::vector<Group> groups;
    Task *behind = kernelBehind(*order[place]);
    for (Task *kernel = behind; kernel && place - kernel->place < kReach; kernel = earlier(*kernel))
      if (Group group = groupOf(*kernel, behind->place, place); !group.kernels.empty())
        groups.push_back(std::move(group));
    double waitUs = order[place]->waitUs;
    std::stable_sort(groups.begin(), groups.end(), [&](const Group &a, const Group &b) {
      return b.us < waitUs ? a.us > b.us : a.us >= waitUs && a.us < b.us;
    });
    if (groups.size() > kMostTries)
      groups.resize(kMostTries);
    return std::any_of(groups.begin(), groups.end(),
                       [&](const Group &group) { return moveIfShorter(group, place); });
  }

  /// What stands beside a collective that was waited for would be missing there.
  static Task *earlier(const Task &kernel) {
    return kernel.waitUs > 0 ? kernelBehind(kernel) : kernel.previous;
  }

  /// What goes from the place `behind`, or before it, to before `place`, or what needs it sooner.
  /// Empty where one of the group is no kernel or would not get far, or too much memory would be
  /// kept.
  Group groupOf(Task &kernel, size_t behind, size_t place) {
    if (behind >= kernel.hopelessFrom)
      return {};
    Group group{{&kernel}, 0, place};
    int64_t bytes = 0;
    for (size_t i = 0; i < group.kernels.size(); ++i) {
      Task &own = *group.kernels[i];
      if (!own.isKernel() || !own.given->mayMove || own.isMoved ||
          group.kernels.size() > kMostOfGroup) {
        kernel.hopelessFrom = behind;
        return {};
      }
      group.us += own.given->us;
      bytes += own.given->keptBytes;
      for (Task *other : own.after)
        if (other->place > behind)
          group.to = std::min(group.to, other->place);
        else if (!contains(group.kernels, other))
          group.kernels.push_back(other);
    }
    if (bytes + moved.behind(kernel.place) > mostBytes || group.to <= kernel.place + 1)
      return {};
    std::sort(group.kernels.begin(), group.kernels.end(),
              [](Task *a, Task *b) { return a->place < b->place; });
    return group;
  }

  bool moveIfShorter(const Group &group, size_t place) {
    size_t from = group.kernels.front()->place;
    double startUs = order[place]->startUs;
    auto first = order.begin() + from, last = order.begin() + group.to;
    std::vector<Task *> before(first, last);
    std::stable_partition(first, last, [&](Task *one) { return !contains(group.kernels, one); });
    startFrom(from, place + 1);
    if (order[place]->startUs > startUs - kLeastWaitUs) {
      std::copy(before.begin(), before.end(), first);
      startFrom(from, place + 1);
      return false;
    }
    for (Task *one : group.kernels) {
      one->isMoved = true;
      moved.add(group.to, one->given->keptBytes);
    }
    return true;
  }

  int64_t mostBytes;
  std::vector<Task> tasks;
  std::vector<Task *> order;
  size_t queues = QueuedTask::kCompute + 1;
  std::vector<Task *> lasts; ///< [place][queue]: before what stands there
  KeptBytes moved;           ///< where kernels went
};

} // namespace

FilledWaits autopar::fillWaits(const std::vector<QueuedTask> &tasks, int64_t mostBytes) {
  return Filler(tasks, mostBytes).run();
}
