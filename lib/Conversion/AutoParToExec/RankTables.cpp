// SPDX-License-Identifier: Apache-2.0
// What differs between the ranks: boxes of ports, members of groups, positions along axes.
#include "ProgramBuilder.h"

using namespace mlir;
using namespace mlir::autopar;

/// The place of a rank, row-major over the axes.
static int64_t placeOf(MeshOp mesh, int64_t rank) {
  return mesh.getDevices() ? llvm::find(*mesh.getDevices(), rank) - mesh.getDevices()->begin()
                           : rank;
}

static SmallVector<int64_t> coordinatesOf(MeshOp mesh, int64_t rank) {
  int64_t position = placeOf(mesh, rank);
  SmallVector<int64_t> coordinates(mesh.getSizes().size());
  for (size_t i = coordinates.size(); i-- > 0; position /= mesh.getSizes()[i])
    coordinates[i] = position % mesh.getSizes()[i];
  return coordinates;
}

static int64_t rankAt(MeshOp mesh, ArrayRef<int64_t> coordinates) {
  int64_t position = 0;
  for (auto [coordinate, size] : llvm::zip(coordinates, mesh.getSizes()))
    position = position * size + coordinate;
  return mesh.getDevices() ? (*mesh.getDevices())[position] : position;
}

static int64_t axisNumber(MeshOp mesh, Attribute axis) {
  return llvm::find(mesh.getAxes(), axis) - mesh.getAxes().begin();
}

/// Row-major position of a rank along `axes`.
static int64_t positionAlong(MeshOp mesh, ArrayAttr axes, int64_t rank) {
  SmallVector<int64_t> coordinates = coordinatesOf(mesh, rank);
  int64_t position = 0;
  for (Attribute axis : axes) {
    int64_t number = axisNumber(mesh, axis);
    position = position * mesh.getSizes()[number] + coordinates[number];
  }
  return position;
}

/// A group of world ranks, for one of them: the ranks that differ from it on `axes` only, ordered
/// row-major over `axes`.
static SmallVector<int32_t> groupMembers(MeshOp mesh, ArrayAttr axes, int64_t rank) {
  SmallVector<int64_t> coordinates = coordinatesOf(mesh, rank);
  int64_t size = mesh.axesSize(axes);
  SmallVector<int32_t> members;
  for (int64_t member = 0; member < size; ++member) {
    int64_t rest = member;
    for (Attribute axis : llvm::reverse(axes)) {
      int64_t number = axisNumber(mesh, axis);
      coordinates[number] = rest % mesh.getSizes()[number];
      rest /= mesh.getSizes()[number];
    }
    members.push_back(rankAt(mesh, coordinates));
  }
  return members;
}

/// The box of a global tensor that a rank holds under a sharding (null: all of it). Ranks that
/// differ only on axes that it does not use are its replicas.
static exec::ShardAttr shardOf(RankedTensorType global, ShardingAttr sharding, MeshOp mesh,
                               int64_t rank, int64_t firstReplica) {
  SmallVector<int64_t> offset(global.getRank(), 0), extent(global.getShape());
  SmallVector<bool> used(mesh ? mesh.getAxes().size() : 0, false);
  for (int64_t dim = 0; sharding && dim < global.getRank(); ++dim) {
    ArrayAttr axes = sharding.getDims()[dim];
    int64_t shards = mesh.axesSize(axes), size = global.getDimSize(dim);
    int64_t step = llvm::divideCeil(size, shards);
    offset[dim] = std::min(size, positionAlong(mesh, axes, rank) * step);
    extent[dim] = std::min(size, offset[dim] + step) - offset[dim];
    for (Attribute axis : axes)
      used[axisNumber(mesh, axis)] = true;
  }
  // Ranks that differ on unused axes only hold the same box.
  int64_t replica = 0;
  if (mesh) {
    SmallVector<int64_t> coordinates = coordinatesOf(mesh, rank);
    for (size_t axis = 0; axis < used.size(); ++axis)
      if (!used[axis])
        replica = replica * mesh.getSizes()[axis] + coordinates[axis];
  }
  MLIRContext *context = global.getContext();
  return exec::ShardAttr::get(context, DenseI64ArrayAttr::get(context, offset),
                              DenseI64ArrayAttr::get(context, extent), firstReplica + replica);
}

