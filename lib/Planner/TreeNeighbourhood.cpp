// SPDX-License-Identifier: Apache-2.0
// Tree moves: grow, price, solve, judge, accept.
#include "TreeNeighbourhood.h"

#include <algorithm>
#include <cmath>

#include "DualBound.h"

namespace autopar::planner {

TreeNeighbourhood::TreeNeighbourhood(const ReducedProblem &problem, std::vector<int32_t> choice,
                                     std::vector<double> prices, uint64_t seed)
    : problem(problem), now(std::move(choice)), guide(std::move(prices)), generator(seed) {
  held.assign(problem.room.size(), 0);
  change.assign(problem.room.size() + 1, 0);
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const ReducedNode &node = problem.nodes[i];
    for (size_t p = 0; p < node.memory.pieces.size(); ++p) {
      int64_t bytes = node.memory.bytes[p * node.cost.size() + static_cast<size_t>(now[i])];
      change[static_cast<size_t>(node.memory.pieces[p].begin)] += bytes;
      change[static_cast<size_t>(node.memory.pieces[p].end)] -= bytes;
    }
  }
  int64_t sum = 0;
  for (size_t t = 0; t < held.size(); ++t) {
    sum += change[t];
    held[t] = sum;
    over += std::max<int64_t>(0, sum - problem.room[t]);
  }
  std::fill(change.begin(), change.end(), 0);
  stamp.assign(problem.nodes.size(), 0);
  touched.assign(problem.nodes.size(), 0);
}

void TreeNeighbourhood::run(int64_t steps, int32_t firstSeed, int32_t lastSeed,
                            const std::function<bool()> &stop) {
  int64_t end = spent + steps;
  auto seeds = static_cast<uint64_t>(lastSeed - firstSeed);
  double logMost = std::log(std::max(4.0, std::min(2000.0, 0.5 * double(problem.nodes.size()))));
  for (int64_t moves = 0; spent < end && seeds > 0; ++moves) {
    if (moves % 16 == 0 && stop())
      break;
    double share = static_cast<double>(random(1u << 20)) / (1u << 20);
    auto most = static_cast<size_t>(std::exp(logMost * share));
    move(firstSeed + static_cast<int32_t>(random(seeds)), std::max<size_t>(1, most));
  }
}

/// An induced tree: a node joins when exactly one of its neighbours is in.
void TreeNeighbourhood::growTree(int32_t seed, size_t mostMembers) {
  ++round;
  members.clear();
  frontier.assign(1, seed);
  frontierParent.assign(1, -1);
  bool breadthFirst = random(2) == 0;
  size_t head = 0;
  while (head < frontier.size() && members.size() < mostMembers) {
    size_t at = breadthFirst ? head : head + random(frontier.size() - head);
    std::swap(frontier[at], frontier[head]);
    std::swap(frontierParent[at], frontierParent[head]);
    int32_t node = frontier[head], parent = frontierParent[head];
    ++head;
    auto index = static_cast<size_t>(node);
    if (stamp[index] == round || (parent >= 0 && touched[index] != 2 * round))
      continue;
    stamp[index] = round;
    Member member;
    member.node = node;
    member.parent = parent;
    for (const Arc &arc : problem.nodes[index].arcs) {
      auto other = static_cast<size_t>(arc.other);
      if (stamp[other] == round) {
        member.toParent = arc;
        continue;
      }
      // touched: 2 * round = one neighbour inside, 2 * round + 1 = several.
      bool first = touched[other] < 2 * round;
      touched[other] = first ? 2 * round : 2 * round + 1;
      if (first) {
        frontier.push_back(arc.other);
        frontierParent.push_back(static_cast<int32_t>(members.size()));
      }
    }
    members.push_back(member);
  }
}

/// Own costs and costs towards everything outside the tree.
void TreeNeighbourhood::loadCosts() {
  base.clear();
  for (Member &member : members) {
    const ReducedNode &node = problem.nodes[static_cast<size_t>(member.node)];
    member.offset = base.size();
    base.insert(base.end(), node.cost.begin(), node.cost.end());
    double *own = base.data() + member.offset;
    for (const Arc &arc : node.arcs) {
      auto other = static_cast<size_t>(arc.other);
      if (stamp[other] == round)
        continue;
      Arc back{arc.edge, member.node, !arc.forward};
      const double *row = problem.row(back, now[other]);
      for (int32_t k = 0; k < node.size(); ++k)
        own[k] += row[k];
      spent += node.size();
    }
  }
}

