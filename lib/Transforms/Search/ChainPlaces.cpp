// SPDX-License-Identifier: Apache-2.0
// Where a forward chain may be cut: where little is sent, all along it; and beside the places of
// such a cut also where more is sent, so that stages come out even that a layer, or half of one, is
// too large a step for.
#include "ForwardChain.h"

using namespace mlir;
using namespace mlir::autopar;

/// Of the mean stage's work: a fine place is the cheapest within so much on both sides.
static constexpr double kFine = 1.0 / 64;
/// How many of the cheap places lie between a place and where it may move to.
static constexpr size_t kReach = 2;

/// The ends, and the places where little is sent: no worse than those around them. At most about
/// 200 of them, the cheapest first; of those that cost the same, as the layers of a deep model,
/// some everywhere. And beside operations whose stage is demanded.
std::vector<int32_t> ForwardChain::placesToCut(int32_t stages) const {
  constexpr size_t most = 200;
  int32_t end = static_cast<int32_t>(ops.size());
  std::vector<int32_t> places;
  for (int32_t place = 1; place < end; ++place)
    if (crossing[place] <= crossing[place - 1] && crossing[place] < crossing[place + 1])
      places.push_back(place);
  auto loss = llvm::lower_bound(places, lossBegin);
  if (loss != places.end())
    places.erase(loss + 1, places.end());
  if (static_cast<int32_t>(places.size()) + 1 < stages) {
    places.clear();
    for (int32_t place = 1; place < end; ++place)
      places.push_back(place);
  }
  llvm::sort(places, [&](int32_t a, int32_t b) {
    return std::pair(crossing[a], a) < std::pair(crossing[b], b);
  });
  if (size_t room = std::max<size_t>(most, stages); places.size() > room) {
    auto isCheaper = [&](int32_t place) { return crossing[place] < crossing[places[room]]; };
    auto isNoDearer = [&](int32_t place) { return crossing[place] <= crossing[places[room]]; };
    size_t first = llvm::partition_point(places, isCheaper) - places.begin();
    size_t equal = llvm::partition_point(places, isNoDearer) - places.begin() - first;
    for (size_t i = first; i < room; ++i)
      places[i] = places[first + (i - first) * equal / (room - first)];
    places.resize(room);
  }
  for (int32_t i = 0; i < static_cast<int32_t>(demanded.size()); ++i)
    if (demanded[i] >= 0)
      places.insert(places.end(), {i, i + 1});
  places.push_back(0);
  places.push_back(end);
  llvm::sort(places);
  places.erase(llvm::unique(places), places.end());
  return places;
}

/// Whether no place within so much work sends less; of those that send the same it is the last.
bool ForwardChain::isCheapest(int32_t place, double withinUs) const {
  const std::vector<double> &workUs = times.at(&cluster.typeOfDevice(0));
  auto end = static_cast<int32_t>(ops.size());
  for (int32_t other = place - 1; other > 0 && workUs[place] - workUs[other] <= withinUs; --other)
    if (crossing[other] < crossing[place])
      return false;
  for (int32_t other = place + 1; other < end && workUs[other] - workUs[place] <= withinUs; ++other)
    if (crossing[other] <= crossing[place])
      return false;
  return true;
}

std::vector<int32_t> ForwardChain::placesBeside(ArrayRef<int32_t> cut, ArrayRef<int32_t> cheap,
                                                int32_t stages) const {
  double withinUs = kFine * times.at(&cluster.typeOfDevice(0)).back() / stages;
  std::vector<int32_t> places{cheap.front(), cheap.back()};
  for (int32_t own : cut) {
    size_t index = llvm::find(cheap, own) - cheap.begin();
    size_t first = index - std::min(index, kReach),
           last = std::min(index + kReach, cheap.size() - 1);
    llvm::append_range(places, cheap.slice(first, last - first + 1));
    for (int32_t place = cheap[first] + 1; place < std::min(lossBegin, cheap[last]); ++place)
      if (isCheapest(place, withinUs))
        places.push_back(place);
  }
  llvm::sort(places);
  places.erase(llvm::unique(places), places.end());
  return places;
}
