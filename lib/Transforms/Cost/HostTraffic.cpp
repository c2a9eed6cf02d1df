// SPDX-License-Identifier: Apache-2.0
// See the header. Whether bytes are free is what large states make others wait for: an embedding
// table's leave while many small ones could come.
#include "HostTraffic.h"

#include "autopar/Cost/CostModel.h"
#include "autopar/Cost/HostGroups.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/Sharding.h"

#include <algorithm>
#include <numeric>
#include <utility>

using namespace mlir;
using namespace mlir::autopar;

static SmallVector<Value, 4> onHostOf(Operation *op) {
  SmallVector<Value, 4> found;
  for (Value operand : op->getOperands()) {
    auto argument = dyn_cast<BlockArgument>(operand);
    if (argument && isOnHost(argument) && !llvm::is_contained(found, operand))
      found.push_back(argument);
  }
  return found;
}

void HostTraffic::plan(const std::vector<Operation *> &ops,
                       function_ref<bool(Operation *)> isUpdate) {
  llvm::DenseMap<Value, int64_t> sizes;
  int64_t all = 0;
  for (Operation *op : ops)
    for (Value value : onHostOf(op))
      if (auto [it, isNew] = sizes.try_emplace(value, tensorBytes(tensorTypeOf(value))); isNew)
        all += it->second;
  llvm::DenseMap<Value, size_t> inGroup;
  int64_t group = -1, begin = 0, bytes = 0;
  bool updates = false;
  for (Operation *op : ops) {
    SmallVector<Value, 4> values = onHostOf(op);
    if (values.empty())
      continue;
    bool isFirst = group < 0 || updates != isUpdate(op);
    if (isFirst || bytes >= ::autopar::mostHostGroupBytes(all)) {
      begin = isFirst ? group + 1 : begin;
      ++group;
      bytes = 0;
      inGroup.clear();
    }
    updates = isUpdate(op);
    Use &use = uses[op] = {updates, isFirst, {}};
    for (Value value : values) {
      auto [it, isNew] = inGroup.try_emplace(value, copies.size());
      use.copies.push_back(it->second);
      if (!isNew)
        continue;
      auto ahead = static_cast<int64_t>(::autopar::kHostGroupsAhead);
      copies.push_back({group, std::max(begin, group - ahead), sizes[value]});
      bytes += sizes[value];
    }
  }
  place();
}

void HostTraffic::place() {
  std::vector<size_t> order(copies.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(-copies[a].bytes, a) < std::make_pair(-copies[b].bytes, b);
  });
  // Copies stand in the order of their groups, so those of groups close by are neighbours.
  auto nearby = [&](size_t at, auto visit) {
    int64_t reach = ::autopar::kHostGroupsAhead;
    for (size_t i = at; i-- > 0 && copies[i].group + reach >= copies[at].group;)
      visit(i);
    for (size_t i = at + 1; i < copies.size() && copies[i].group <= copies[at].group + reach; ++i)
      visit(i);
  };
  std::vector<char> isPlaced(copies.size(), 0);
  for (size_t at : order) {
    Copy &own = copies[at];
    SmallVector<std::pair<int64_t, int64_t>> taken;
    nearby(at, [&](size_t i) {
      const Copy &other = copies[i];
      if (isPlaced[i] && other.firstGroup <= own.group && own.firstGroup <= other.group)
        taken.emplace_back(other.offset, other.offset + other.bytes);
    });
    llvm::sort(taken);
    for (auto [begin, end] : taken)
      if (begin < own.offset + own.bytes)
        own.offset = std::max(own.offset, end);
    isPlaced[at] = 1;
  }
  // Of those that had the bytes, the last group leaves last.
  for (size_t at = 0; at < copies.size(); ++at) {
    Copy &own = copies[at];
    for (size_t i = at; i-- > 0;) {
      const Copy &other = copies[i];
      if (other.group >= own.firstGroup || other.offset >= own.offset + own.bytes ||
          own.offset >= other.offset + other.bytes)
        continue;
      if (!own.before.empty() && copies[own.before.front()].group != other.group)
        break;
      own.before.push_back(i);
    }
  }
}

double HostTraffic::fetch(Operation *op, double computeUs) {
  auto use = uses.find(op);
  if (use == uses.end())
    return 0;
  if (use->second.isFirst)
    inUs = std::max(inUs, computeUs);
  for (size_t at : use->second.copies) {
    Copy &copy = copies[at];
    if (std::exchange(copy.isThere, true))
      continue;
    for (size_t other : copy.before)
      inUs = std::max(inUs, copies[other].goneUs);
    inUs += copyUs(static_cast<double>(copy.bytes));
  }
  return inUs;
}

void HostTraffic::store(Operation *op, double endUs) {
  auto use = uses.find(op);
  if (use == uses.end())
    return;
  for (size_t at : llvm::reverse(use->second.copies)) {
    if (use->second.isUpdate)
      store(copies[at].bytes, endUs);
    copies[at].goneUs = use->second.isUpdate ? outUs : endUs;
  }
}

void HostTraffic::store(int64_t bytes, double endUs) {
  outUs = std::max(outUs, endUs) + copyUs(static_cast<double>(bytes));
}

double HostTraffic::copyUs(double bytes) const { return ::autopar::hostCopyUs(bytes, *link); }