void TreeNeighbourhood::addUse(const std::vector<int32_t> &strategies, int64_t sign,
                               std::vector<int64_t> &changes) const {
  for (size_t m = 0; m < members.size(); ++m) {
    const ReducedNode &node = problem.nodes[static_cast<size_t>(members[m].node)];
    const int64_t *bytes = node.memory.bytes.data() + strategies[m];
    for (const Piece &piece : node.memory.pieces) {
      changes[static_cast<size_t>(piece.begin)] += sign * *bytes;
      changes[static_cast<size_t>(piece.end)] -= sign * *bytes;
      bytes += node.cost.size();
    }
  }
}

/// What the tree may hold per time point; false when it cannot overfill any.
bool TreeNeighbourhood::loadRoom() {
  firstTime = static_cast<int32_t>(problem.room.size());
  lastTime = 0;
  for (const Member &member : members)
    for (const Piece &piece : problem.nodes[static_cast<size_t>(member.node)].memory.pieces) {
      firstTime = std::min(firstTime, piece.begin);
      lastTime = std::max(lastTime, piece.end);
    }
  outside = over;
  if (firstTime >= lastTime)
    return false;
  before.clear();
  for (const Member &member : members)
    before.push_back(now[static_cast<size_t>(member.node)]);
  addUse(before, 1, change);
  room.resize(problem.room.size());
  int64_t own = 0;
  for (auto t = static_cast<size_t>(firstTime); t < static_cast<size_t>(lastTime); ++t) {
    own += change[t];
    change[t] = 0;
    outside -= std::max<int64_t>(0, held[t] - problem.room[t]);
    room[t] = problem.room[t] - held[t] + own;
  }
  change[static_cast<size_t>(lastTime)] = 0;
  spent += lastTime - firstTime;
  // The most that the tree could hold.
  for (const Member &member : members) {
    const ReducedNode &node = problem.nodes[static_cast<size_t>(member.node)];
    const int64_t *bytes = node.memory.bytes.data();
    for (const Piece &piece : node.memory.pieces) {
      int64_t most = *std::max_element(bytes, bytes + node.cost.size());
      change[static_cast<size_t>(piece.begin)] += most;
      change[static_cast<size_t>(piece.end)] -= most;
      bytes += node.cost.size();
    }
    spent += static_cast<int64_t>(node.memory.bytes.size());
  }
  bool matters = false;
  int64_t most = 0;
  for (auto t = static_cast<size_t>(firstTime); t <= static_cast<size_t>(lastTime); ++t) {
    most += change[t];
    change[t] = 0;
    matters = matters || (t < static_cast<size_t>(lastTime) && most > room[t]);
  }
  return matters;
}

/// The cheapest choice of the tree under `priced`, into `chosen`.
void TreeNeighbourhood::solveTree() {
  for (size_t m = members.size(); m-- > 1;) {
    const Member &member = members[m];
    const Member &parent = members[static_cast<size_t>(member.parent)];
    int32_t count = problem.nodes[static_cast<size_t>(member.node)].size();
    int32_t parentCount = problem.nodes[static_cast<size_t>(parent.node)].size();
    message.resize(static_cast<size_t>(parentCount));
    minPlus(problem, member.toParent, priced.data() + member.offset, count, message.data(),
            parentCount);
    double *into = priced.data() + parent.offset;
    for (int32_t x = 0; x < parentCount; ++x)
      into[x] += message[static_cast<size_t>(x)];
    spent += int64_t(count) * parentCount;
  }
  chosen.resize(members.size());
  for (size_t m = 0; m < members.size(); ++m) {
    const Member &member = members[m];
    const double *own = priced.data() + member.offset;
    int32_t count = problem.nodes[static_cast<size_t>(member.node)].size();
    const double *row = nullptr;
    if (member.parent >= 0) {
      Arc back{member.toParent.edge, member.node, !member.toParent.forward};
      row = problem.row(back, chosen[static_cast<size_t>(member.parent)]);
    }
    int32_t best = 0;
    double least = 0;
    for (int32_t k = 0; k < count; ++k) {
      double all = own[k] + (row ? row[k] : 0);
      if (k == 0 || all < least) {
        least = all;
        best = k;
      }
    }
    chosen[m] = best;
    spent += count;
  }
}

