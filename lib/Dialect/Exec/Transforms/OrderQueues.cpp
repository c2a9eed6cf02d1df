// SPDX-License-Identifier: Apache-2.0
// Dependencies between queues, from the bytes that instructions touch: run after memory is planned,
// so that reuse of bytes is seen too.
#include "ProgramRounds.h"

#include "autopar/Artifact/Program.h"
#include "autopar/Dialect/Exec/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"

#include <functional>
#include <limits>
#include <map>
#include <tuple>

namespace mlir::exec {
#define GEN_PASS_DEF_ORDERQUEUESPASS
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
using ::autopar::artifact::kQueueCount;

constexpr int32_t kNobody = std::numeric_limits<int32_t>::max();

struct Range {
  Space space;
  int64_t begin, end;
  bool meets(const Range &other) const {
    return space == other.space && begin < other.end && other.begin < end;
  }
  bool covers(const Range &other) const {
    return space == other.space && begin <= other.begin && other.end <= end;
  }
};

struct Access {
  Queue queue;
  SmallVector<Range, 4> reads, writes;
  /// Per queue: the last instruction of it known to be complete, as all before it, when this one
  /// starts; -1 throughout for queues that end in any order.
  int32_t knows[kQueueCount];
  /// Of an instruction of a queue that ends in any order, per queue that does not: the first
  /// instruction of it that waited for this one. Whoever knows that to be complete need not.
  int32_t awaitedBy[kQueueCount];
};

bool anyMeets(ArrayRef<Range> a, ArrayRef<Range> b) {
  return llvm::any_of(a, [&](const Range &x) {
    return llvm::any_of(b, [&](const Range &y) { return x.meets(y); });
  });
}

/// Who touched bytes last of a queue that ends in order: stretches that do not meet, of which each
/// was touched as a whole.
class LastTouched {
public:
  void add(const Access &access, int32_t index) {
    for (const Range &range : access.reads)
      forEachIn(range, [&](Stretch &stretch) { stretch.reader = index; });
    // Who waits for whoever touched them before waits for this one too.
    for (const Range &range : access.writes) {
      Stretches &own = spaces[range.space];
      own.erase(cutAt(own, range.begin), cutAt(own, range.end));
      own[range.begin] = {range.end, -1, index};
    }
  }
  /// The last one that conflicts with `after`; -1: none.
  int32_t conflicting(const Access &after) const {
    int32_t last = -1;
    auto meet = [&](const Range &range, bool isWritten) {
      auto found = spaces.find(range.space);
      if (found == spaces.end())
        return;
      auto next = found->second.upper_bound(range.begin);
      if (next != found->second.begin() && std::prev(next)->second.end > range.begin)
        --next;
      for (; next != found->second.end() && next->first < range.end; ++next)
        last = std::max({last, next->second.writer, isWritten ? next->second.reader : -1});
    };
    for (const Range &range : after.reads)
      meet(range, false);
    for (const Range &range : after.writes)
      meet(range, true);
    return last;
  }

private:
  struct Stretch {
    int64_t end;
    int32_t reader = -1, writer = -1;
  };
  using Stretches = std::map<int64_t, Stretch>; ///< by where they begin

  /// The first stretch that begins there or behind it; none goes across from then on.
  static Stretches::iterator cutAt(Stretches &own, int64_t place) {
    auto next = own.lower_bound(place);
    if (next == own.begin())
      return next;
    Stretch &before = std::prev(next)->second;
    if (before.end <= place)
      return next;
    Stretch behind = std::exchange(before, {place, before.reader, before.writer});
    return own.emplace_hint(next, place, behind);
  }
  /// With stretches for bytes that nobody touched.
  void forEachIn(const Range &range, function_ref<void(Stretch &)> call) {
    Stretches &own = spaces[range.space];
    auto next = cutAt(own, range.begin), last = cutAt(own, range.end);
    for (int64_t place = range.begin; place < range.end;) {
      if (next == last || next->first > place)
        next = own.emplace_hint(next, place, Stretch{next == last ? range.end : next->first});
      call(next->second);
      place = next->second.end;
      ++next;
    }
  }