int64_t ProgramBuilder::groupOver(MeshOp mesh, ArrayAttr axes) {
  for (auto [index, group] : llvm::enumerate(collectiveGroups))
    if (group.mesh == mesh && group.axes == axes)
      return index;
  collectiveGroups.push_back({mesh, axes});
  return collectiveGroups.size() - 1;
}

int64_t ProgramBuilder::numberOf(SmallVector<NumberedPositions> &list, NumberedPositions wanted) {
  auto found = llvm::find(list, wanted);
  int64_t number = found - list.begin();
  if (found == list.end())
    list.push_back(wanted);
  return number;
}

int64_t ProgramBuilder::permutationOver(MeshOp mesh, ArrayAttr axes, DenseI64ArrayAttr sources) {
  return numberOf(permutations, {mesh, axes, sources});
}

MeshOp ProgramBuilder::meshOf(Operation *op, FlatSymbolRefAttr symbol, ArrayAttr axes) {
  auto mesh = symbols.lookup<MeshOp>(symbol.getAttr());
  if (!mesh) {
    op->emitOpError() << "names the mesh " << symbol << ", which does not exist";
    return {};
  }
  for (StringAttr axis : axes.getAsRange<StringAttr>())
    if (!mesh.axisSize(axis.getValue())) {
      op->emitOpError() << "names the axis " << axis << ", which " << symbol << " does not have";
      return {};
    }
  return mesh;
}

int64_t ProgramBuilder::peerAt(int64_t mesh, DenseI32ArrayAttr ranks) {
  auto it = llvm::find(peers, std::pair(mesh, ranks));
  if (it != peers.end())
    return it - peers.begin();
  peers.emplace_back(mesh, ranks);
  return peers.size() - 1;
}

void ProgramBuilder::createRankTable(OpBuilder &builder, ArrayRef<MeshOp> meshes, int64_t rank) {
  MeshOp mesh = meshes.empty() ? MeshOp() : meshes[number];
  // Metrics are on all meshes, and one rank's is reported.
  int64_t ranksBefore = 0;
  for (MeshOp other : meshes.take_front(number))
    ranksBefore += other.rankCount();
  SmallVector<Attribute> groups, moves, shards;
  SmallVector<int64_t> values;
  SmallVector<int32_t> peerRanks;
  for (const CollectiveGroup &group : collectiveGroups)
    groups.push_back(builder.getDenseI32ArrayAttr(groupMembers(group.mesh, group.axes, rank)));
  for (const NumberedPositions &index : shardIndices) {
    int64_t position = positionAlong(index.mesh, index.axes, rank);
    values.append({index.numbers ? index.numbers[position] : position, 0, 0, 0, 0, 0, 0, 0});
  }
  for (const NumberedPositions &permutation : permutations) {
    SmallVector<int32_t> members = groupMembers(permutation.mesh, permutation.axes, rank);
    ArrayRef<int64_t> sources = permutation.numbers;
    int64_t position = positionAlong(permutation.mesh, permutation.axes, rank);
    int32_t sendTo = members[llvm::find(sources, position) - sources.begin()];
    moves.push_back(builder.getDenseI32ArrayAttr({sendTo, members[sources[position]]}));
  }
  for (const PortInfo &port : ports)
    shards.push_back(
        shardOf(port.global, port.sharding, mesh, rank, port.isMetric ? ranksBefore : 0));
  for (auto &[other, ranks] : peers) {
    int64_t place = placeOf(mesh, rank);
    MeshOp far = meshes[other];
    peerRanks.push_back(ranks              ? ranks[place]
                        : far.getDevices() ? (*far.getDevices())[place]
                                           : place);
  }
  exec::RankOp::create(builder, module.getLoc(), rank, program.getSymName(),
                       builder.getArrayAttr(groups), peerRanks, builder.getArrayAttr(moves), values,
                       builder.getArrayAttr(shards));
}