/// Cost of the tree and overfill of everything; leaves the tree's use per time point in `use`.
Standing TreeNeighbourhood::judge(const std::vector<int32_t> &strategies) {
  Standing found{outside, 0};
  for (size_t m = 0; m < members.size(); ++m) {
    const Member &member = members[m];
    found.cost += base[member.offset + static_cast<size_t>(strategies[m])];
    if (member.parent >= 0)
      found.cost += problem.row(member.toParent,
                                strategies[m])[strategies[static_cast<size_t>(member.parent)]];
  }
  if (firstTime >= lastTime)
    return found;
  addUse(strategies, 1, change);
  use.resize(problem.room.size());
  int64_t own = 0;
  for (auto t = static_cast<size_t>(firstTime); t < static_cast<size_t>(lastTime); ++t) {
    own += change[t];
    change[t] = 0;
    use[t] = own;
    found.over += std::max<int64_t>(0, own - room[t]);
  }
  change[static_cast<size_t>(lastTime)] = 0;
  spent += lastTime - firstTime;
  return found;
}

/// A price at which the tree's members begin to care: cost spread per byte.
double TreeNeighbourhood::priceUnit() const {
  double costs = 0, bytes = 0;
  for (const Member &member : members) {
    const ReducedNode &node = problem.nodes[static_cast<size_t>(member.node)];
    const double *own = base.data() + member.offset;
    double least = own[0], most = own[0];
    for (int32_t k = 1; k < node.size(); ++k) {
      least = std::min(least, own[k]);
      if (own[k] < problem.forbidden / 2)
        most = std::max(most, own[k]);
    }
    costs += std::max(0.0, most - least);
    for (int64_t held : node.memory.bytes)
      bytes = std::max(bytes, static_cast<double>(held));
  }
  return bytes > 0 ? costs / static_cast<double>(members.size()) / bytes : 0;
}

/// Raises the price at the peak of every overfilled stretch; where nothing is overfilled, lowers
/// the prices of points with room to spare.
void TreeNeighbourhood::reprice(const Standing &found, double unit) {
  auto end = static_cast<size_t>(lastTime);
  for (auto t = static_cast<size_t>(firstTime); t < end; ++t) {
    if (use[t] <= room[t]) {
      if (found.over == outside)
        price[t] *= 0.5;
      continue;
    }
    size_t peak = t;
    for (; t < end && use[t] > room[t]; ++t)
      if (use[t] - room[t] > use[peak] - room[peak])
        peak = t;
    price[peak] = price[peak] * 1.2 + unit;
  }
}

void TreeNeighbourhood::accept(const std::vector<int32_t> &strategies, const Standing &found) {
  if (firstTime < lastTime) {
    judge(strategies);
    for (auto t = static_cast<size_t>(firstTime); t < static_cast<size_t>(lastTime); ++t)
      held[t] = problem.room[t] - room[t] + use[t];
  }
  for (size_t m = 0; m < members.size(); ++m)
    now[static_cast<size_t>(members[m].node)] = strategies[m];
  over = found.over;
}

void TreeNeighbourhood::move(int32_t seed, size_t mostMembers) {
  growTree(seed, mostMembers);
  loadCosts();
  bool memoryMatters = loadRoom();
  before.clear();
  for (const Member &member : members)
    before.push_back(now[static_cast<size_t>(member.node)]);
  Standing best = judge(before);
  std::vector<int32_t> bestChoice;
  double unit = 0;
  int tries = memoryMatters ? 8 : 1;
  if (memoryMatters) {
    price.assign(guide.begin(), guide.end());
    unit = 0.05 * priceUnit();
  }
  for (int attempt = 0; attempt < tries; ++attempt) {
    priced = base;
    if (memoryMatters) {
      prefix.assign(price.size() + 1, 0);
      for (auto t = static_cast<size_t>(firstTime); t < static_cast<size_t>(lastTime); ++t)
        prefix[t + 1] = prefix[t] + price[t];
      for (const Member &member : members) {
        const ReducedNode &node = problem.nodes[static_cast<size_t>(member.node)];
        addPricedBytes(node, prefix, priced.data() + member.offset);
        spent += static_cast<int64_t>(node.memory.bytes.size());
      }
    }
    solveTree();
    Standing found = judge(chosen);
    bool sideways = found.over == best.over && found.cost == best.cost && bestChoice.empty() &&
                    chosen != before;
    if (found < best || sideways) {
      best = found;
      bestChoice = chosen;
    }
    if (attempt + 1 < tries) {
      reprice(found, unit);
      unit *= 1.6;
    }
  }
  if (!bestChoice.empty())
    accept(bestChoice, best);
}

} // namespace autopar::planner