  std::map<Space, Stretches> spaces;
};

/// The instructions of a queue that ends in any order, by the bytes that they touch: any of them
/// may still run, and messages share few places. Those whose bytes are overwritten are forgotten:
/// who conflicts with them conflicts with what overwrote them too, and that has waited for them.
class Unfinished {
public:
  void add(const Access &access, int32_t index) {
    for (const Range &range : access.reads)
      placeOf(range, false).push_back(index);
    for (const Range &range : access.writes)
      placeOf(range, true).push_back(index);
  }
  void forgetOverwritten(const Access &access) {
    for (auto &[place, by] : places)
      if (!by.empty() && llvm::any_of(access.writes, [&, &range = place.first](const Range &write) {
            return write.covers(range);
          }))
        by.clear();
  }
  /// Those that conflict with `after`, the last first.
  SmallVector<int32_t> conflicting(const Access &after) const {
    SmallVector<int32_t> found;
    for (const auto &[place, by] : places) {
      const auto &[range, isWritten] = place;
      if (by.empty())
        continue;
      if (anyMeets(range, after.writes) || (isWritten && anyMeets(range, after.reads)))
        llvm::append_range(found, by);
    }
    llvm::sort(found, std::greater<>());
    found.erase(llvm::unique(found), found.end());
    return found;
  }

private:
  SmallVector<int32_t> &placeOf(const Range &range, bool isWritten) {
    auto key = std::make_tuple(range.space, range.begin, range.end, isWritten);
    auto [known, isNew] = numbers.try_emplace(key, places.size());
    if (isNew)
      places.push_back({{range, isWritten}, {}});
    return places[known->second].second;
  }

  std::map<std::tuple<Space, int64_t, int64_t, bool>, size_t> numbers;
  std::vector<std::pair<std::pair<Range, bool>, SmallVector<int32_t>>> places;
};

struct OrderQueuesPass : exec::impl::OrderQueuesPassBase<OrderQueuesPass> {
  using Base::Base;

  void runOnOperation() override {
    for (auto buffer : getOperation().getOps<BufferOp>())
      if (!buffer.getOffset()) {
        buffer.emitOpError("has no offset: plan memory before ordering queues");
        return signalPassFailure();
      }
    for (auto port : getOperation().getOps<PortOp>())
      if (port.getGuards())
        guards.push_back(port.getBuffer());
    ProgramRounds rounds(getOperation());
    order(rounds.order());
    for (auto entry : getOperation().getOps<EntryOp>())
      if (!llvm::is_contained(rounds.order(), entry))
        order(entry);
    guards.clear();
  }

private:
  SmallVector<Value> guards; ///< what instructions that commit read besides their operands

  static bool endsInAnyOrder(size_t queue) {
    return ::autopar::artifact::endsInAnyOrder(static_cast<::autopar::artifact::Queue>(queue));
  }

  static SmallVector<Range, 4> rangesOf(ArrayRef<Value> buffers) {
    SmallVector<Range, 4> ranges;
    for (Value value : buffers) {
      auto [buffer, offset] = rootOf(value);
      int64_t begin = *buffer.getOffset() + offset;
      auto [slots, stride] = slotsOf(value);
      if (int64_t bytes = (slots - 1) * stride + bytesOf(value); bytes > 0)
        ranges.push_back({buffer.getSpace(), begin, begin + bytes});
    }
    return ranges;
  }

  static bool isKnown(const Access &message, const Access &access) {
    return llvm::any_of(llvm::seq(kQueueCount), [&](size_t queue) {
      return message.awaitedBy[queue] <= access.knows[queue];
    });
  }

  /// What an instruction waits for, of its own row and of those before.
  struct Waits {
    SmallVector<int32_t, 2> after;
    SmallVector<std::pair<Operation *, int32_t>, 0> awaits; ///< entries, indices in them
  };
  /// One run of an entry.
  struct Row {
    Operation *entry;
    int32_t begin; ///< of all instructions that run
    std::vector<Waits> *waits;
  };

  /// Entries that run one behind the other; of one that does so twice, the second time stands for
  /// all behind it.
  void order(ArrayRef<EntryOp> entries) {
    std::vector<Access> accesses;
    std::vector<Row> rows;
    std::map<Operation *, std::vector<Waits>> waits; ///< by entry
    int32_t lastOf[kQueueCount];
    llvm::fill(lastOf, -1);
    LastTouched touched[kQueueCount];
    Unfinished unfinished[kQueueCount];
    for (EntryOp entry : entries) {
      std::vector<Waits> &own = waits[entry];
      own.resize(entry.getBody().front().getOperations().size());
      rows.push_back({entry, static_cast<int32_t>(accesses.size()), &own});
      orderRow(rows, accesses, lastOf, touched, unfinished);
    }
    for (auto &[entry, own] : waits)
      for (auto [op, found] : llvm::zip_equal(cast<EntryOp>(entry).getBody().front(), own))
        set(&op, found);
  }

