// SPDX-License-Identifier: Apache-2.0
// Which launches of a program may run as one, as far as their order decides.
#pragma once

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SmallVector.h"

#include <list>

namespace mlir::autopar {

/// Addresses that a launch can be given: PTX 8.0 has 4,096 bytes for them.
constexpr size_t kMostBuffers = 512;
/// Bytes that a launch moves, if others than updates are to be joined with it: a few times what a
/// GPU moves while a launch begins.
constexpr int64_t kMostJoinedBytes = 16 << 20;
/// Groups that a launch is held against, the last ones first: programs of deep models have a
/// hundred thousand launches.
constexpr int64_t kMostHeldAgainst = 256;

/// Groups of launches. A launch joins others where nothing in between needs their order: it runs as
/// early as they do, or they as late as it does. It passes no instruction of another queue on the
/// way to the front, which would begin later. `GroupT` has a type `Candidate` with `isUpdate`, is
/// made of the first one, and knows `fits(candidate)`, `add(candidate)`, `mayRunAt(candidate,
/// time)` for one that comes earlier, `mayWaitUntil(time)`, and what it `reads()` and `writes()`.
template <typename GroupT>
class JoinOrder {
public:
  using Candidate = typename GroupT::Candidate;
  using Roots = llvm::SmallDenseSet<const void *>; ///< what holds values, whole

  struct Group {
    GroupT launches;
    int64_t time, lastMember; ///< their place, and that of the last that joined them
    bool mayMove = true;      ///< nothing behind them needs them to have run
  };

  /// The next instruction; `candidate` is null where it is not to be joined.
  void visit(const Roots &reads, const Roots &writes, bool isOnOtherQueue,
             const Candidate *candidate) {
    hold(reads, writes);
    int64_t time = now;
    if (isOnOtherQueue)
      fence = now;
    if (candidate) {
      Group &group = join(*candidate, afterWhat(reads, writes));
      time = group.time;
      for (const void *root : reads)
        readers[root].push_back(&group);
      for (const void *root : writes)
        writers[root].push_back(&group);
    }
    record(reads, writes, time);
    ++now;
  }

  std::list<Group> take() { return std::move(groups); }

private:
  using Times = llvm::DenseMap<const void *, int64_t>;
  using Holders = llvm::DenseMap<const void *, llvm::SmallVector<Group *, 2>>;

  /// What groups need of the order is known: those on which the instruction depends stay.
  void hold(const Roots &reads, const Roots &writes) {
    auto holdAll = [](const Holders &held, const void *root) {
      if (auto found = held.find(root); found != held.end())
        for (Group *group : found->second)
          group->mayMove = false;
    };
    for (const void *root : reads)
      holdAll(writers, root);
    for (const void *root : writes) {
      holdAll(writers, root);
      holdAll(readers, root);
    }
  }

  /// The last instruction that has to run before.
  int64_t afterWhat(const Roots &reads, const Roots &writes) const {
    int64_t last = fence;
    for (const void *root : reads)
      last = std::max(last, lastWrite.lookup_or(root, -1));
    for (const void *root : writes)
      last = std::max({last, lastWrite.lookup_or(root, -1), lastRead.lookup_or(root, -1)});
    return last;
  }

  void record(const Roots &reads, const Roots &writes, int64_t time) {
    for (const void *root : reads)
      lastRead[root] = std::max(lastRead.lookup_or(root, -1), time);
    for (const void *root : writes)
      lastWrite[root] = std::max(lastWrite.lookup_or(root, -1), time);
  }

  Group &join(const Candidate &candidate, int64_t after) {
    int64_t left = kMostHeldAgainst;
    for (auto group = groups.rbegin(); group != groups.rend() && left-- > 0; ++group) {
      // Updates pass nothing: the host looks at what they wait for.
      if (candidate.isUpdate && group->lastMember + 1 != now)
        continue;
      bool mayRunEarlier = group->time > after, mayWait = group->mayMove && !candidate.isUpdate;
      if ((!mayRunEarlier && !mayWait) || !group->launches.fits(candidate))
        continue;
      if (mayRunEarlier && group->launches.mayRunAt(candidate, group->time)) {
        group->launches.add(candidate);
        group->lastMember = now;
        return *group;
      }
      if (!mayWait || !group->launches.mayWaitUntil(now))
        continue;
      group->launches.add(candidate);
      group->time = group->lastMember = now;
      record(group->launches.reads(), group->launches.writes(), now);
      groups.splice(groups.end(), groups, std::next(group).base());
      return groups.back();
    }
    return groups.emplace_back(Group{GroupT(candidate), now, now});
  }

  int64_t now = 0; ///< the number of the instruction
  int64_t fence = -1;
  std::list<Group> groups; ///< by their time
  Times lastRead, lastWrite;
  Holders readers, writers;
};

} // namespace mlir::autopar
