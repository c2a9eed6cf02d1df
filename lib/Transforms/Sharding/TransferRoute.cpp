// SPDX-License-Identifier: Apache-2.0
// See the header. A rank of a mesh is known by its shard in every dimension and by its number among
// those that hold the same shards.
#include "autopar/Transforms/TransferRoute.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::autopar;

static bool divideEachOther(int64_t a, int64_t b) { return a % b == 0 || b % a == 0; }

TransferForms mlir::autopar::transferForms(ArrayRef<int64_t> shape, const TensorSharding &have,
                                           const MeshAxes &near, const TensorSharding &wanted,
                                           const MeshAxes &far) {
  TransferForms forms{have, wanted};
  forms.sent.partial.clear();
  forms.received.partial.clear();
  for (auto [extent, sent, received] :
       llvm::zip_equal(shape, forms.sent.dims, forms.received.dims)) {
    while (extent % far.shards(received))
      received.pop_back();
    while (extent % near.shards(sent) || !divideEachOther(near.shards(sent), far.shards(received)))
      sent.pop_back();
  }
  return forms;
}

namespace {

/// The ranks of a mesh by what they hold of a value.
struct Holders {
  SmallVector<int64_t> shards;             ///< per dimension
  SmallVector<SmallVector<int32_t>> ranks; ///< per shard, row-major: those that hold it
  SmallVector<std::pair<int64_t, int64_t>>
      places; ///< per point: shard, and number among its holders

  Holders(const TensorSharding &sharding, MeshOp op) {
    MeshAxes mesh = MeshAxes::of(op);
    int64_t count = 1;
    for (const AxisList &axes : sharding.dims) {
      shards.push_back(mesh.shards(axes));
      count *= shards.back();
    }
    ranks.resize(count);
    for (int64_t point = 0; point < op.rankCount(); ++point) {
      SmallVector<int64_t> at(mesh.sizes.size());
      for (int64_t axis = at.size(), rest = point; axis-- > 0; rest /= mesh.sizes[axis])
        at[axis] = rest % mesh.sizes[axis];
      int64_t shard = 0;
      for (const AxisList &axes : sharding.dims)
        for (int8_t axis : axes)
          shard = shard * mesh.sizes[axis] + at[axis];
      places.emplace_back(shard, ranks[shard].size());
      ranks[shard].push_back(op.getDevices() ? (*op.getDevices())[point] : point);
    }
  }
};

} // namespace

static SmallVector<int64_t> coordinates(int64_t number, ArrayRef<int64_t> grid) {
  SmallVector<int64_t> at(grid.size());
  for (size_t dim = grid.size(); dim-- > 0; number /= grid[dim])
    at[dim] = number % grid[dim];
  return at;
}

static int64_t numberOf(ArrayRef<int64_t> at, ArrayRef<int64_t> grid) {
  int64_t number = 0;
  for (auto [coordinate, extent] : llvm::zip_equal(at, grid))
    number = number * extent + coordinate;
  return number;
}

TransferRoute mlir::autopar::transferRoute(ArrayRef<int64_t> local, const TensorSharding &sent,
                                           MeshOp near, const TensorSharding &received,
                                           MeshOp far) {
  Holders senders(sent, near), receivers(received, far);
  TransferRoute route;
  SmallVector<int64_t> sendGrid; // parts of a sender's tensor
  for (auto [extent, have, want] : llvm::zip_equal(local, senders.shards, receivers.shards)) {
    sendGrid.push_back(std::max<int64_t>(1, want / have));
    route.grid.push_back(std::max<int64_t>(1, have / want));
    route.shape.push_back(extent / sendGrid.back());
  }
  int64_t copies = senders.ranks.front().size(), readers = receivers.ranks.front().size();
  auto startOf = [&](ArrayRef<int64_t> at) {
    return llvm::map_to_vector(llvm::zip_equal(at, route.shape),
                               [](auto pair) { return std::get<0>(pair) * std::get<1>(pair); });
  };
  // Reader r of a sender's part i gets it from copy (r + i) % copies, in the copy's turn r /
  // copies.
  for (int64_t part = 0; part < llvm::product_of(sendGrid); ++part) {
    SmallVector<int64_t> at = coordinates(part, sendGrid);
    for (int64_t turn = 0; turn * copies < readers; ++turn) {
      TransferRoute::Message &message = route.sends.emplace_back();
      message.start = startOf(at);
      for (auto [shard, copy] : senders.places) {
        SmallVector<int64_t> target = coordinates(shard, senders.shards);
        for (size_t dim = 0; dim < at.size(); ++dim)
          target[dim] = (target[dim] * sendGrid[dim] + at[dim]) / route.grid[dim];
        int64_t reader = turn * copies + ((copy - part) % copies + copies) % copies;
        message.peers.push_back(
            reader < readers ? receivers.ranks[numberOf(target, receivers.shards)][reader] : -1);
      }
    }
  }
  for (int64_t part = 0; part < llvm::product_of(route.grid); ++part) {
    SmallVector<int64_t> at = coordinates(part, route.grid);
    TransferRoute::Message &message = route.receives.emplace_back();
    message.start = startOf(at);
    for (auto [shard, reader] : receivers.places) {
      SmallVector<int64_t> source = coordinates(shard, receivers.shards), inside(at.size());
      for (size_t dim = 0; dim < at.size(); ++dim) {
        int64_t whole = source[dim] * route.grid[dim] + at[dim];
        source[dim] = whole / sendGrid[dim];
        inside[dim] = whole % sendGrid[dim];
      }
      int64_t copy = (reader + numberOf(inside, sendGrid)) % copies;
      message.peers.push_back(senders.ranks[numberOf(source, senders.shards)][copy]);
    }
  }
  return route;
}

FailureOr<TransferRoute> mlir::autopar::transferRoute(TransferOp transfer, MeshOp near,
                                                      MeshOp far) {
  auto sent = TensorSharding::fromAttr(transfer, *transfer.getFrom(), MeshAxes::of(near));
  auto received = TensorSharding::fromAttr(transfer, *transfer.getTo(), MeshAxes::of(far));
  if (failed(sent) || failed(received))
    return failure();
  return transferRoute(transfer.getInput().getType().getShape(), *sent, near, *received, far);
}