  static void set(Operation *op, Waits &found) {
    auto sort = [](auto &list) {
      llvm::sort(list);
      list.erase(llvm::unique(list), list.end());
    };
    sort(found.after);
    cast<InstructionOpInterface>(op).setAfter(found.after);
    if (found.awaits.empty())
      return;
    sort(found.awaits);
    llvm::MapVector<Operation *, SmallVector<int32_t>> byEntry;
    for (auto [entry, index] : found.awaits)
      byEntry[entry].push_back(index);
    NamedAttrList awaits;
    for (auto &[entry, indices] : byEntry)
      awaits.set(cast<EntryOp>(entry).getSymName(),
                 DenseI32ArrayAttr::get(op->getContext(), indices));
    op->setAttr("awaits", awaits.getDictionary(op->getContext()));
  }

  static void wait(ArrayRef<Row> rows, int32_t earlier, Waits &own) {
    const Row *row = std::prev(llvm::upper_bound(
        rows, earlier, [](int32_t index, const Row &row) { return index < row.begin; }));
    int32_t index = earlier - row->begin;
    if (row == &rows.back()) {
      own.after.push_back(index);
      return;
    }
    own.awaits.emplace_back(row->entry, index);
    // Only the last run of an instruction can be named: of those that end in any order each waits
    // for the one before.
    const Row *next = std::next(row);
    if (next->entry == row->entry && next != &rows.back())
      (*row->waits)[index].awaits.emplace_back(row->entry, index);
  }

  void orderRow(ArrayRef<Row> rows, std::vector<Access> &accesses, int32_t (&lastOf)[kQueueCount],
                LastTouched (&touched)[kQueueCount], Unfinished (&unfinished)[kQueueCount]) {
    int32_t begin = rows.back().begin;
    for (Operation &op : cast<EntryOp>(rows.back().entry).getBody().front()) {
      auto instruction = cast<InstructionOpInterface>(op);
      int32_t index = accesses.size();
      Waits &waits = (*rows.back().waits)[index - begin];
      Access access{instruction.getQueue(),
                    rangesOf(instruction.getReads()),
                    rangesOf(instruction.getWrites()),
                    {},
                    {}};
      llvm::fill(access.awaitedBy, kNobody);
      if (op.hasAttr("commits"))
        llvm::append_range(access.reads, rangesOf(guards));
      size_t own = static_cast<size_t>(access.queue);
      for (size_t queue = 0; queue < kQueueCount; ++queue)
        access.knows[queue] =
            lastOf[own] < 0 || endsInAnyOrder(own) ? -1 : accesses[lastOf[own]].knows[queue];
      if (!endsInAnyOrder(own))
        access.knows[own] = index - 1;
      auto waitFor = [&](int32_t earlier) {
        wait(rows, earlier, waits);
        for (size_t other = 0; other < kQueueCount; ++other)
          access.knows[other] = std::max(access.knows[other], accesses[earlier].knows[other]);
      };
      for (size_t queue = 0; queue < kQueueCount; ++queue) {
        if (endsInAnyOrder(queue) || queue == own)
          continue;
        int32_t earlier = touched[queue].conflicting(access);
        if (earlier <= access.knows[queue])
          continue;
        waitFor(earlier);
        access.knows[queue] = std::max(access.knows[queue], earlier);
      }
      for (Unfinished &messages : unfinished) {
        for (int32_t earlier : messages.conflicting(access)) {
          if (isKnown(accesses[earlier], access))
            continue;
          waitFor(earlier);
          if (int32_t &awaited = accesses[earlier].awaitedBy[own]; !endsInAnyOrder(own))
            awaited = std::min(awaited, index);
        }
        messages.forgetOverwritten(access);
      }
      lastOf[own] = index;
      if (endsInAnyOrder(own))
        unfinished[own].add(access, index);
      else
        touched[own].add(access, index);
      accesses.push_back(std::move(access));
    }
  }
};
} // namespace
